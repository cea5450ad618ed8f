"""The pictures of a report: bars beside the numbers they show, each a table that can be read without seeing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.core.record import record
from foretrain.report import figures
from foretrain.report.markup import Markup, element, join, table
from foretrain.report.shown import Form, number, parts_of
from foretrain.report.svg import Segment, bar, chain, colour, swatch
from foretrain.report.text import MEMORY_LABEL, PHASE_LABEL, STEP_LABEL, label, seconds, step_scale

Document = Mapping[str, Any]

STEP_COLOUR = {
    "matmul": "c1",
    "attention": "c2",
    "memory_bound": "c3",
    "recompute": "c4",
    "host": "c5",
    "bubble": "c7",
    "optimizer": "c8",
    "offload": "c9",
}
"""Colours of what a step is spent on; whatever waits for communication has that of ``EXPOSED``."""
EXPOSED = "c6"
MOST_CELLS = 64
"""Up to this many microbatches are drawn one by one."""
FORWARD_AND_BACKWARD = ("matmul", "attention", "memory_bound", "recompute", "host", "tp_exposed", "cp_exposed", "dp_exposed")


@record
class Pipeline:
    """Seconds of a pipelined step in the order they pass: microbatches at the pace of the slowest stage, ``bubble_s`` to fill and drain,
    exposed transfers, what the data-parallel ranks wait once a step, optimizer and offload.
    """

    microbatches_s: float
    bubble_s: float
    transfer_s: float
    reduce_s: float
    optimizer_s: float
    offload_s: float


def pipeline(step: Mapping[str, Any]) -> Pipeline | None:
    """A step's parts in the order of the pipeline; None without a bubble to tell them apart.

    The pace follows from ``bubble_fraction = bubble_s / (num_microbatches x slowest stage)``; of the exposed data-parallel communication,
    what exceeds the slowest stage's own is waited for once a step.
    """
    parts, fraction = step["parts"], step["bubble_fraction"]
    if not fraction or not all(value is not None for value in parts.values()):
        return None
    microbatches_s = parts["bubble"] / fraction
    every = sum(parts.get(name, 0.0) for name in FORWARD_AND_BACKWARD)
    return Pipeline(
        microbatches_s=microbatches_s,
        bubble_s=parts["bubble"],
        transfer_s=parts["pp_exposed"],
        reduce_s=min(max(every - microbatches_s, 0.0), parts["dp_exposed"]),
        optimizer_s=parts["optimizer"],
        offload_s=parts["offload"],
    )


def step_waterfall(document: Document) -> Markup:
    """Where each second of a step goes: every part begins where the one above it ends."""
    scale, unit = step_scale(document["step"]["step_s"] or 0.0)
    parts = parts_of(document, "step.parts")
    whole, share = sum(parts.values()), figures.percents(parts)
    segments = chain([(name, value, STEP_COLOUR.get(name, EXPOSED)) for name, value in parts.items()])

    def form(value: float) -> str:
        return seconds(value * scale)

    def row(segment: Segment) -> tuple[object, ...]:
        name = label(segment.name, STEP_LABEL)
        until = segment.offset + segment.extent
        title = f"{name}: from {form(segment.offset)} to {form(until)} {unit}"
        drawn = Segment(name=title, offset=segment.offset, extent=segment.extent, colour=segment.colour)
        amount = number(document, f"step.parts.{segment.name}", form)
        return name, bar(title, [drawn], whole), amount, share[segment.name]

    rows = [row(segment) for segment in segments]
    rows.append(("one step", "", number(document, "step.step_s", form), "100.0"))
    columns = ("part", "from the start of the step to its end", unit, "%")
    chart = table("Parts of one optimizer step, as the busiest pipeline stage sees it", columns, rows, foot=1, class_="bars")
    return join(chart, _hidden(document, form, unit))


def _hidden(document: Document, form: Form, unit: str) -> Markup | None:
    """Communication that runs under compute, which no part of the step counts."""
    axes = parts_of(document, "step.hidden")
    if not axes:
        return None
    pieces: list[object] = []
    for axis in axes:
        pieces += [", " if pieces else "", f"{axis} ", number(document, f"step.hidden.{axis}", form), f" {unit}"]
    return element("p", "Communication hidden under compute, not counted: ", *pieces, ".", class_="note")


def pipeline_strip(document: Document) -> Markup | None:
    """The step of a pipelined plan in the order it passes; None for a plan without stages."""
    found = pipeline(document["step"]) if document["subject"]["pp"] > 1 else None
    if found is None:
        return None
    subject, count = document["subject"], document["subject"]["num_microbatches"]
    scale, unit = step_scale(document["step"]["step_s"])

    def said(value: float) -> str:
        return f"{seconds(value * scale)} {unit}"

    once = {
        "filling and draining the pipeline (bubble)": (found.bubble_s, "c7"),
        "exposed transfers between stages": (found.transfer_s, EXPOSED),
        "exposed data-parallel communication, once a step": (found.reduce_s, "c10"),
        "optimizer": (found.optimizer_s, "c8"),
        "offload to the host": (found.offload_s, "c9"),
    }
    once = {name: (value, shade) for name, (value, shade) in once.items() if value > 0}
    cells = count if count <= MOST_CELLS else 1
    work = [("microbatches", found.microbatches_s / cells, "c1 cell")] * cells
    drawn = chain([*work, *((name, value, shade) for name, (value, shade) in once.items())])
    first = f"{count:,} microbatches on the slowest stage, {said(found.microbatches_s / count)} each"
    rows: list[tuple[object, ...]] = [
        (join(swatch("c1"), first), said(found.microbatches_s)),
        *((join(swatch(shade), name), said(value)) for name, (value, shade) in once.items()),
    ]
    whole = sum(segment.extent for segment in drawn)
    title = f"{subject['pp']} stages, {subject['schedule']} schedule: one step in order"
    fraction = number(document, "step.bubble_fraction", "{:.1%}".format)
    closed = "The lengths are those of the schedule's closed form; it says how long the pipeline idles, not where each microbatch is."
    return join(
        bar(title, drawn, whole, description=first),
        table(title, ("what passes", "time"), rows, class_="legend"),
        element("p", "Bubble over useful pipeline time: ", fraction, ". ", closed, class_="note"),
    )


def memory_stack(document: Document) -> Markup:
    """The worst rank's memory as one bar against the capacity, its parts, and a bar for every stage."""
    memory = document["memory"]
    parts = [(label(name, MEMORY_LABEL), f"memory.parts.{name}", value) for name, value in parts_of(document, "memory.parts").items()]
    fragments = max(memory["reserved_byte"] - memory["peak_byte"], 0.0)
    outside: list[tuple[str, object, float]] = [
        ("allocator's fragments", figures.gib(fragments), fragments),
        ("device context", _gib(document, "memory.context_byte"), memory["context_byte"]),
        ("communicators", _gib(document, "memory.communicator_byte"), memory["communicator_byte"]),
    ]
    named = [(name, _gib(document, path), value) for name, path, value in parts]
    every = [(name, amount, value, colour(index)) for index, (name, amount, value) in enumerate([*named, *outside]) if value > 0]
    rows: list[tuple[object, ...]] = [
        (join(swatch(shade), name), amount, _per_cent(value, memory["capacity_byte"])) for name, amount, value, shade in every
    ]
    for name, key in (("allocated at the peak", "peak"), ("reserved", "reserved"), ("on the device", "device"), ("capacity", "capacity")):
        value = memory[f"{key}_byte"]
        rows.append((name, _gib(document, f"memory.{key}_byte"), _per_cent(value, memory["capacity_byte"])))
    whole = max(memory["device_byte"], memory["capacity_byte"])
    title = f"Device memory of stage {memory['worst_stage']}, the worst"
    drawn = chain([(f"{name}: {figures.gib(value)} GiB", value, shade) for name, _, value, shade in every])
    line = f"{figures.gib(memory['device_byte'])} GiB needed, the line marks the capacity of {figures.gib(memory['capacity_byte'])} GiB"
    causes = table(f"{title}; at the peak: {memory['peak_moment']}", ("cause", "GiB", "% of capacity"), rows, foot=4, class_="legend")
    return join(
        element("div", bar(title, drawn, whole, description=line, mark=memory["capacity_byte"]), class_="tall"),
        element("div", causes, _stages(document, whole), class_="columns"),
    )


