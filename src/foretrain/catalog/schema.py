"""From plain documents to records, with every problem found at once.

The records themselves are the schema: their fields carry unit marks (``core.units.Quantity``) that read text with units.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from foretrain.core.errors import InputError, Problem
from foretrain.core.units import Quantity

SHAPES = {
    "tuple_type": "must be a list",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "mapping_type": "must be a mapping of names to values",
    "dict_type": "must be a mapping of names to values",
    "dataclass_type": "must be a mapping of fields",
}
"""Our words for the validator's complaints about the shape of a value."""

T = TypeVar("T")
Where = Callable[[tuple[str, ...]], str]


@lru_cache(maxsize=64)
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def validate(cls: type[T], document: object, root: str, where: Where | None = None) -> T:
    """Read ``document`` as a ``cls`` record.

    Parameters
    ----------
    root
        Dotted path of the document in the scenario; problems are named below it.
    where
        Maps a path of keys to ``file:line:col``.

    Raises
    ------
    InputError
        Listing all problems: field, value, rule, allowed range and nearest valid names.
    """
    from pydantic import ValidationError

    try:
        record: Any = cls
        result: T = _adapter(record).validate_python(document)
    except ValidationError as error:
        raise InputError([_problem(details, cls, root, where) for details in error.errors(include_url=False)]) from None
    return result


def _problem(details: Any, cls: type, root: str, where: Where | None) -> Problem:
    keys = tuple(str(key) for key in details["loc"])
    context = details.get("ctx", {})
    message, allowed = SHAPES.get(details["type"], details["msg"]), str(context.get("allowed", context.get("expected", "")))
    value = details["input"]
    nearest: tuple[object, ...] = ()
    if details["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        names = _field_names(cls, keys[:-1])
        message, allowed = "is not a known field", ", ".join(names)
        nearest = tuple(difflib.get_close_matches(keys[-1], names, n=2))
    elif details["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        message, value = "is missing", None
    elif details["type"] == "literal_error":
        message = "is not one of the allowed words"
        nearest = tuple(difflib.get_close_matches(str(value), allowed.replace("'", "").replace(" or ", ", ").split(", "), n=2))
    elif details["type"] == "quantity":
        nearest = _nearest_bound(value, mark_at(cls, keys))
    return Problem(
        field=".".join((root, *keys)),
        value=value,
        message=message,
        allowed=allowed,
        nearest=nearest,
        where=where(keys) if where else "",
    )


def _nearest_bound(value: object, mark: Quantity | None) -> tuple[object, ...]:
    """The end of the permitted range that a readable number lies beyond; empty if the value is no number or the end is not permitted."""
    if mark is None:
        return ()
    try:
        number = Quantity(mark.unit).read(value)
    except ValueError:
        return ()
    unit = "" if mark.unit == "1" else f" {mark.unit}"
    below = [f"{bound:g}{unit}" for bound in (mark.ge,) if bound is not None and number < bound]
    above = [f"{bound:g}{unit}" for bound in (mark.le,) if bound is not None and number > bound]
    whole = [str(round(number))] if mark.integer and not below and not above and number != round(number) else []
    return tuple(below + above + whole)


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def annotation_at(cls: type, keys: tuple[str, ...]) -> Any:
    """The annotation of the field that ``keys`` lead to from the record ``cls``; None if there is none.

    Keys step into records by field name, into mappings by any key and into tuples by any index.
    """
    current: Any = cls
    for key in keys:
        current = _record_in(current)
        if dataclasses.is_dataclass(current) and isinstance(current, type):
            current = _hints(current).get(key)
        else:
            items = [item for item in typing.get_args(current) if item is not Ellipsis]
            current = items[-1] if items else None
        if current is None:
            return None
    return current


def _record_in(annotation: Any) -> Any:
    """The record in ``Record | None``; anything else as it is."""
    options = [item for item in typing.get_args(annotation) if dataclasses.is_dataclass(item)]
    union = type(None) in typing.get_args(annotation)
    return options[0] if union and options else annotation


def mark_at(cls: type, keys: tuple[str, ...]) -> Quantity | None:
    """The unit mark of the field that ``keys`` lead to; None for words and whole sections."""
    annotation = annotation_at(cls, keys)
    if typing.get_origin(annotation) is not Annotated:
        return None
    return next((mark for mark in typing.get_args(annotation)[1:] if isinstance(mark, Quantity)), None)


def _field_names(cls: type, keys: tuple[str, ...]) -> list[str]:
    """Names of the fields of the record that ``keys`` lead to from ``cls``."""
    found = _record_in(annotation_at(cls, keys))
    return [field.name for field in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []


def plain(value: Any) -> Any:
    """A record as nested plain data, for documents and JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
