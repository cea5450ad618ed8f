"""The report as one page of HTML: complete in itself, without scripts, for screens, printers and readers who listen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from foretrain._version import __version__
from foretrain.report import charts, figures
from foretrain.report.markup import Markup, element, join, table
from foretrain.report.shown import number, parts_of, reason
from foretrain.report.text import CONVENTION, MARGINAL_ADVICE, MEMORY_LABEL, NEVER_ENDS, VERDICT, items, label, never_ends, plan_words

Document = Mapping[str, Any]
Card = tuple[str, Markup, object]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What the page may load: nothing, from nowhere."""
DEGREES = {
    "tp": "tensor parallel (tp)",
    "pp": "pipeline stages (pp)",
    "vpp": "chunks per stage (vpp)",
    "dp": "data parallel (dp)",
    "cp": "context parallel (cp)",
    "ep": "expert parallel (ep)",
    "etp": "tensor parallel of experts (etp)",
    "microbatch_size": "samples in a microbatch",
    "num_microbatches": "microbatches in a step",
    "zero": "ZeRO stage",
    "recompute": "recomputation",
    "schedule": "pipeline schedule",
    "sequence_parallel": "sequence parallel",
    "flash_attention": "fused attention",
    "optimizer_offload": "optimizer on the host",
    "activation_offload": "activations on the host",
}
RECIPE = {
    "seq_len": "tokens in a sequence",
    "global_batch_size": "samples in a step",
    "tokens": "tokens of the run",
    "precision": "precision of math",
    "optimizer": "optimizer",
}
PLACE = {
    "system": "system",
    "chip": "chip",
    "num_chips": "chips",
    "num_servers": "servers",
    "fabric": "fabric",
    "stack": "software stack",
    "site": "site",
}


