"""The one screen: at most 50 lines of 100 columns for a plan that fits, readable without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TextIO

from foretrain.core.record import record
from foretrain.report import figures

WIDTH = 100
HEIGHT = 50
MARGIN = 10
_LEFT = 46
_GAP = 4

STEP_LABEL = {
    "matmul": "matrix products",
    "attention": "attention kernels",
    "memory_bound": "memory-bound kernels",
    "recompute": "recomputation",
    "host": "launch and host",
    "tp_exposed": "exposed tensor-parallel comm",
    "cp_exposed": "exposed context-parallel comm",
    "ep_exposed": "exposed expert-parallel comm",
    "pp_exposed": "exposed pipeline comm",
    "dp_exposed": "exposed data-parallel comm",
    "bubble": "pipeline bubble",
    "host_optimizer": "optimizer on the host",
    "offload": "exposed offload transfers",
}
MEMORY_LABEL = {
    "master": "master weights",
    "moments": "optimizer moments",
    "working": "working tensors",
    "gathered": "gathered by ZeRO",
    "pipeline_buffers": "pipeline buffers",
    "offload_buffers": "offload buffers",
    "weight_copies": "8-bit copies of weights",
}
VERDICT = {"fits": "FITS", "marginal": "MARGINAL", "oom": "OUT OF MEMORY"}
_VERDICT_STYLE = {"fits": "bold green", "marginal": "bold yellow", "oom": "bold red"}
NEVER_ENDS = "failures come faster than the run can recover from them; there is no bill"
LEAST_GOODPUT = 5e-4
"""A goodput below this share is printed as 0.0 %."""
MARGINAL_ADVICE = "what is left is below the usual error of memory predictions; free some memory before you rely on it"
PHASE_LABEL = {"lost": "work lost to failures", "overhead": "between steps", "input": "waiting for data"}
CONVENTION = {
    "causal": "causal (attention counted where the mask lets through)",
    "palm": "PaLM (attention counted over the whole square)",
    "megatron": "Megatron-LM (attention counted over the whole square)",
    "6n": "6 N (no attention)",
    "convolutions": "3 x forward of convolutions and fully connected layers",
}
"""Words for names that do not explain themselves; all others are shown as they are."""

FEW = 0.1
PLAN_FIRST = ("strategy", "recipe", "model", "system")


@record
class Line:
    """``text`` behind a ``label`` in the margin; ``style`` is a rich style, for terminals only."""

    text: str
    label: str = ""
    style: str = ""

    def plain(self) -> str:
        """The line as it is piped."""
        return f"{self.label:<{MARGIN}}{self.text}".rstrip()


def screen(document: Mapping[str, Any]) -> list[Line]:
    """The report of one document (``report.json.as_document``)."""
    ok = document["verdict"]["ok"]
    body = [*_head(document), _BLANK, *(_tables(document) if ok else _side_by_side([], _memory_rows(document["memory"]))), _BLANK]
    if ok:
        bill = [_NEVER_ENDS] if never_ends(document) else [*_run(document), *_energy(document), *_cost(document), *_carbon(document)]
        body += [*_speed(document), *bill, _BLANK]
    tail = [*_numbers(document), *_warnings(document)]
    return [*body, *_chosen(document, HEIGHT - len(body) - len(tail)), *tail]


def never_ends(document: Mapping[str, Any]) -> bool:
    """Whether a plan that fits gets nowhere: no finite calendar time, or no goodput that could be printed."""
    run = document["run"]
    return bool(document["verdict"]["ok"]) and (run["wall_s"] is None or (run["goodput"] or 0.0) < LEAST_GOODPUT)


def assumptions(document: Mapping[str, Any]) -> list[Line]:
    """Everything that was not given: chosen values with their reasons, then the catalogue's numbers by source."""
    lines = [_BLANK, Line(label="chosen", text="values that were not given", style="bold")]
    for item in document["assumptions"]:
        lines += _wrapped("", _printable(f"{item['field']} = {item['value']}: {item['reason']}"), indent=4)
    lines += [_BLANK, Line(label="sources", text="catalogue numbers by source: value (kind, range)", style="bold")]
    for source in document["sources"]:
        about = ", ".join(str(source[key]) for key in ("title", "year", "url") if source.get(key))
        lines += _wrapped("", f"{source['key']}: {about}", indent=4)
        for value in source["values"]:
            span = f", {value['low']} to {value['high']}" if value["low"] or value["high"] else ""
            note = f"; {value['note']}" if value["note"] else ""
            lines += _wrapped("", f"  {value['path']} = {value['value']} ({value['kind']}{span}){note}", indent=6)
    return lines


