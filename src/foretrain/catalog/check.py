"""The catalogue's own house rules: every number has a passport that can be read, from a source that is listed, and can be true.

Run by the tests over all entries, and by whoever adds one (``foretrain catalog check FOLDER``): ``check`` returns what is wrong, one
sentence each, with ``file:line:col``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from foretrain.catalog import folders, like, loader, plausible, yamlfile
from foretrain.catalog.provenance import KEYS, is_passported, split
from foretrain.catalog.provenance import KINDS as PASSPORT_KINDS
from foretrain.catalog.schema import mark_at, validate
from foretrain.core.errors import InputError, Problem
from foretrain.core.units import Quantity
from foretrain.strategy.build import Build
from foretrain.strategy.strategy import Strategy
from foretrain.system.chip import Chip
from foretrain.system.cluster import Cluster
from foretrain.workload.recipe import Recipe

RANGED = ("estimate", "assumption")
"""Kinds of number that must say how far they may be off."""
TILE_SIZES = ("m", "n")
"""Numbers that name a thing (a tile of m x n) rather than claim something about it."""
RECIPE_EXTRA = {"global_batch_tokens": Quantity(gt=0)}
"""Recipe defaults of a model entry that are not fields of ``Recipe`` themselves."""
MODEL_KEYS = {"source": None, "model": None, "recipe": None, "note": None, "published_parameters": Quantity(gt=0)}
"""Fields of a model entry, with the marks of its own numbers."""
SECTION_FIELDS: Mapping[str, Mapping[str, type[Any]]] = {
    "stacks": {"build": Build, "strategy": Strategy, "recipe": Recipe},
    "models": {"recipe": Recipe},
}
"""Sections that hold some fields of a record."""
SOURCE_KEYS = ("title", "authors", "year", "url", "licence")
ASSUMPTION = "assumption"
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")
_YEAR = re.compile(r"(\d{4})?$")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*$")

Where = Callable[[tuple[str, ...]], str]


def check(folder: str | Path | None = None) -> list[str]:
    """Everything wrong with a folder of entries, by default with the shipped catalogue; empty when it is sound.

    Raises
    ------
    InputError
        For what is not a folder.
    """
    if folder is None:
        return [str(problem) for problem in _check_folder(folders.shipped())]
    with folders.searching([folder]):
        return [str(problem) for problem in (*_check_layout(Path(folder)), *_check_folder(Path(folder)))]


def _check_layout(folder: Path) -> Iterator[Problem]:
    """Files that no one would find: in a folder of no kind, or not called ``*.yaml``."""
    for item in sorted(folder.iterdir()):
        if item.name.startswith("."):
            continue
        if item.is_dir() and item.name not in loader.KINDS:
            near = like.nearest(item.name, loader.KINDS)
            yield Problem(field=item.name, message="is not a kind of entry", allowed=", ".join(loader.KINDS), nearest=near, where=str(item))
        elif item.is_file() and item.suffix in (".yaml", ".yml") and item.name != folders.SOURCES:
            yield Problem(field=item.name, message="lies in no folder of a kind, e.g. chips/", where=str(item))
    for kind in loader.KINDS:
        for item in sorted((folder / kind).iterdir()) if (folder / kind).is_dir() else ():
            if item.suffix != ".yaml" or not item.is_file():
                yield Problem(field=f"{kind}.{item.name}", message="is not a file called ID.yaml", where=str(item))
    if not any(folders.names_in(folder / kind) for kind in loader.KINDS):
        yield Problem(field=str(folder), message="holds no entry", allowed=f"files in {', '.join(loader.KINDS)}")


def _check_folder(folder: Any) -> Iterator[Problem]:
    try:
        sources = folders.sources()
        own = folder.joinpath(folders.SOURCES)
        if own.is_file():
            document, where = _parsed(own, "sources")
            for key, source in document.items():
                yield from _source_problems(key, source, where)
    except InputError as error:
        yield from error.problems
        sources = folders.sources([])
    for kind in loader.KINDS:
        names = _names(kind)
        for name in sorted(folders.names_in(folder.joinpath(kind))):
            yield from _check_file(kind, name, folder.joinpath(kind, f"{name}.yaml"), sources, names)


def _parsed(path: Any, field: str) -> tuple[dict[str, Any], Where]:
    text = yamlfile.read_text(path, field) if isinstance(path, Path) else path.read_text(encoding="utf-8")
    return yamlfile.parse(text, str(path), field)


def _check_file(kind: str, name: str, path: Any, sources: Mapping[str, Any], names: Mapping[str, list[str]]) -> Iterator[Problem]:
    label = f"{kind}.{name}"
    if not _ID.match(name):
        yield Problem(field=label, message="an id is lower case letters, digits, '.', '-' and '_'", where=f"{path}:1:1")
    try:
        document, where = _parsed(path, label)
    except InputError as error:
        yield from error.problems
        return
    yield from _entry_problems(kind, name, document, sources, where)
    title = _title(kind, name)
    others = [other for other in names.get(title, []) if other != name]
    if title and others:
        yield Problem(field=f"{label}.name", value=title, message=f"is also the name of {', '.join(others)}", where=where(("name",)))


def _names(kind: str) -> dict[str, list[str]]:
    """The ids of a kind by the name that reports show."""
    found: dict[str, list[str]] = {}
    for name in folders.ids(kind):
        found.setdefault(_title(kind, name), []).append(name)
    return found


def _title(kind: str, name: str) -> str:
    """An entry's name in reports; empty for one without, or that cannot be read (which is another problem)."""
    try:
        document = loader.raw(kind, name)
    except InputError:
        return ""
    inner = document.get("model") if kind == "models" else document
    return str(inner.get("name", "")) if isinstance(inner, Mapping) else ""


