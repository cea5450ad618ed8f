"""Entries of the catalogue as tables, as text and as plain documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foretrain.catalog import loader
from foretrain.catalog.like import nearest
from foretrain.catalog.provenance import Passport
from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR
from foretrain.core.errors import InputError, NotFoundError, Problem
from foretrain.core.units import format_si
from foretrain.workload.convnet import ConvNet, place
from foretrain.workload.counting import num_parameters

Row = dict[str, str]
DIGITS = 4
GIB = 2.0**30


def kind_named(kind: str) -> str:
    """``kind`` if there are such entries.

    Raises
    ------
    NotFoundError
        With the nearest kinds.

    >>> kind_named("chips")
    'chips'
    """
    if kind in loader.KINDS:
        return kind
    problem = Problem(
        field="kind", value=kind, message="is not a kind of entry", allowed=", ".join(loader.KINDS), nearest=nearest(kind, loader.KINDS)
    )
    raise NotFoundError([problem])


def resolved(name: str) -> tuple[str, str]:
    """The kind and id of the only entry called ``name``, whatever its capitals.

    Raises
    ------
    InputError
        When none or several kinds have it.

    >>> resolved("Llama-3-8B")
    ('models', 'llama-3-8b')
    """
    kinds = [kind for kind in loader.KINDS if name.lower() in loader.ids(kind)]
    if len(kinds) == 1:
        return kinds[0], name.lower()
    if kinds:
        message = f"is the id of {len(kinds)} entries; say which kind"
        raise InputError(
            [Problem(field="name", value=name, message=message, allowed=", ".join(f"{kind} {name.lower()}" for kind in kinds))]
        )
    known = sorted({known for kind in loader.KINDS for known in loader.ids(kind)})
    raise NotFoundError([Problem(field="name", value=name, message="is the id of no entry", nearest=nearest(name, known))])


def overview(kind: str) -> list[Row]:
    """One row per entry of a kind: id and main numbers."""
    return [{"id": name, **main_numbers(kind, name)} for name in loader.ids(kind)]


def main_numbers(kind: str, name: str) -> Row:
    """The few numbers that tell the entries of a kind apart."""
    if kind == "systems":
        return _system(loader.load_system(name, 1)[0])
    record = loader.load(kind, name)[0]
    return MAIN[kind](record) if kind in MAIN else {"name": getattr(record, "name", "")}


def _system(cluster: Any) -> Row:
    return {"chip": cluster.server.chip.name, "chips per server": f"{cluster.server.num_chips:g}", "fabric": cluster.fabric.name}


def _chip(chip: Any) -> Row:
    dtype = next((name for name in ("bf16", "fp16", "fp32") if name in chip.dense_flop_per_s), next(iter(chip.dense_flop_per_s)))
    return {
        "name": chip.name,
        "memory": f"{chip.hbm_byte / GIB:.{DIGITS}g} GiB",
        "bandwidth": format_si(chip.hbm_byte_per_s, "B/s", DIGITS),
        "dense peak": f"{format_si(chip.dense_flop_per_s[dtype], 'FLOP/s', DIGITS)} {dtype}",
        "TDP": f"{chip.tdp_w:g} W",
    }


def _model(model: Any) -> Row:
    count = float(num_parameters(model))
    size = f"{count / 1e9:.{DIGITS}g} B" if count >= 1e9 else f"{count / 1e6:.{DIGITS}g} M"
    if isinstance(model, ConvNet):
        weighted = sum(section.repeat * sum(layer.weights > 0 for layer in section.layers) for section in place(model))
        return {"name": model.name, "parameters": size, "layers": f"{weighted}", "image size": f"{model.image_size}"}
    return {"name": model.name, "parameters": size, "layers": f"{model.num_layers}", "hidden size": f"{model.hidden_size}"}


def _server(server: Any) -> Row:
    return {
        "name": server.name,
        "chip": server.chip.name,
        "chips": f"{server.num_chips:g}",
        "rated": f"{server.rated_w:g} W",
        "purchase": f"{server.purchase_usd:g} USD",
    }


def _fabric(fabric: Any) -> Row:
    tiers = [f"{tier.name} {format_si(tier.byte_per_s, 'B/s')} to {tier.size:,.0f}" for tier in fabric.tiers]
    return {"name": fabric.name, "tiers: bandwidth per chip and direction, chips": ", ".join(tiers)}


def _site(site: Any) -> Row:
    return {
        "name": site.name,
        "PUE": f"{site.pue:g}",
        "grid": f"{site.location_kg_per_j * J_PER_KWH * 1e3:.{DIGITS}g} g/kWh",
        "electricity": f"{site.electricity_usd_per_j * J_PER_KWH:.{DIGITS}g} USD/kWh",
    }


def _stack(stack: Any) -> Row:
    return {"name": stack.name, "host time per kernel": f"{stack.host_kernel_s * 1e6:g} us", "context": f"{stack.context_byte / GIB:g} GiB"}


def _prices(prices: Any) -> Row:
    return {"tenure": prices.tenure, "rental": f"{prices.rental_usd_per_chip_s * SECOND_PER_HOUR:.{DIGITS}g} USD per chip and hour"}


MAIN: Mapping[str, Callable[[Any], Row]] = {
    "chips": _chip,
    "models": _model,
    "servers": _server,
    "fabrics": _fabric,
    "sites": _site,
    "stacks": _stack,
    "prices": _prices,
}


def table(rows: Sequence[Row]) -> str:
    """Rows in aligned columns under their names.

    >>> print(table([{"id": "x", "TDP": "10 W"}, {"id": "long", "TDP": "5 W"}]))
    id    TDP
    x     10 W
    long  5 W
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_printable(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def as_document(kind: str, name: str) -> dict[str, Any]:
    """Everything an entry says: main numbers, words, every number with its passport, and the sources named.

    Capitals in ``name`` do not matter.
    """
    found = name if name in loader.ids(kind) else name.lower()
    if found not in loader.ids(kind):
        loader.raw(kind, name)
    document, passports, origins = _entry(kind, found)
    sources = loader.sources()
    keys = dict.fromkeys([passport.source for passport in passports.values()] + [document[key] for key in ("source",) if key in document])
    return {
        "kind": kind,
        "id": found,
        "main": main_numbers(kind, found),
        "words": _words(kind, document, passports),
        "numbers": [_number(path, passport) for path, passport in passports.items()],
        "sources": {key: {field: str(text) for field, text in (sources.get(key) or {}).items()} for key in keys},
        "folders": [{"section": path, "from": origin.reason} for path, origin in origins.items()],
    }


def _entry(kind: str, name: str) -> tuple[Mapping[str, Any], Mapping[str, Passport], Mapping[str, Any]]:
    """An entry's plain document, passports and origins; a system's with the choices it makes."""
    if kind == "systems":
        choices, found = loader.system(name)
        named = {key: loader.title(value) for key, value in choices.items()}
        return {**found.document, **named}, found.passports, found.origins
    found = loader.entry(kind, name, "")
    return found.document, found.passports, found.origins


def _words(kind: str, document: Mapping[str, Any], passports: Mapping[str, Passport]) -> dict[str, Any]:
    """Every value without a passport of its own, by dotted path."""
    root = "system." if kind == "systems" else ""
    own = {path.removeprefix(root) for path in passports}
    return {path: value for path, value in _leaves(document, "") if path not in own}


def _leaves(node: Any, path: str) -> list[tuple[str, Any]]:
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) and node else None
    if pairs is None:
        return [(path, node)]
    return [leaf for key, value in pairs for leaf in _leaves(value, f"{path}.{key}" if path else str(key))]


