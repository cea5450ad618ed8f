"""Entries made from others: ``like: ID`` starts from an entry of the same kind, and every key given beside it replaces one of its own.

An entry of a user's folder that is ``like`` its own id starts from the one it stands in for. Passports travel with their numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from foretrain.catalog import folders
from foretrain.catalog.folders import Keys, Sheet
from foretrain.catalog.provenance import is_passported
from foretrain.core.errors import InputError, NotFoundError, Problem

LIKE = "like"
NEAREST = 3
"""How many names a mistaken one is answered with."""
PARTS: Mapping[str, Mapping[str, str]] = {
    "systems": {"server": "servers", "fabric": "fabrics", "storage": "storages", "reliability": "reliabilities"},
    "servers": {"chip": "chips"},
    "chips": {"kernels": "kernels"},
}
"""Sections of an entry that are entries themselves, by the kind of the whole: an id, or a mapping that may be ``like`` one."""
CHOICES: Mapping[str, Mapping[str, str]] = {
    "systems": {"site": "sites", "stack": "stacks", "prices": "prices", "amortisation": "amortisations"}
}
"""Sections that name a default which the user may choose otherwise."""


def nearest(name: object, known: Sequence[str]) -> tuple[str, ...]:
    """Up to three of ``known`` that hold ``name`` or look most like it, whatever its capitals.

    >>> nearest("DGX-H10", ["dgx-a100", "dgx-h100"])
    ('dgx-h100', 'dgx-a100')
    """
    word = str(name).lower()
    holding = [item for item in known if word and word in item]
    alike = difflib.get_close_matches(word, known, n=NEAREST) or difflib.get_close_matches(word, known, n=NEAREST, cutoff=0.4)
    return tuple(dict.fromkeys([*alike, *holding]))[:NEAREST]


def named(kind: str, name: object, field: str, where: str = "", start: int = 0) -> Sheet:
    """The entry called ``name``, its ``like`` carried out.

    Raises
    ------
    NotFoundError
        Naming the closest ids, and all of them.
    InputError
        For a chain of ``like`` that comes back to where it began.
    """
    return carried_out(kind, _found(kind, name, field, where, start), field)


def _found(kind: str, name: object, field: str, where: str, start: int) -> Sheet:
    sheet = folders.find(kind, name, start) or folders.find(kind, name.lower(), start) if isinstance(name, str) else None
    if sheet is None:
        known = folders.ids(kind)
        problem = Problem(
            field=field,
            value=name,
            message=f"is not in the catalogue of {kind}",
            allowed=", ".join(known),
            nearest=nearest(name, known),
            where=where,
        )
        raise NotFoundError([problem])
    return sheet


def given(kind: str, value: Any, field: str, places: Mapping[Keys, str] | None = None) -> Sheet:
    """The entry that ``value`` stands for: an id, or a mapping of fields that may be ``like`` an entry."""
    places = places or {}
    if is_passported(value):
        raise InputError([Problem(field=field, message="is a number; expected an id or a mapping of fields", where=places.get((), ""))])
    if isinstance(value, Mapping):
        return carried_out(kind, Sheet(document=value, places=places), field)
    return named(kind, value, field, places.get((), ""))


def carried_out(kind: str, sheet: Sheet, field: str, seen: tuple[tuple[str, int], ...] = ()) -> Sheet:
    """``sheet`` laid over the entry that it is like; ``seen`` are the entries on the way here."""
    if LIKE not in sheet.document:
        return sheet
    name, where, field = sheet.document[LIKE], sheet.places.get((LIKE,), ""), f"{field}.{LIKE}"
    below = _found(kind, name, field, where, sheet.folder_index + 1 if name == sheet.name else 0)
    if (below.name, below.folder_index) in seen:
        chain = " -> ".join(step for step, _ in (*seen, (below.name, 0)))
        raise InputError([Problem(field=field, value=name, message=f"leads back to itself: {chain}", where=where)])
    below = carried_out(kind, below, field.removesuffix(f".{LIKE}"), (*seen, (below.name, below.folder_index)))
    own = {key: value for key, value in sheet.document.items() if key != LIKE}
    return Sheet(
        document=laid_over(below.document, own, {**PARTS.get(kind, {}), **CHOICES.get(kind, {})}),
        name=sheet.name,
        folder_index=sheet.folder_index,
        places={**below.places, **sheet.places},
        origins=(*below.origins, *sheet.origins),
    )


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any], parts: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``below`` with the values of ``above`` in place of its own.

    Mappings are joined, passported numbers and lists replaced whole; a mapping of indices replaces items of a list. A section that is an
    entry itself (``parts``) is replaced by an id or by a mapping with ``like``, and joined with any other mapping.

    >>> laid_over({"a": {"b": 1, "c": 2}, "d": [1, 2]}, {"a": {"b": 3}, "d": {"1": 9}})
    {'a': {'b': 3, 'c': 2}, 'd': [1, 9]}
    >>> laid_over({"chip": "x"}, {"chip": {"tdp_w": "1 W"}}, {"chip": "chips"})
    {'chip': {'like': 'x', 'tdp_w': '1 W'}}
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if not isinstance(value, Mapping) or is_passported(value) or (parts and key in parts and LIKE in value):
            result[key] = value
        elif parts and key in parts and isinstance(old, str):
            result[key] = {LIKE: old, **value}
        elif isinstance(old, Mapping) and not is_passported(old):
            result[key] = laid_over(old, value)
        elif isinstance(old, list) and all(str(index).isdigit() and int(index) < len(old) for index in value):
            result[key] = _items_replaced(old, value)
        else:
            result[key] = value
    return result


def _items_replaced(items: Sequence[Any], above: Mapping[str, Any]) -> list[Any]:
    joined = laid_over({str(index): item for index, item in enumerate(items)}, {str(int(index)): value for index, value in above.items()})
    return list(joined.values())


def expanded(kind: str, sheet: Sheet, field: str) -> Sheet:
    """``sheet`` with the documents of its parts in it: a chip with its kernels, a server with its chip, a system without its choices."""
    document, places, origins = dict(sheet.document), dict(sheet.places), sheet.origins
    for key, part_kind in PARTS.get(kind, {}).items():
        path = f"{field}.{key}" if field else key
        if key not in document:
            raise InputError([Problem(field=path, message="is missing", where=sheet.places.get((), ""))])
        inside = {keys[1:]: place for keys, place in sheet.places.items() if keys[:1] == (key,)}
        part = expanded(part_kind, given(part_kind, document[key], path, inside), path)
        document[key] = part.document
        places |= {(key, *keys): place for keys, place in part.places.items()}
        origins += tuple(moved(origin, key) for origin in part.origins)
    return Sheet(document=document, name=sheet.name, folder_index=sheet.folder_index, places=places, origins=origins)


def moved(origin: folders.Origin, key: str) -> folders.Origin:
    """``origin`` seen from the entry that holds its section under ``key``."""
    return folders.Origin(
        keys=(key, *origin.keys), kind=origin.kind, name=origin.name, folder=origin.folder, shadows=origin.shadows
    )  # fmt: skip
