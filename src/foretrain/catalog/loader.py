"""Entries of the catalogue by kind and id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from foretrain.carbon.account import Amortisation
from foretrain.catalog import like
from foretrain.catalog.folders import Origin, Sheet, ids, searching, sources
from foretrain.catalog.provenance import Passport, split
from foretrain.catalog.schema import validate
from foretrain.core.errors import InputError, Problem
from foretrain.core.record import record
from foretrain.cost.account import Prices
from foretrain.system.chip import Chip, Kernels
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.reliability import Reliability
from foretrain.system.server import Server
from foretrain.system.site import Site
from foretrain.system.stack import Stack
from foretrain.system.storage import Storage
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import Model

KINDS = (
    "chips",
    "kernels",
    "servers",
    "fabrics",
    "storages",
    "reliabilities",
    "systems",
    "sites",
    "stacks",
    "prices",
    "amortisations",
    "models",
)
FIELD = {"systems": "system", "models": "model", "stacks": "stack", "sites": "site", "prices": "prices"}
RECORDS: dict[str, type] = {
    "chips": Chip,
    "kernels": Kernels,
    "servers": Server,
    "fabrics": Fabric,
    "storages": Storage,
    "reliabilities": Reliability,
    "sites": Site,
    "stacks": Stack,
    "prices": Prices,
    "amortisations": Amortisation,
    "models": Model,
}
"""The record that an entry of each kind becomes; ``record_type`` tells models apart, and a system is an assembly of entries
(``load_system``)."""
STACK_CHOICES = ("build", "strategy", "recipe")
"""Sections of a stack entry that set the plan's words; the rest is the ``Stack`` record."""
SECTIONS = {
    "system.server": "servers",
    "system.server.chip": "chips",
    "system.server.chip.kernels": "kernels",
    "system.fabric": "fabrics",
    "system.storage": "storages",
    "system.reliability": "reliabilities",
}
"""Sections of a scenario that an entry's id can fill."""

__all__ = [
    "KINDS",
    "RECORDS",
    "SECTIONS",
    "STACK_CHOICES",
    "Entry",
    "Origin",
    "entry",
    "ids",
    "load",
    "load_system",
    "model",
    "model_record",
    "place_finder",
    "raw",
    "record_document",
    "record_type",
    "searching",
    "sources",
    "system",
    "title",
]  # fmt: skip


@record
class Entry:
    """A catalogue entry: its plain document (values as text with units) and the passports of its numbers by dotted path.

    ``places`` gives ``file:line:col`` by dotted path for what was read from a user's folder, ``origins`` those entries by the same paths.
    """

    document: dict[str, Any]
    passports: dict[str, Passport]
    places: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)


def raw(kind: str, name: str) -> Any:
    """The entry's document with passports, ``like`` carried out; do not change it.

    Raises
    ------
    NotFoundError
        Naming the closest ids, and all of them.
    """
    return like.named(kind, name, FIELD.get(kind, kind)).document


def entry(kind: str, given: object, root: str) -> Entry:
    """One entry with passports named below ``root``; a chip with the kernels it names, a server with its chip.

    ``given`` is an id, or a mapping of fields that may start from an entry (``like``).
    """
    name = root or FIELD.get(kind, kind)
    sheet = like.expanded(kind, like.given(kind, given, name), name)
    if kind == "stacks":
        _check_choices(sheet, name)
    return _entry(sheet, root)


def _check_choices(sheet: Sheet, name: str) -> None:
    """A stack's words are mappings, since they are laid over those of the plan."""
    wrong = [key for key in STACK_CHOICES if not isinstance(sheet.document.get(key, {}), Mapping)]
    if wrong:
        message = "must be a mapping of fields"
        raise InputError([Problem(field=f"{name}.{key}", message=message, where=sheet.places.get((key,), "")) for key in wrong])


def _entry(sheet: Sheet, root: str) -> Entry:
    document, passports = split(sheet.document, root)
    return Entry(
        document=document,
        passports=passports,
        places={_dotted(root, keys): place for keys, place in sheet.places.items()},
        origins={_dotted(root, origin.keys): origin for origin in sheet.origins},
    )


def _dotted(root: str, keys: tuple[str, ...]) -> str:
    return ".".join((root, *keys)) if root else ".".join(keys)


