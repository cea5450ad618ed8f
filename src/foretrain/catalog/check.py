"""The catalogue's own house rules: every number has a passport that can be read, from a source that is listed.

Run by the tests over all entries, and by whoever adds one: ``check()`` returns what is wrong, one sentence each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from foretrain.catalog import loader
from foretrain.catalog.provenance import KEYS, is_passported, split
from foretrain.catalog.provenance import KINDS as PASSPORT_KINDS
from foretrain.catalog.schema import mark_at, validate
from foretrain.core.errors import InputError
from foretrain.core.units import Quantity
from foretrain.workload.recipe import Recipe

RANGED = ("estimate", "assumption")
"""Kinds of number that must say how far they may be off."""
NAMES = {("kernels", "m"), ("kernels", "n"), ("chips", "m"), ("chips", "n")}
"""Numbers that name a thing (a tile of m x n) rather than claim something about it."""
RECIPE_EXTRA = {"global_batch_tokens": Quantity(gt=0)}
"""Recipe defaults of a model entry that are not fields of ``Recipe`` themselves."""
SOURCE_KEYS = ("title", "authors", "year", "url", "licence")
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?$")


def check() -> list[str]:
    """Everything wrong with the shipped catalogue; empty when it is sound."""
    sources = loader.sources()
    problems = [problem for key, source in sources.items() for problem in check_source(key, source)]
    for kind in loader.KINDS:
        for name in loader.ids(kind):
            problems += check_entry(kind, name, loader.raw(kind, name), sources)
    return problems


def check_source(key: str, source: Mapping[str, Any]) -> list[str]:
    """A source names its title, authors, year, address and licence."""
    return [f"sources.{key}: {field} is missing" for field in SOURCE_KEYS if field not in source]


def check_entry(kind: str, name: str, document: Mapping[str, Any], sources: Mapping[str, Any]) -> list[str]:
    """Everything wrong with one entry's document."""
    label = f"{kind}.{name}"
    if kind == "systems":
        return [f"{label}.{root}: {value!r} is not in the catalogue" for root, value in _dangling(document)]
    numbers = dict(_numbers(kind, document, ()))
    problems = [problem for path, node in numbers.items() for problem in _check_number(kind, label, path, node, sources)]
    if kind == "models" and document.get("source") not in sources:
        problems.append(f"{label}: source {document.get('source')!r} is not in sources.yaml")
    try:
        plain, _ = split(document)
        record_document = loader.record_document(kind, plain)
        validate(loader.record_type(kind, record_document), record_document, label)
    except InputError as error:
        problems += [str(problem) for problem in error.problems]
    return problems


def _dangling(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """References of a system to entries that do not exist."""
    kinds = {"server": "servers", "fabric": "fabrics", "storage": "storages", "reliability": "reliabilities", "site": "sites"}
    kinds |= {"stack": "stacks", "prices": "prices", "amortisation": "amortisations"}
    for root, kind in kinds.items():
        if document.get(root) not in loader.ids(kind):
            yield root, document.get(root)


def _numbers(kind: str, node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every place of a document that holds a number or a passport, with its path. A model's sizes share the entry's one source."""
    if is_passported(node) or (isinstance(node, Mapping) and "value" in node):
        yield path, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if (kind, key) not in NAMES and not (kind == "models" and not path and key == "model"):
                yield from _numbers(kind, value, (*path, str(key)))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _numbers(kind, value, (*path, str(index)))
    elif _mark(kind, path) is not None or (isinstance(node, (int, float)) and not isinstance(node, bool)):
        yield path, node


def _mark(kind: str, path: tuple[str, ...]) -> Quantity | None:
    """The unit and range of the number at ``path``."""
    if kind == "models" and path[:1] == ("recipe",):
        return RECIPE_EXTRA.get(path[-1]) or mark_at(Recipe, path[1:])
    return mark_at(loader.RECORDS[kind], path)


def _check_number(kind: str, label: str, path: tuple[str, ...], node: Any, sources: Mapping[str, Any]) -> list[str]:
    """What is wrong with one number: passport, source, kind, unit, range, date."""
    where = ".".join((label, *path))
    if not is_passported(node):
        return [f"{where}: {node!r} has no passport (value, source, kind)"]
    problems = [f"{where}: {key!r} is not a passport field" for key in node if key not in KEYS]
    if node["source"] not in sources:
        problems.append(f"{where}: source {node['source']!r} is not in sources.yaml")
    if node.get("kind") not in PASSPORT_KINDS:
        problems.append(f"{where}: kind {node.get('kind')!r} is not one of {', '.join(PASSPORT_KINDS)}")
    if node.get("kind") in RANGED and not {"low", "high"} <= set(node):
        problems.append(f"{where}: {node['kind']} without low and high")
    if "date" in node and not _DATE.match(str(node["date"])):
        problems.append(f"{where}: date {node['date']!r} is not YYYY, YYYY-MM or YYYY-MM-DD")
    return problems + _check_range(kind, path, where, node)


def _check_range(kind: str, path: tuple[str, ...], where: str, node: Mapping[str, Any]) -> list[str]:
    """Value, low and high in the field's unit and range, and in this order."""
    mark = _mark(kind, path)
    if mark is None:
        return [f"{where}: is not a number of its record"]
    numbers = {}
    for key in ("low", "value", "high"):
        if key in node:
            try:
                numbers[key] = mark.read(node[key])
            except ValueError as error:
                return [f"{where}: {key} {node[key]!r}: {error}"]
    ordered = list(numbers.values())
    return [] if ordered == sorted(ordered) else [f"{where}: low <= value <= high does not hold: {numbers}"]