def plain(lines: Sequence[Line]) -> str:
    """All lines as text without escape codes."""
    return "".join(f"{line.plain()}\n" for line in lines)


def show(lines: Sequence[Line], stream: TextIO) -> None:
    """Write ``lines``: styled on a terminal, plain everywhere else."""
    if not stream.isatty():
        stream.write(plain(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in lines:
        console.print(Text.assemble((f"{line.label:<{MARGIN}}", "bold cyan"), (line.text, line.style)), soft_wrap=True)


_BLANK = Line(text="")
_NEVER_ENDS = Line(label="run", text=f"NEVER ENDS: {NEVER_ENDS}", style="bold red")


def _wrapped(label: str, text: str, *, style: str = "", indent: int = 2) -> list[Line]:
    """``text`` broken at spaces to fit beside the margin; further lines are indented."""
    first = len(text) - len(text.lstrip(" "))
    rows = textwrap.wrap(
        text, WIDTH - MARGIN, initial_indent=" " * first, subsequent_indent=" " * indent, break_on_hyphens=False, drop_whitespace=True
    )
    return [Line(label=label if number == 0 else "", text=row, style=style) for number, row in enumerate(rows or [""])]


def _printable(text: object) -> str:
    """``text`` without control characters, which a model's name could carry."""
    return "".join(char if char.isprintable() else "?" for char in str(text))


def _head(document: Mapping[str, Any]) -> Iterator[Line]:
    s, verdict, memory = document["subject"], document["verdict"], document["memory"]
    params = figures.parameters(document["program"]["params_total"])
    title = f"{s['model']}, {params} parameters, on {s['num_chips']:,} x {s['chip']} ({s['system']})"
    yield from _wrapped("foretrain", _printable(title), style="bold")
    yield from _wrapped("plan", plan_words(s))
    need = f"{figures.gib(memory['device_byte'])} GiB of {figures.gib(memory['capacity_byte'])} GiB"
    share = f" ({memory['device_byte'] / memory['capacity_byte']:.1%})" if memory["capacity_byte"] > 0 else ""
    word, style = VERDICT[verdict["status"]], _VERDICT_STYLE[verdict["status"]]
    yield Line(label="verdict", text=f"{word}: worst stage {memory['worst_stage']} takes {need} on the device{share}", style=style)
    yield from _wrapped("", f"at the peak: {memory['peak_moment']}")
    if verdict["status"] == "marginal":
        yield Line(text=MARGINAL_ADVICE)
    if not verdict["ok"]:
        for reason in verdict["reasons"][1:]:
            yield from _wrapped("", reason)


def plan_words(s: Mapping[str, Any]) -> str:
    """The plan on one or two lines: degrees above 1 first, then batch, precision and the words."""
    degrees = [f"{name} {s[name]}" for name in ("tp", "pp", "vpp", "dp", "cp", "ep", "etp") if s[name] > 1] or ["one chip, no parallelism"]
    images = s["sample"] == "image"
    samples = "images" if images else f"sequences of {s['seq_len']:,} tokens"
    attention = "flash attention" if s["flash_attention"] else "attention not fused"
    words = [
        *degrees,
        f"microbatch {s['microbatch_size']} x {s['num_microbatches']} x dp {s['dp']} = {s['global_batch_size']:,} {samples}",
        s["precision"],
        f"zero {s['zero']}",
        f"recompute {s['recompute']}",
        s["schedule"] if s["pp"] > 1 else "",
        "sequence parallel" if s["sequence_parallel"] else "",
        "" if images else attention,
        s["optimizer"],
        *_offload_words(s),
        f"adapters of {s['adapters']}" if s["adapters"] else "",
        f"{s['weights']} weights" if s["weights"] == "nf4" else "",
        f"tokens to experts by {s['dispatcher']}" if s["dispatcher"] and s["ep"] > 1 else "",
        f"stack {s['stack']}",
    ]
    return ", ".join(word for word in words if word)


def _offload_words(s: Mapping[str, Any]) -> Iterator[str]:
    """What the plan keeps outside the chips."""
    place = "on the host" if s["offload_tier"] == "host" else f"in {s['offload_tier']} memory"
    if s["optimizer_offload"]:
        yield f"optimizer {s['optimizer_offload']:.0%} {place}, updated by the {s['offload_update']}"
    if s["parameter_offload"]:
        yield f"weights {s['parameter_offload']:.0%} {place}"
    if s["activation_offload"] != "none":
        yield f"activations offloaded by {s['activation_offload']}"


def items(document: Mapping[str, Any]) -> str:
    """What the model is fed with."""
    return "images" if document["subject"]["sample"] == "image" else "tokens"


def _tables(document: Mapping[str, Any]) -> list[Line]:
    return _side_by_side(_step_rows(document["step"]), _memory_rows(document["memory"]))


def _side_by_side(left: Sequence[str], right: Sequence[str]) -> list[Line]:
    """Two columns of rows, the first of each a heading; or the second column alone."""
    width = _LEFT + _GAP if left else 0
    pairs = enumerate(zip_longest(left, right, fillvalue=""))
    return [Line(text=f"{a:<{width}}{b}".rstrip(), style="" if number else "bold") for number, (a, b) in pairs]


def _named(parts: Mapping[str, float], labels: Mapping[str, str]) -> dict[str, float]:
    """The parts that are not zero, by the words a reader knows."""
    return {label(name, labels): value for name, value in parts.items() if value > 0}


def label(name: str, labels: Mapping[str, str]) -> str:
    """``name`` in words: those of ``labels``, else its own.

    >>> label("lost", PHASE_LABEL), label("rest_of_server", {})
    ('work lost to failures', 'rest of server')
    """
    return labels.get(name, name.replace("_", " "))


def _step_rows(step: Mapping[str, Any]) -> list[str]:
    """Heading, one row per part that is not zero, and the total; seconds or milliseconds, and per cent that sum to 100.0."""
    scale, unit = step_scale(step["step_s"])
    parts = _named(step["parts"], STEP_LABEL)
    share = figures.percents(parts)
    rows = [_step_row("STEP TIME", unit, "%")]
    rows += [_step_row(name, seconds(value * scale), share[name]) for name, value in parts.items()]
    rows.append(_step_row("one step", seconds(step["step_s"] * scale), "100.0"))
    hidden = {name: value for name, value in step["hidden"].items() if value > 0}
    if hidden:
        rows.append("hidden under compute, not counted:")
        rows.append("  " + ", ".join(f"{name} {seconds(value * scale)} {unit}" for name, value in hidden.items()))
    return rows


def step_scale(step_s: float) -> tuple[float, str]:
    """Factor and unit in which the parts of a step are shown.

    >>> step_scale(0.2), step_scale(7.0)
    ((1000.0, 'ms'), (1.0, 's'))
    """
    return (1e3, "ms") if step_s < 1 else (1.0, "s")


def seconds(value: float) -> str:
    """Seconds or milliseconds of a step's part: three decimals, one from a hundred on.

    >>> seconds(1.25), seconds(250.0)
    ('1.250', '250.0')
    """
    return f"{value:,.3f}" if value < 100 else f"{value:,.1f}"


def _step_row(name: str, amount: str, share: str) -> str:
    return f"{name:<{_LEFT - 17}}{amount:>10}{share:>7}"


def _memory_rows(memory: Mapping[str, Any]) -> list[str]:
    """Heading, one row per cause that is not zero, then allocated, reserved, device and capacity, all in GiB."""
    rows = [_memory_row(f"MEMORY of stage {memory['worst_stage']}", "GiB")]
    rows += [_memory_row(name, figures.gib(value)) for name, value in _named(memory["parts"], MEMORY_LABEL).items()]
    outside = memory["context_byte"] + memory["communicator_byte"]
    fragmented = memory["reserved_byte"] - memory["peak_byte"]
    rows.append(_memory_row("allocated at the peak", figures.gib(memory["peak_byte"])))
    rows.append(_memory_row(f"reserved (+{figures.gib(fragmented)} fragments)", figures.gib(memory["reserved_byte"])))
    rows.append(_memory_row(f"device (+{figures.gib(outside)} context, NCCL)", figures.gib(memory["device_byte"])))
    rows.append(_memory_row("capacity", figures.gib(memory["capacity_byte"])))
    return rows


def _memory_row(name: str, amount: str) -> str:
    return f"{name:<{WIDTH - MARGIN - _LEFT - _GAP - 8}}{amount:>8}"


def _speed(document: Mapping[str, Any]) -> Iterator[Line]:
    step = document["step"]
    sustained, peak = figures.rate(step["model_flop_per_s_per_chip"]), figures.rate(step["peak_flop_per_s"])
    convention = CONVENTION.get(step["flop_convention"], step["flop_convention"])
    per_chip, each = figures.figure(step["token_per_s_per_chip"], 4), items(document)
    yield Line(label="speed", text=f"{per_chip} {each}/s/chip, {step['token_per_s']:,.0f} {each}/s in all, {sustained} per chip")
    yield Line(label="MFU", text=f"{step['mfu']:.1%}, HFU {step['hfu']:.1%} of the dense {step['peak_dtype']} peak {peak}")
    yield Line(text=f"FLOP convention: {convention}")


def _run(document: Mapping[str, Any]) -> Iterator[Line]:
    run, s = document["run"], document["subject"]
    amount = f"{figures.count(s['tokens'])} {items(document)} in {run['num_steps']:,.0f} steps"
    yield from _wrapped(
        "run", f"{figures.duration(run['wall_s'])} for {amount}, {figures.count(run['chip_hour'])} chip-hours, goodput {run['goodput']:.1%}"
    )
    phases = _shares({phase["purpose"]: phase["duration_s"] for phase in run["phases"]}, PHASE_LABEL)
    few = run["num_failures"] < FEW
    failures = f"fewer than {FEW}" if few else figures.figure(run["num_failures"])
    yield from _wrapped("", f"{phases}; {failures} failures expected")


def _shares(parts: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """The parts by name with their share of the sum; those below half a tenth of a per cent are left out."""
    share = figures.percents(_named(parts, labels))
    return ", ".join(f"{name} {value}%" for name, value in share.items() if float(value) > 0)


def _energy(document: Mapping[str, Any]) -> Iterator[Line]:
    energy = document["energy"]
    total, peak = figures.energy(energy["total_j"]), figures.power(energy["peak_w"])
    mean = f"{energy['mean_w_per_chip']:,.0f} W"
    yield Line(label="energy", text=f"{total} at the site's meter; mean {mean} of IT per chip, site peak {peak}")
    yield from _wrapped("", _shares(energy["parts"], {}))


def _cost(document: Mapping[str, Any]) -> Iterator[Line]:
    cost = document["cost"]
    other = "owned" if cost["tenure"] == "rented" else "rented"
    hourly, intensity = figures.figure(cost["usd_per_chip_hour"]), figures.figure(cost["usd_per_million_token"])
    total = f"{figures.money(cost['total_usd'])} {cost['tenure']}"
    yield from _wrapped("cost", f"{total} ({hourly} USD per chip-hour, {intensity} USD per million {items(document)})")
    if len(_named(cost["parts"], {})) > 1:
        yield from _wrapped("", _shares(cost["parts"], {}))
    yield Line(text=f"{other} instead: {figures.money(cost[f'{other}_usd'])}")


def _carbon(document: Mapping[str, Any]) -> Iterator[Line]:
    carbon = document["carbon"]
    location, market = figures.mass(carbon["operational_location_kg"]), figures.mass(carbon["operational_market_kg"])
    site = _printable(document["subject"]["site"])
    total, accounting = figures.mass(carbon["total_kg"]), carbon["accounting"]
    yield from _wrapped("carbon", f"{total} CO2e, operational ({accounting}-based) + embodied; site: {site}")
    yield from _wrapped("", f"operational: {location} location-based; {market} market-based (either, never both)")
    yield from _wrapped("", f"embodied: {figures.mass(carbon['embodied_kg'])}, {carbon['embodied_boundary']}")


def _chosen(document: Mapping[str, Any], room: int) -> Iterator[Line]:
    """What was chosen and why, fields of one section with one reason together, the plan first, as many as there is room for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in document["assumptions"]:
        root, _, name = item["field"].partition(".")
        section = root if name else ""
        groups.setdefault((section, item["reason"]), []).append(f"{name or root}={_amount(item['value'])}")
    order = sorted(groups, key=lambda key: PLAN_FIRST.index(key[0]) if key[0] in PLAN_FIRST else len(PLAN_FIRST))
    rows = [f"{section + ': ' if section else ''}{' '.join(groups[section, reason])}: {reason}" for section, reason in order]
    lines = [line for row in rows for line in _wrapped("", _printable(row))]
    for number, line in enumerate(lines if len(lines) <= room else lines[: room - 1]):
        yield Line(text=line.text, label="" if number else "chosen")
    if len(lines) > room:
        yield Line(text="and more: --assumptions")


def _amount(value: Any) -> str:
    """A value as it is, large numbers with a prefix."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return figures.count(number).replace(" ", "") if abs(number) >= 1e6 and not isinstance(value, bool) else str(value)


def _numbers(document: Mapping[str, Any]) -> Iterator[Line]:
    kinds = ", ".join(f"{number} {kind}" for kind, number in document["number_kinds"].items())
    yield from _wrapped("numbers", f"{kinds or 'none from the catalogue'}; all with source and range: --assumptions or --json")


def _warnings(document: Mapping[str, Any]) -> Iterator[Line]:
    for number, text in enumerate(document["warnings"]):
        yield from _wrapped("" if number else "warning", _printable(text), style="yellow")