def _number(path: str, passport: Passport) -> dict[str, str]:
    return {
        "path": path,
        "value": passport.value_text,
        "kind": passport.kind,
        "low": passport.low,
        "high": passport.high,
        "source": passport.source,
        "date": passport.date,
        "note": passport.note,
        "folder": passport.folder,
    }


def dumps(document: Any) -> str:
    """A document as JSON text in ASCII."""
    return json.dumps(document, indent=2, allow_nan=False)


def text(document: Mapping[str, Any]) -> str:
    """An entry for a reader: its main numbers, words, numbers and sources."""
    lines = [f"{document['kind']} {document['id']}"]
    lines += [f"  {label}: {value}" for label, value in document["main"].items() if value]
    lines += [f"  {item['section'] or 'this entry'}: {item['from']}" for item in document["folders"]]
    if document["words"]:
        lines += ["", "words", *(f"  {path} = {value}" for path, value in document["words"].items())]
    if document["numbers"]:
        lines += ["", *table([_row(number) for number in document["numbers"]]).splitlines()]
    lines += ["", "sources", *(f"  {key}: {_about(source)}" for key, source in document["sources"].items())]
    return "\n".join(_printable(line) for line in lines)


def _row(number: Mapping[str, str]) -> Row:
    span = f"{number['low']} to {number['high']}" if number["low"] or number["high"] else ""
    note = "; ".join(part for part in (number["date"], number["note"]) if part)
    return {
        "number": number["path"],
        "value": number["value"],
        "kind": number["kind"],
        "range": span,
        "source": number["source"],
        "note": note,
    }


def _about(source: Mapping[str, str]) -> str:
    return ", ".join(source[field] for field in ("title", "authors", "year", "url", "licence") if source.get(field))
