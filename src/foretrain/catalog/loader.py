"""Entries of the catalogue by kind and id."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from foretrain.carbon.account import Amortisation
from foretrain.catalog.provenance import Passport, is_passported, split
from foretrain.catalog.schema import validate
from foretrain.core.errors import NotFoundError, Problem
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
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@record
class Entry:
    """A catalogue entry: its plain document (values as text with units) and the passports of its numbers by dotted path."""

    document: dict[str, Any]
    passports: dict[str, Passport]


def _folder(kind: str) -> Any:
    return files("foretrain.catalog").joinpath("data", kind)


def ids(kind: str) -> tuple[str, ...]:
    """All ids of a kind, sorted."""
    return tuple(sorted(item.name.removesuffix(".yaml") for item in _folder(kind).iterdir() if item.name.endswith(".yaml")))


@lru_cache(maxsize=256)
def raw(kind: str, name: str) -> Any:
    """The entry's file as it is, passports included; do not change the returned document.

    Raises
    ------
    NotFoundError
        Naming the closest ids, and all of them.
    """
    known = ids(kind)
    if name not in known:
        raise NotFoundError(
            [
                Problem(
                    field=FIELD.get(kind, kind),
                    value=name,
                    message=f"is not in the catalogue of {kind}",
                    allowed=", ".join(known),
                    nearest=tuple(difflib.get_close_matches(str(name), known, n=3)),
                )
            ]
        )
    return yaml.load(_folder(kind).joinpath(f"{name}.yaml").read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader


def entry(kind: str, name: str, root: str) -> Entry:
    """One entry with passports named below ``root``; a chip with the kernels it names."""
    document = raw(kind, name)
    if kind == "chips":
        document = {**document, "kernels": _kernels(document["kernels"])}
    document, passports = split(document, root)
    return Entry(document=document, passports=passports)


def _kernels(given: Any) -> Any:
    """The kernels of a chip: an entry's id, or a mapping that may start from one (``like``) and replace some of its numbers."""
    if isinstance(given, str):
        return raw("kernels", given)
    if "like" not in given:
        return given
    return laid_over(raw("kernels", given["like"]), {key: value for key, value in given.items() if key != "like"})


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``below`` with the values of ``above`` in place of its own; mappings are joined, passported numbers replaced whole."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and not is_passported(value):
            result[key] = laid_over(old, value)
        else:
            result[key] = value
    return result


@lru_cache(maxsize=1)
def sources() -> dict[str, dict[str, str]]:
    """The source list: key to title, year, address and licence."""
    text = files("foretrain.catalog").joinpath("data", "sources.yaml").read_text(encoding="utf-8")
    document: dict[str, dict[str, str]] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    return document


def system(name: str) -> tuple[dict[str, str], Entry]:
    """A whole system: the names of its site, stack, prices and amortisation, and the document of its cluster without ``num_chips``.

    The cluster's document nests chip in server, beside fabric, storage and reliability, as ``system.cluster.Cluster`` does.
    """
    names: dict[str, str] = raw("systems", name)
    server = entry("servers", names["server"], "system.server")
    chip = entry("chips", server.document["chip"], "system.server.chip")
    fabric = entry("fabrics", names["fabric"], "system.fabric")
    storage = entry("storages", names["storage"], "system.storage")
    reliability = entry("reliabilities", names["reliability"], "system.reliability")
    document = {
        "name": name,
        "server": {**server.document, "chip": chip.document},
        "fabric": fabric.document,
        "storage": storage.document,
        "reliability": reliability.document,
    }
    passports = {**server.passports, **chip.passports, **fabric.passports, **storage.passports, **reliability.passports}
    return names, Entry(document=document, passports=passports)


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
    """The part of an entry's document that its record is made of: a server with its chip's document, a stack without the plan's words."""
    if kind == "models":
        return dict(document["model"])
    if kind == "stacks":
        return {key: value for key, value in document.items() if key not in STACK_CHOICES}
    if kind == "chips":
        return {**document, "kernels": split(_kernels(document["kernels"]))[0]}
    if kind == "servers":
        return {**document, "chip": entry("chips", document["chip"], "chip").document}
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
    found = entry(kind, name, "")
    document = record_document(kind, found.document)
    return validate(record_type(kind, document), document, FIELD.get(kind, kind)), found.passports


def load_system(name: str, num_chips: object) -> tuple[Cluster, dict[str, Passport]]:
    """A cluster of ``num_chips`` chips of a catalogue system, and the passports of its numbers.

    >>> load_system("dgx-h100", 16)[0].server.chip.name
    'NVIDIA H100 SXM5 80GB'
    """
    _, found = system(name)
    return validate(Cluster, {**found.document, "num_chips": num_chips}, "system"), found.passports
