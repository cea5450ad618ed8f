"""Entries of the catalogue by kind and id."""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from foretrain.catalog.provenance import Passport, split
from foretrain.core.errors import NotFoundError, Problem
from foretrain.core.record import record

KINDS = ("chips", "servers", "fabrics", "storages", "reliabilities", "systems", "sites", "stacks", "prices", "amortisations", "models")
FIELD = {"systems": "system", "models": "model", "stacks": "stack", "sites": "site", "prices": "prices"}
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
    """One entry with passports named below ``root``."""
    document, passports = split(raw(kind, name), root)
    return Entry(document=document, passports=passports)


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