def check_source(key: str, source: Any) -> list[str]:
    """A source names its title, authors, year, address and licence."""
    return [str(problem) for problem in _source_problems(key, source, _nowhere)]


def _nowhere(_keys: tuple[str, ...]) -> str:
    return ""


def _source_problems(key: str, source: Any, where: Where) -> Iterator[Problem]:
    if not isinstance(source, Mapping):
        yield Problem(field=f"sources.{key}", message=f"must be a mapping of {', '.join(SOURCE_KEYS)}", where=where((key,)))
        return
    for field in SOURCE_KEYS:
        if field not in source:
            yield Problem(field=f"sources.{key}", message=f"{field} is missing", where=where((key,)))
    if not _YEAR.match(str(source.get("year", ""))):
        yield Problem(field=f"sources.{key}.year", value=source["year"], message="is not a year", where=where((key, "year")))
    if not re.match(r"(https?://\S+)?$", str(source.get("url", ""))):
        yield Problem(field=f"sources.{key}.url", value=source["url"], message="is not a web address", where=where((key, "url")))


def check_entry(kind: str, name: str, document: Mapping[str, Any], sources: Mapping[str, Any], where: Where = _nowhere) -> list[str]:
    """Everything wrong with one entry's document."""
    return [str(problem) for problem in _entry_problems(kind, name, document, sources, where)]


def _entry_problems(kind: str, name: str, document: Mapping[str, Any], sources: Mapping[str, Any], where: Where) -> Iterator[Problem]:
    label, told = f"{kind}.{name}", set()
    for path, node in _numbers(kind, document, ()):
        for message in _number_faults(kind, path, node, sources):
            if _mark(kind, path) is not None:
                told.add(".".join((label, *path)))
            yield Problem(field=".".join((label, *path)), message=message, where=where(path))
    yield from (
        Problem(field=".".join((label, *keys)), message=message, where=where(keys))
        for keys, message in _unknown_fields(kind, document, sources)
    )
    try:
        yield from _whole_problems(kind, label, document, where)
    except InputError as error:
        for problem in error.problems:
            keys = tuple(problem.field.removeprefix(label).strip(".").split("."))
            if problem.field not in told:
                yield problem if problem.where else dataclasses.replace(problem, where=where(keys))