def page(document: Document, command: str = "") -> str:
    """The whole page.

    Parameters
    ----------
    document
        The report of one plan (``report.json.as_document``).
    command
        The command line that makes the same report again; left out when empty.

    Returns
    -------
    An HTML document; the same arguments give the same text. Every number that comes from ``document`` is a ``data`` element with the full
    value and its path.
    """
    blocks = list(_blocks(document, command))
    links = (element("a", title, href=f"#{name}") for name, title, _ in blocks)
    sections = (element("section", element("h2", title), content, id=name) for name, title, content in blocks)
    body = element(
        "body",
        element("header", *_head(document)),
        element("nav", *links, aria_label="Sections"),
        element("main", _key_figures(document), *sections),
        element("footer", f"foretrain {__version__}, report schema {document['schema']}. ", _FOOT),
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', *_meta(document)), body, lang='en')}\n"


_FOOT = "Times, watts, dollars and kilograms are predictions; point at a figure to see all of its digits and its key in the JSON report."


def _meta(document: Document) -> Iterator[Markup]:
    yield element("meta", charset="utf-8")
    yield element("meta", http_equiv="Content-Security-Policy", content=POLICY)
    yield element("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield element("meta", name="color-scheme", content="light dark")
    yield element("meta", name="generator", content=f"foretrain {__version__}")
    yield element("title", f"{document['subject']['model']} on {document['subject']['num_chips']:,} x {document['subject']['chip']}")
    yield element("link", rel="icon", href="data:,")
    yield element("style", Markup(style()))


def style() -> str:
    """The style sheet of the page."""
    return resources.files("foretrain.report").joinpath("style.css").read_text(encoding="utf-8")


def _head(document: Document) -> Iterator[Markup]:
    """Title, plan and verdict."""
    subject = document["subject"]
    params = number(document, "program.params_total", figures.parameters)
    chips = number(document, "subject.num_chips", "{:,.0f}".format)
    yield element("h1", subject["model"], " on ", chips, f" x {subject['chip']}")
    yield element("p", params, f" parameters, {subject['system']}. ", plan_words(subject), class_="plan")
    never = never_ends(document)
    status = document["verdict"]["status"]
    lines = [element("p", element("strong", VERDICT[status]), " ", _need(document), ".")]
    if status == "marginal":
        lines.append(element("p", f"{MARGINAL_ADVICE[:1].upper()}{MARGINAL_ADVICE[1:]}."))
    if not document["verdict"]["ok"]:
        lines.append(element("ul", *(element("li", advice) for advice in document["verdict"]["reasons"][1:])))
    if never:
        lines.append(element("p", element("strong", "NEVER ENDS"), f" {NEVER_ENDS}."))
    yield element("div", *lines, class_=f"verdict {'oom' if never else status}")


def _need(document: Document) -> Markup:
    """What the worst rank needs, of what there is, and its largest part."""
    memory = document["memory"]
    need = number(document, "memory.device_byte", figures.gib)
    capacity = number(document, "memory.capacity_byte", figures.gib)
    share = f" ({memory['device_byte'] / memory['capacity_byte']:.1%})" if memory["capacity_byte"] > 0 else ""
    parts = parts_of(document, "memory.parts")
    largest = max(parts, key=lambda name: parts[name])
    cause = join(label(largest, MEMORY_LABEL), " ", number(document, f"memory.parts.{largest}", figures.gib), " GiB")
    stage = f"worst stage {memory['worst_stage']} takes "
    return join(stage, need, " GiB of ", capacity, f" GiB on the device{share}; largest part: ", cause)


def _key_figures(document: Document) -> Markup:
    """The figures that are asked for first, each with its unit and what it counts."""
    cards = (*_speed_cards(document), *_bill_cards(document)) if document["verdict"]["ok"] else ()
    cards = (*cards, *_memory_cards(document))
    boxes = (element("div", element("dt", name), element("dd", value), element("dd", note, class_="note")) for name, value, note in cards)
    heading = element("h2", "Key figures")
    return element("section", heading, element("dl", *boxes, class_="cards"), id="figures")


def _speed_cards(document: Document) -> Iterator[Card]:
    step, subject = document["step"], document["subject"]
    convention = CONVENTION.get(step["flop_convention"], step["flop_convention"])
    samples = "images" if items(document) == "images" else "sequences"
    sequences, steps = f"{subject['global_batch_size']:,}", number(document, "run.num_steps", "{:,.0f}".format)
    yield "step time", number(document, "step.step_s", figures.duration), f"one optimizer step of {sequences} {samples}"
    hfu = number(document, "step.hfu", "{:.1%}".format)
    peak = number(document, "step.peak_flop_per_s", figures.rate)
    note = join("HFU ", hfu, f"; of the dense {step['peak_dtype']} peak ", peak, f"; FLOP convention: {convention}")
    yield "MFU", number(document, "step.mfu", "{:.1%}".format), note
    per_chip = number(document, "step.token_per_s_per_chip", lambda value: figures.figure(value, 4))
    yield (
        f"{items(document)} per second",
        number(document, "step.token_per_s", "{:,.0f}".format),
        join(per_chip, " per chip, padding included"),
    )
    tokens = number(document, "subject.tokens", figures.count)
    yield (
        "calendar time",
        number(document, "run.wall_s", figures.duration),
        join(tokens, f" {items(document)} in ", steps, " steps with failures"),
    )
    goodput = number(document, "run.goodput", "{:.1%}".format)
    yield "chip-hours", number(document, "run.chip_hour", figures.count), join("chips x calendar time; goodput ", goodput)


def _bill_cards(document: Document) -> Iterator[Card]:
    cost, carbon = document["cost"], document["carbon"]
    mean = number(document, "energy.mean_w_per_chip", "{:,.0f} W".format)
    peak = number(document, "energy.peak_w", figures.power)
    note = join("at the site's meter; mean ", mean, " of IT per chip, site peak ", peak)
    yield "energy", number(document, "energy.total_j", figures.energy), note
    hourly = number(document, "cost.usd_per_chip_hour", figures.figure)
    per_token = number(document, "cost.usd_per_million_token", figures.figure)
    note = join(f"{cost['tenure']}; ", hourly, " USD per chip-hour, ", per_token, f" USD per million {items(document)}")
    yield "cost", number(document, "cost.total_usd", figures.money), note
    note = join(f"CO2e, operational ({carbon['accounting']}-based) and embodied")
    yield "carbon", number(document, "carbon.total_kg", figures.mass), note


def _memory_cards(document: Document) -> Iterator[Card]:
    capacity = number(document, "memory.capacity_byte", figures.gib)
    note = join("of ", capacity, f" GiB a job can have; worst rank (stage {document['memory']['worst_stage']})")
    yield "device memory", join(number(document, "memory.device_byte", figures.gib), " GiB"), note


def _blocks(document: Document, command: str) -> Iterator[tuple[str, str, Markup]]:
    """Identifier, title and content of every section."""
    if document["verdict"]["ok"]:
        yield "step", "Where a step's time goes", charts.step_waterfall(document)
        strip = charts.pipeline_strip(document)
        if strip is not None:
            yield "pipeline", "The pipeline", strip
    yield "memory", "Memory", charts.memory_stack(document)
    if document["verdict"]["ok"]:
        yield "run", "The run", join(charts.run_phases(document), _failures(document))
        yield "bill", "Energy, cost, carbon", element("div", *_bill(document), class_="bill")
    else:
        yield "bill", "Time, energy, cost, carbon", element("p", f"None: {reason(document, 'step')}.")
    yield "plan", "The plan", element("div", *_plan(document), class_="columns")
    if document["warnings"]:
        yield "warnings", "Warnings", element("ul", *(element("li", text) for text in document["warnings"]))
    yield "chosen", "What was not given", _assumptions(document)
    yield "sources", "Where the numbers come from", join(*_sources(document))
    yield "again", "To make this report again", join(*_again(document, command))


def _failures(document: Document) -> Markup:
    failures = number(document, "run.num_failures", figures.figure)
    interval = number(document, "run.checkpoint_interval_s", figures.duration)
    goodput = number(document, "run.goodput", "{:.1%}".format)
    words = ("Goodput, the share of productive steps in calendar time: ", goodput, ". Expected failures: ", failures)
    return element("p", *words, ". A checkpoint every ", interval, ".", class_="note")


def _bill(document: Document) -> Iterator[Markup]:
    """Energy, cost and carbon with their parts, and what each of them counts."""
    cost, carbon = document["cost"], document["carbon"]
    it = number(document, "energy.it_j", figures.energy)
    per_token = number(document, "energy.kwh_per_million_token", figures.figure)
    yield element(
        "div",
        charts.parts_table(document, "energy", "total_j", figures.energy, "Energy at the site's meter", "c3"),
        element("p", "IT equipment alone: ", it, ". ", per_token, f" kWh per million {items(document)}.", class_="note"),
    )
    rented, owned = (number(document, f"cost.{tenure}_usd", figures.money) for tenure in ("rented", "owned"))
    yield element(
        "div",
        charts.parts_table(document, "cost", "total_usd", figures.money, f"Cost, {cost['tenure']}", "c2"),
        element("p", "Rented: ", rented, ". Owned: ", owned, ". Either, never both.", class_="note"),
    )
    location, market = (number(document, f"carbon.operational_{basis}_kg", figures.mass) for basis in ("location", "market"))
    embodied, water = number(document, "carbon.embodied_kg", figures.mass), number(document, "carbon.water_l", "{:,.0f}".format)
    caption = f"Carbon, CO2e, operational ({carbon['accounting']}-based) and embodied"
    yield element(
        "div",
        charts.parts_table(document, "carbon", "total_kg", figures.mass, caption, "c4"),
        element("p", "Operational: ", location, " location-based; ", market, " market-based (either, never both).", class_="note"),
        element("p", "Embodied: ", embodied, f", {carbon['embodied_boundary']}. Water on site: ", water, " l.", class_="note"),
    )


def _plan(document: Document) -> Iterator[Markup]:
    """Degrees and words of the plan, the recipe and the place, each noted where it was chosen rather than given."""
    chosen = {item["field"] for item in document["assumptions"]}
    groups = (("Parallelism and memory", "strategy", DEGREES), ("Work", "recipe", RECIPE), ("Place", "", PLACE))
    for caption, root, names in groups:
        rows: list[tuple[object, ...]] = []
        for name, words in names.items():
            field = f"{root}.{name}" if root else name
            rows.append((words, _value(document["subject"][name]), "chosen" if field in chosen else ""))
        yield table(caption, ("field", "value", "note"), rows, class_="fields")


def _value(value: object) -> str:
    """A value of the plan: yes and no, counts with separators or a prefix, shares (the fractions up to 1) in per cent, words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value <= 1:
        return f"{value:.0%}"
    if isinstance(value, (int, float)):
        return figures.count(value) if value >= 1e6 else f"{value:,.0f}"
    return str(value)


def _assumptions(document: Document) -> Markup:
    """Every value that was chosen, with the reason."""
    items: Sequence[Mapping[str, Any]] = document["assumptions"]
    if not items:
        return element("p", "Everything was given.")
    rows: list[tuple[object, ...]] = [(item["field"], item["value"], item["reason"]) for item in items]
    columns = ("field", "value", "reason")
    title = f"{len(items)} values were chosen"
    return _fold(title, title, table("Chosen values", columns, rows, class_="long"), opened=True)


def _sources(document: Document) -> Iterator[Markup]:
    """How many numbers are of which kind, then every source with the numbers taken from it."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in document["number_kinds"].items())
    yield element("p", f"Kinds: {kinds or 'none from the catalogue'}. Each source opens to its numbers, with kind and range.")
    for source in document["sources"]:
        columns = ("number", "value", "kind", "low to high", "date", "note")
        rows: list[tuple[object, ...]] = [
            (value["path"], value["value"], value["kind"], _range(value), value["date"], value["note"]) for value in source["values"]
        ]
        about = ", ".join(str(source[key]) for key in ("title", "authors", "year") if source.get(key)) or source["key"]
        count = len(rows)
        said = join(f"{about} ", element("span", f"{count} number{'s' if count > 1 else ''}", class_="count"))
        yield _fold(
            about, said, join(_link(str(source.get("url", ""))), table(f"Taken from {source['key']}", columns, rows, class_="long"))
        )


def _range(value: Mapping[str, Any]) -> str:
    return f"{value['low']} to {value['high']}" if value["low"] or value["high"] else ""


def _link(url: str) -> Markup | None:
    """The address of a source, to follow where it leads to a page."""
    if not url:
        return None
    followed = url.startswith(("https://", "http://"))
    return element("p", element("a", url, href=url, rel="noreferrer") if followed else url, class_="note")


def _again(document: Document, command: str) -> Iterator[Markup]:
    """The command, and everything that went into the simulation."""
    import yaml

    if command:
        yield element("pre", element("code", command), tabindex=0, role="region", aria_label="Command")
    inputs = yaml.safe_dump(document["scenario"], sort_keys=False, allow_unicode=True, width=100)
    title = "The whole resolved input, with the paths that --set takes, in SI units unless a value names its own"
    yield _fold(title, title, element("pre", element("code", inputs)))


def _fold(name: str, summary: object, content: Markup, *, opened: bool = False) -> Markup:
    """Content that opens on demand; wide tables scroll inside it, by keyboard too."""
    inner = element("div", content, class_="scroll", tabindex=0, role="region", aria_label=name)
    return element("details", element("summary", summary), inner, open="open" if opened else None)
