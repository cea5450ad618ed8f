"""Where the numbers of a scenario come from: passports joined with the source list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.catalog.loader import sources
from foretrain.catalog.provenance import KINDS, Passport

GIVEN = "given"
"""The kind of a number that the user set in place of the catalogue's."""


def value_at(document: object, path: str) -> object:
    """The value at a dotted ``path`` of nested mappings and lists; None where there is none.

    Keys may contain dots themselves, so the longest key that matches is followed.

    >>> value_at({"a": {"b.c": [7]}}, "a.b.c.0")
    7
    """
    if not path:
        return document
    words = path.split(".")
    for length in range(len(words), 0, -1):
        key, rest = ".".join(words[:length]), ".".join(words[length:])
        if isinstance(document, Mapping) and key in document:
            return value_at(document[key], rest)
        if isinstance(document, (list, tuple)) and key.isdigit() and int(key) < len(document):
            return value_at(document[int(key)], rest)
    return None


def current(document: Mapping[str, object], passports: Mapping[str, Passport]) -> dict[str, Passport]:
    """The passports that still hold: all but those whose value the user replaced.

    A path that the document does not have was used up in making another value, and holds.
    """
    values = {path: value_at(document, path) for path in passports}
    return {path: passport for path, passport in passports.items() if values[path] is None or str(values[path]) == passport.value_text}


def replaced(document: Mapping[str, object], passports: Mapping[str, Passport]) -> tuple[str, ...]:
    """Paths whose catalogue value the user replaced."""
    held = current(document, passports)
    return tuple(path for path in passports if path not in held)


def kinds(document: Mapping[str, object], passports: Mapping[str, Passport]) -> dict[str, int]:
    """How many numbers are of each kind (data sheet, paper, measurement, estimate, assumption), and how many were given instead."""
    held = current(document, passports).values()
    found = {kind: sum(passport.kind == kind for passport in held) for kind in KINDS}
    found[GIVEN] = len(passports) - len(held)
    return {kind: number for kind, number in found.items() if number}


def source_list(document: Mapping[str, object], passports: Mapping[str, Passport]) -> list[dict[str, Any]]:
    """The sources a scenario uses, each with the values taken from it.

    Returns one entry per source key, in order of first use: ``key``, what the source list says about it (title, address ...), and
    ``values`` with path, value, kind, low, high, date, note and the user's folder it was read from, if any.
    """
    known = sources([passport.folder for passport in passports.values() if passport.folder])
    entries: dict[str, dict[str, Any]] = {}
    for path, passport in current(document, passports).items():
        about = {name: str(text) for name, text in (known.get(passport.source) or {}).items()}
        entry = entries.setdefault(passport.source, {"key": passport.source, **about, "values": []})
        entry["values"].append(
            {
                "path": path,
                "value": passport.value_text,
                "kind": passport.kind,
                "low": passport.low,
                "high": passport.high,
                "date": passport.date,
                "note": passport.note,
                "folder": passport.folder,
            }
        )
    return list(entries.values())
