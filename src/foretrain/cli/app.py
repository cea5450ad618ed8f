"""The commands and their options. Options are read as text; ``simulate.open`` checks them, so that all errors look alike."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import App, CycloptsError

from foretrain._version import __version__
from foretrain.cli.catalog import make_catalog
from foretrain.cli.options import NOTHING, Given, flag
from foretrain.cli.output import writing
from foretrain.core.errors import InputError

EXIT_OK, EXIT_BAD_INPUT = 0, 2
LONGEST_LINE = 2000


def make_app() -> App:
    """The command tree."""
    app = App(
        name="foretrain",
        help="Time, memory, energy, cost and carbon of a training run, before it starts.",
        version=f"foretrain {__version__}",
        result_action="return_value",
    )
    app.command(simulate)
    app.command(make_catalog())
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
    given: Given = NOTHING,
    json: Annotated[bool, flag("--json", "Print everything as JSON.")] = False,
    csv: Annotated[bool, flag("--csv", "Print one flat row, units in the column names.")] = False,
    assumptions: Annotated[bool, flag("--assumptions", "Also list every chosen value and every source.")] = False,
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
    from foretrain.simulate.simulate import simulate_scenario

    if json + csv + assumptions > 1:
        raise InputError([Problem(field="output", message="--json, --csv and --assumptions exclude one another", allowed="one of them")])
    scenario = given.open(model)
    document = as_document(scenario, simulate_scenario(scenario))
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
