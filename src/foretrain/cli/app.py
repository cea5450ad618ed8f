"""The commands and their options. Options are read as text; ``simulate.open`` checks them, so that all errors look alike."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from foretrain._version import __version__
from foretrain.cli.output import command_line, write_page, writing
from foretrain.core.errors import InputError

EXIT_OK, EXIT_BAD_INPUT = 0, 2
LONGEST_LINE = 2000

_PLAN = "Plan (what is not given is chosen and shown)"
_SETUP = "Setting"
_OUTPUT = "Output"


def _option(name: str, group: str, text: str) -> Parameter:
    return Parameter(name=name, group=group, help=text, allow_leading_hyphen=True, negative=(), show_default=False)


def _flag(name: str, text: str) -> Parameter:
    return Parameter(name=name, group=_OUTPUT, help=text, negative=(), show_default=False)


def _file(name: str, text: str) -> Parameter:
    return Parameter(name=name, group=_OUTPUT, help=text, negative=(), show_default=False)


def make_app() -> App:
    """The command tree."""
    app = App(
        name="foretrain",
        help="Time, memory, energy, cost and carbon of a training run, before it starts.",
        version=f"foretrain {__version__}",
        result_action="return_value",
    )
    app.command(simulate)
    catalog = App(name="catalog", help="What the catalogue knows.")
    catalog.command(list_entries, name="list")
    app.command(catalog)
    return app


def run(words: list[str]) -> int:
    """Run the command in ``words``; returns the exit code."""
    try:
        result = make_app()(words, exit_on_error=False, print_error=False)
    except InputError as error:
        return _refuse([str(problem) for problem in error.problems])
    except CycloptsError as error:
        return _refuse([str(error)])
    return result if isinstance(result, int) else EXIT_OK


def _refuse(messages: list[str]) -> int:
    """One ``error:`` line per message on stderr, control characters escaped and very long values cut in the middle."""
    for message in messages:
        text = " ".join(message.split())
        if len(text) > LONGEST_LINE:
            text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 4 :]}"
        print("error: " + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text), file=sys.stderr)
    return EXIT_BAD_INPUT


def simulate(
    model: str,
    /,
    *,
    on: Annotated[str | None, _option("--on", _SETUP, "System id of the catalogue, e.g. dgx-h100.")] = None,
    chips: Annotated[str | None, _option("--chips", _SETUP, "Number of chips (default: one server).")] = None,
    stack: Annotated[str | None, _option("--stack", _SETUP, "Software stack of the catalogue.")] = None,
    site: Annotated[str | None, _option("--site", _SETUP, "Site of the catalogue: PUE, grid, electricity price.")] = None,
    tokens: Annotated[str | None, _option("--tokens", _SETUP, "Tokens of the whole run, e.g. 15e12.")] = None,
    settings: Annotated[
        list[str] | None,
        _option("--set", _SETUP, "path=value on any field, repeatable, e.g. site.pue=1.2 or system.server.chip.hbm_byte='96 GiB'."),
    ] = None,
    tp: Annotated[str | None, _option("--tp", _PLAN, "Tensor-parallel degree.")] = None,
    pp: Annotated[str | None, _option("--pp", _PLAN, "Pipeline stages.")] = None,
    vpp: Annotated[str | None, _option("--vpp", _PLAN, "Model chunks per pipeline stage (interleaved schedule).")] = None,
    dp: Annotated[str | None, _option("--dp", _PLAN, "Data-parallel degree.")] = None,
    cp: Annotated[str | None, _option("--cp", _PLAN, "Context-parallel degree.")] = None,
    ep: Annotated[str | None, _option("--ep", _PLAN, "Expert-parallel degree.")] = None,
    etp: Annotated[str | None, _option("--etp", _PLAN, "Tensor-parallel degree of the experts.")] = None,
    microbatch_size: Annotated[str | None, _option("--microbatch-size", _PLAN, "Sequences per microbatch.")] = None,
    global_batch_size: Annotated[str | None, _option("--global-batch-size", _PLAN, "Sequences per optimizer step.")] = None,
    seq_len: Annotated[str | None, _option("--seq-len", _PLAN, "Tokens per sequence.")] = None,
    precision: Annotated[str | None, _option("--precision", _PLAN, "fp32, tf32, fp16, bf16 or fp8.")] = None,
    zero: Annotated[str | None, _option("--zero", _PLAN, "ZeRO stage, 0 to 3 (1: Megatron's distributed optimizer; 3: FSDP).")] = None,
    recompute: Annotated[str | None, _option("--recompute", _PLAN, "none, selective or full.")] = None,
    schedule: Annotated[str | None, _option("--schedule", _PLAN, "gpipe, 1f1b or interleaved.")] = None,
    json: Annotated[bool, _flag("--json", "Print everything as JSON.")] = False,
    csv: Annotated[bool, _flag("--csv", "Print one flat row, units in the column names.")] = False,
    assumptions: Annotated[bool, _flag("--assumptions", "Also list every chosen value and every source.")] = False,
    html: Annotated[str | None, _file("--html", "Also write the report as one HTML page to this file.")] = None,
) -> int:
    """Predict one training run: does it fit, how fast, how long, what does it cost.

    Out of memory is an answer (exit code 0); a broken rule or an unknown name is an error (exit code 2).

    Parameters
    ----------
    model
        Catalogue id (``foretrain catalog list models``), Hugging Face config.json or its folder, or a scenario YAML.
    """
    from foretrain.core.errors import Problem
    from foretrain.report.json import as_document
    from foretrain.simulate.open import open_scenario
    from foretrain.simulate.simulate import simulate_scenario

    if json + csv + assumptions > 1:
        raise InputError([Problem(field="output", message="--json, --csv and --assumptions exclude one another", allowed="one of them")])
    options: dict[str, object] = {
        "tp": tp, "pp": pp, "vpp": vpp, "dp": dp, "cp": cp, "ep": ep, "etp": etp,
        "microbatch_size": microbatch_size, "global_batch_size": global_batch_size, "seq_len": seq_len,
        "precision": precision, "zero": zero, "recompute": recompute, "schedule": schedule,
        "stack": stack, "site": site, "tokens": tokens,
    }  # fmt: skip
    scenario = open_scenario(model, on, chips, options, settings or ())
    document = as_document(scenario, simulate_scenario(scenario))
    if html is not None:
        from foretrain.report.html import page

        words = {"on": on, "chips": chips, **options}
        write_page(html, page(document, command_line(model, words, settings or ())))
    with writing():
        _print(document, json=json, csv=csv, assumptions=assumptions)
    return EXIT_OK


def _print(document: dict[str, Any], *, json: bool, csv: bool, assumptions: bool) -> None:
    """The document on stdout in the form that was asked for."""
    if json:
        from foretrain.report.json import dumps as as_json

        print(as_json(document))
    elif csv:
        from foretrain.report.csv import dumps as as_csv

        print(as_csv([document]), end="")
    else:
        from foretrain.report import text

        text.show([*text.screen(document), *(text.assumptions(document) if assumptions else [])], sys.stdout)


def list_entries(kind: str | None = None, /) -> int:
    """List catalogue ids: of all kinds, or of one (models, systems, sites, stacks ...).

    Parameters
    ----------
    kind
        The kind of entry.
    """
    import difflib

    from foretrain.catalog.loader import KINDS, ids
    from foretrain.core.errors import NotFoundError, Problem

    if kind is not None and kind not in KINDS:
        near = tuple(difflib.get_close_matches(kind, KINDS, n=2))
        raise NotFoundError([Problem(field="kind", value=kind, message="is not a kind of entry", allowed=", ".join(KINDS), nearest=near)])
    with writing():
        for name in KINDS if kind is None else ids(kind):
            print(f"{name}: {', '.join(ids(name))}" if kind is None else name)
    return EXIT_OK