def _gib(document: Document, path: str) -> Markup:
    return number(document, path, figures.gib)


def _per_cent(value: float, whole: float) -> str:
    return f"{100 * value / whole:.1f}" if whole > 0 else ""


def _stages(document: Document, whole: float) -> Markup:
    """One bar per kind of pipeline stage."""
    memory = document["memory"]
    rows: list[tuple[object, ...]] = []
    for index, stage in enumerate(memory["stages"]):
        title = f"{stage['name']}: {figures.gib(stage['peak_byte'])} GiB"
        segment = Segment(name=title, offset=0.0, extent=stage["peak_byte"], colour="c1")
        drawn = bar(title, [segment], whole, mark=memory["capacity_byte"])
        params = number(document, f"memory.stages.{index}.params", figures.count)
        rows.append((stage["name"], drawn, _gib(document, f"memory.stages.{index}.peak_byte"), params))
    columns = ("stage", "against the capacity (line)", "GiB", "parameters")
    return table("Allocated at the peak, per rank of every stage", columns, rows, class_="bars")


def run_phases(document: Document) -> Markup:
    """Calendar time by what it is spent on."""
    phases = [(index, phase) for index, phase in enumerate(document["run"]["phases"]) if (phase["duration_s"] or 0) > 0]
    share = figures.percents({phase["purpose"]: phase["duration_s"] for _, phase in phases})
    names = {phase["purpose"]: label(phase["purpose"], PHASE_LABEL) for _, phase in phases}
    drawn = chain([(names[phase["purpose"]], phase["duration_s"], colour(index)) for index, phase in phases])
    rows: list[tuple[object, ...]] = [
        (
            join(swatch(colour(index)), names[phase["purpose"]]),
            number(document, f"run.phases.{index}.duration_s", figures.duration),
            share[phase["purpose"]],
        )
        for index, phase in phases
    ]
    title = "Calendar time of the run"
    rows.append(("in all", number(document, "run.wall_s", figures.duration), "100.0"))
    whole = sum(segment.extent for segment in drawn)
    return join(bar(title, drawn, whole), table(title, ("phase", "time", "%"), rows, foot=1, class_="legend"))


def parts_table(document: Document, section: str, total: str, form: Form, caption: str, shade: str) -> Markup:
    """The parts of one total, longest bar for the largest."""
    parts = parts_of(document, f"{section}.parts")
    share, whole = figures.percents(parts), max(parts.values(), default=0.0)
    rows: list[tuple[object, ...]] = []
    for name, value in parts.items():
        said = label(name, {})
        title = f"{said}: {form(value)}"
        drawn = bar(title, [Segment(name=title, offset=0.0, extent=value, colour=shade)], whole)
        rows.append((said, drawn, number(document, f"{section}.parts.{name}", form), share[name]))
    rows.append(("in all", "", number(document, f"{section}.{total}", form), "100.0" if parts else ""))
    return table(caption, ("part", "size", "amount", "%"), rows, foot=1, class_="bars")
