"""From plain documents to records, with every problem found at once.

The records themselves are the schema: their fields carry unit marks (``core.units.Quantity``) that read text with units.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from foretrain.core.errors import InputError, Problem

T = TypeVar("T")
Where = Callable[[tuple[str, ...]], str]


@lru_cache(maxsize=64)
def _adapter(cls: type) -> Any:
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
        result: T = _adapter(cls).validate_python(document)
    except ValidationError as error:
        raise InputError([_problem(details, cls, root, where) for details in error.errors(include_url=False)]) from None
    return result


def _problem(details: Any, cls: type, root: str, where: Where | None) -> Problem:
    keys = tuple(str(key) for key in details["loc"])
    context = details.get("ctx", {})
    message, allowed = details["msg"], str(context.get("allowed", context.get("expected", "")))
    value = details["input"]
    nearest: tuple[str, ...] = ()
    if details["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        names = _field_names(cls, keys[:-1])
        message, allowed = "is not a known field", ", ".join(names)
        nearest = tuple(difflib.get_close_matches(keys[-1], names, n=2))
    elif details["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        message, value = "is missing", None
    elif details["type"] == "literal_error":
        message = "is not one of the allowed words"
        nearest = tuple(difflib.get_close_matches(str(value), allowed.replace("'", "").replace(" or ", ", ").split(", "), n=2))
    return Problem(
        field=".".join((root, *keys)),
        value=value,
        message=message,
        allowed=allowed,
        nearest=nearest,
        where=where(keys) if where else "",
    )


def _field_names(cls: type, keys: tuple[str, ...]) -> list[str]:
    """Names of the fields of the record that ``keys`` lead to from ``cls``."""
    import typing

    current: Any = cls
    for key in keys:
        hints = typing.get_type_hints(current) if dataclasses.is_dataclass(current) else {}
        candidate = hints.get(key)
        for option in (candidate, *typing.get_args(candidate)):
            if isinstance(option, type) and dataclasses.is_dataclass(option):
                candidate = option
        current = candidate if candidate is not None else current
    return [field.name for field in dataclasses.fields(current)] if dataclasses.is_dataclass(current) else []


def plain(value: Any) -> Any:
    """A record as nested plain data, for documents and JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