def model(name: str) -> tuple[Entry, Entry]:
    """A model, and what its source says about its training (``recipe``), each with passports below its own name."""
    sheet = like.named("models", name, FIELD["models"])
    if not isinstance(sheet.document.get("model"), Mapping) or not isinstance(sheet.document.get("recipe", {}), Mapping):
        message = "must have a mapping 'model', and may have a mapping 'recipe'"
        raise InputError([Problem(field=f"models.{name}", message=message, where=sheet.places.get((), ""))])
    return _entry(_section(sheet, "model"), "model"), _entry(_section(sheet, "recipe"), "recipe")


def _section(sheet: Sheet, key: str) -> Sheet:
    """One section of an entry; the origin of the whole goes with the model."""
    places = {keys[1:]: place for keys, place in sheet.places.items() if keys[:1] == (key,)}
    return Sheet(document=sheet.document.get(key, {}), places=places, origins=sheet.origins if key == "model" else ())


def system(name: str) -> tuple[dict[str, Any], Entry]:
    """A whole system: its choices of site, stack, prices and amortisation, and the document of its cluster without ``num_chips``.

    The cluster's document nests chip in server, beside fabric, storage and reliability, as ``system.cluster.Cluster`` does.
    """
    sheet = like.expanded("systems", like.named("systems", name, FIELD["systems"]), FIELD["systems"])
    choices = like.CHOICES["systems"]
    missing = [key for key in choices if key not in sheet.document]
    if missing:
        where = sheet.places.get((), "")
        raise InputError([Problem(field=f"systems.{name}.{key}", message="is missing", where=where) for key in missing])
    parts = {key: value for key, value in sheet.document.items() if key in like.PARTS["systems"]}
    found = _entry(Sheet(document=parts, places=sheet.places, origins=sheet.origins), "system")
    return {key: sheet.document[key] for key in choices}, Entry(
        document={"name": name, **found.document}, passports=found.passports, places=found.places, origins=found.origins
    )


def title(given: object) -> str:
    """What to call an entry that is given by its id or as a mapping of fields.

    >>> title("us-average"), title({"like": "us-average", "pue": 1.1})
    ('us-average', 'us-average with changes')
    """
    if isinstance(given, Mapping):
        return f"{given[like.LIKE]} with changes" if like.LIKE in given else str(given.get("name", "its own"))
    return str(given)


def model_record(document: object) -> type[Model | ConvNet]:
    """What describes the model: a list of layers in ``sections`` is a convolutional network, all else a transformer.

    >>> model_record({"sections": []}).__name__
    'ConvNet'
    """
    return ConvNet if isinstance(document, Mapping) and "sections" in document else Model


def record_type(kind: str, document: object) -> type:
    """The record that a document of ``kind`` becomes."""
    return model_record(document) if kind == "models" else RECORDS[kind]


def record_document(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an expanded entry's document that its record is made of: a model without its recipe, a stack without the plan's words."""
    if kind == "models":
        return dict(document["model"])
    if kind == "stacks":
        return {key: value for key, value in document.items() if key not in STACK_CHOICES}
    return dict(document)


def load(kind: str, name: str) -> tuple[Any, dict[str, Passport]]:
    """One entry as its record, and the passports of its numbers by dotted path.

    Raises
    ------
    NotFoundError
        For a name that is not there, with the nearest names.

    >>> chip, passports = load("chips", "h100-sxm5-80gb")
    >>> chip.tdp_w, passports["tdp_w"].kind
    (700.0, 'datasheet')
    """
    found = entry(kind, name, "") if kind != "models" else model(name)[0]
    document = found.document if kind == "models" else record_document(kind, found.document)
    root = FIELD.get(kind, kind)
    result: Any = validate(record_type(kind, document), document, root, place_finder(found.places, "model" if kind == "models" else ""))
    return result, entry(kind, name, "").passports


def place_finder(places: Mapping[str, str], root: str) -> Any:
    """A function from keys below ``root`` to the place of the nearest section around them that ``places`` knows."""

    def where(keys: tuple[str, ...]) -> str:
        for length in range(len(keys), -1, -1):
            place = places.get(_dotted(root, keys[:length]))
            if place is not None:
                return place
        return ""

    return where


def load_system(name: str, num_chips: object) -> tuple[Cluster, dict[str, Passport]]:
    """A cluster of ``num_chips`` chips of a catalogue system, and the passports of its numbers.

    >>> load_system("dgx-h100", 16)[0].server.chip.name
    'NVIDIA H100 SXM5 80GB'
    """
    _, found = system(name)
    document = {**found.document, "num_chips": num_chips}
    return validate(Cluster, document, "system", place_finder(found.places, "system")), found.passports