def _listed(source: object, sources: Mapping[str, Any]) -> bool:
    return isinstance(source, str) and source in sources


def _unknown_fields(kind: str, document: Mapping[str, Any], sources: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Fields of the entries that are more than one record: systems, models and stacks."""
    known: tuple[str, ...] = ()
    if kind == "systems":
        known = (like.LIKE, *like.PARTS[kind], *like.CHOICES[kind])
    elif kind == "models":
        known = (like.LIKE, *MODEL_KEYS)
        if like.LIKE not in document and not _listed(document.get("source"), sources):
            yield ("source",), f"source {document.get('source')!r} is not in sources.yaml"
    for key in document:
        if known and key not in known:
            yield (key,), f"is not a known field; allowed: {', '.join(known)}"
    for section, cls in SECTION_FIELDS.get(kind, {}).items():
        fields = {field.name for field in dataclasses.fields(cls)} | (set(RECIPE_EXTRA) if kind == "models" else set())
        given = document.get(section, {})
        if not isinstance(given, Mapping):
            yield (section,), "must be a mapping of fields"
            continue
        for key in given:
            if key not in fields:
                yield (section, key), f"is not a known field of {section}; nearest valid: {', '.join(like.nearest(key, sorted(fields)))}"


def _whole_problems(kind: str, label: str, document: Mapping[str, Any], where: Where) -> Iterator[Problem]:
    """What is wrong with the entry as it is used: ``like`` carried out, parts filled in, read as its record."""
    name = label.partition(".")[2]
    own = folders.find(kind, name)
    places = {keys: where(keys) for keys in _keys(document)}
    sheet = folders.Sheet(document=document, name=name, folder_index=own.folder_index if own else -1, places=places)
    sheet = like.expanded(kind, like.carried_out(kind, sheet, label), label)
    if kind == "models" and not isinstance(sheet.document.get("model"), Mapping):
        yield Problem(field=f"{label}.model", message="is missing", where=where(()))
        return
    plain, _ = split(sheet.document)
    if kind == "systems":
        yield from _system_problems(label, plain, where)
        return
    prefix = ("model",) if kind == "models" else ()
    root = ".".join((label, *prefix))
    inner = loader.record_document(kind, plain)
    record: Any = validate(loader.record_type(kind, inner), inner, root, lambda keys: where((*prefix, *keys)))
    found = [*plausible.FAULTS[kind](record, sheet.document)] if kind in plausible.FAULTS else []
    if kind == "chips":
        reference = _chip_named(record.kernels.measured_on)
        found += plausible.same_family_fault(record, reference) if reference else []
    yield from (Problem(field=".".join((label, *keys)), message=message, where=where(keys)) for keys, message in found)


def _keys(node: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of nested mappings."""
    yield keys
    if isinstance(node, Mapping) and not is_passported(node):
        for key, value in node.items():
            yield from _keys(value, (*keys, str(key)))


def _system_problems(label: str, plain: Mapping[str, Any], where: Where) -> Iterator[Problem]:
    """A system's cluster and its choices."""
    for key, kind in like.CHOICES["systems"].items():
        if key not in plain:
            yield Problem(field=f"{label}.{key}", message="is missing", where=where(()))
            continue
        try:
            found = loader.entry(kind, plain[key], f"{label}.{key}")
            validate(loader.RECORDS[kind], loader.record_document(kind, found.document), f"{label}.{key}")
        except InputError as error:
            yield from (dataclasses.replace(problem, where=problem.where or where((key,))) for problem in error.problems)
    parts = {key: plain[key] for key in like.PARTS["systems"]}
    num_chips = parts["server"].get("num_chips", 1)
    cluster = validate(Cluster, {"name": label, "num_chips": num_chips, **parts}, label, where)
    faults = [*plausible.cluster_faults(cluster, plain)]
    parts_of: tuple[tuple[str, tuple[str, ...], Any], ...] = (
        ("chips", ("server", "chip"), cluster.server.chip),
        ("servers", ("server",), cluster.server),
        ("fabrics", ("fabric",), cluster.fabric),
    )
    for kind, keys, record in parts_of:
        faults += [((*keys, *inner), text) for inner, text in plausible.FAULTS[kind](record, {})]
    yield from (Problem(field=".".join((label, *keys)), message=message, where=where(keys)) for keys, message in faults)


def _chip_named(title: str) -> Chip | None:
    """The chip that reports call ``title``."""
    for name in folders.ids("chips"):
        if _title("chips", name) == title:
            try:
                chip: Chip = loader.load("chips", name)[0]
            except InputError:
                return None
            return chip
    return None


def _numbers(kind: str, node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every place of a document that holds a number or a passport, with its path. A model's sizes share the entry's one source."""
    if is_passported(node) or (isinstance(node, Mapping) and "value" in node):
        yield path, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if not (key in TILE_SIZES and "tiles" in path) and not (kind == "models" and not path and key == "model"):
                yield from _numbers(kind, value, (*path, str(key)))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _numbers(kind, value, (*path, str(index)))
    elif _mark(kind, path) is not None or (isinstance(node, (int, float)) and not isinstance(node, bool)):
        yield path, node


def _mark(kind: str, path: tuple[str, ...]) -> Quantity | None:
    """The unit and range of the number at ``path``."""
    if kind == "models":
        own = MODEL_KEYS.get(path[0]) if len(path) == 1 else None
        return own or RECIPE_EXTRA.get(path[-1] if path else "") or mark_at(Recipe, path[1:])
    if kind == "systems":
        choices = like.CHOICES["systems"]
        return mark_at(loader.RECORDS[choices[path[0]]], path[1:]) if path and path[0] in choices else mark_at(Cluster, path)
    return mark_at(loader.RECORDS[kind], path)


def _number_faults(kind: str, path: tuple[str, ...], node: Any, sources: Mapping[str, Any]) -> list[str]:
    """What is wrong with one number: passport, source, kind, unit, range, date."""
    if not is_passported(node):
        return [f"{node!r} has no passport (value, source, kind)"]
    faults = [f"{key!r} is not a passport field" for key in node if key not in KEYS]
    if not _listed(node["source"], sources):
        near = like.nearest(node["source"], tuple(sources))
        faults.append(f"source {node['source']!r} is not in sources.yaml" + (f"; nearest valid: {', '.join(near)}" if near else ""))
    if node.get("kind") not in PASSPORT_KINDS:
        faults.append(f"kind {node.get('kind')!r} is not one of {', '.join(PASSPORT_KINDS)}")
    elif node["source"] == ASSUMPTION and node["kind"] not in RANGED:
        faults.append(f"kind {node['kind']!r} with the source {ASSUMPTION!r}: who says so?")
    if node.get("kind") in RANGED and not {"low", "high"} <= set(node):
        faults.append(f"{node['kind']} without low and high")
    if "date" in node and not _DATE.match(str(node["date"])):
        faults.append(f"date {node['date']!r} is not YYYY, YYYY-MM or YYYY-MM-DD")
    return faults + _range_faults(kind, path, node)


def _range_faults(kind: str, path: tuple[str, ...], node: Mapping[str, Any]) -> list[str]:
    """Value, low and high in the field's unit and range, in this order, and of a credible size."""
    mark = _mark(kind, path)
    if mark is None:
        return ["is not a number of its record"]
    numbers = {}
    for key in ("low", "value", "high"):
        if key in node:
            try:
                numbers[key] = mark.read(node[key])
            except ValueError as error:
                return [f"{key} {node[key]!r}: {error}; allowed: {mark.allowed}"]
    ordered = list(numbers.values())
    if ordered != sorted(ordered):
        return [f"low <= value <= high does not hold: {numbers}"]
    size = plausible.in_range(path, numbers["value"], mark.unit)
    return [f"{node['value']!r} {size}"] if size else []
