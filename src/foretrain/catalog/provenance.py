"""Passports: where a number comes from, kept beside the numbers and out of the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.core.record import record

KINDS = ("datasheet", "paper", "measurement", "estimate", "assumption")
KEYS = frozenset({"value", "source", "kind", "low", "high", "date", "note"})


@record
class Passport:
    """The text of a value with its unit, its source key (``catalog/data/sources.yaml``), kind, range, date and a note;
    the user's folder it was read from, if it is not from the shipped catalogue."""

    value_text: str
    source: str
    kind: str
    low: str = ""
    high: str = ""
    date: str = ""
    note: str = ""
    folder: str = ""


def is_passported(node: object) -> bool:
    """True for ``{value: ..., source: ..., kind: ...}``."""
    return isinstance(node, Mapping) and "value" in node and "source" in node


def split(node: Any, path: str = "") -> tuple[Any, dict[str, Passport]]:
    """Separate numbers from their passports.

    Returns the same document with every passported number replaced by its value, and the passports by dotted path.

    >>> split({"tdp_w": {"value": "400 W", "source": "s", "kind": "datasheet"}}, "chip")[0]
    {'tdp_w': '400 W'}
    """
    if is_passported(node):
        text = {key: str(node.get(key, "")) for key in (*KEYS, "folder")}
        passport = Passport(value_text=text.pop("value"), **text)
        return node["value"], {path: passport}
    passports: dict[str, Passport] = {}
    if isinstance(node, Mapping):
        plain: dict[str, Any] = {}
        for key, value in node.items():
            plain[key], found = split(value, f"{path}.{key}" if path else str(key))
            passports.update(found)
        return plain, passports
    if isinstance(node, list):
        items = []
        for index, value in enumerate(node):
            item, found = split(value, f"{path}.{index}")
            items.append(item)
            passports.update(found)
        return items, passports
    return node, passports
