"""YAML from users: small, safe, and with a line number for every key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from foretrain.core.errors import InputError, Problem

MAX_BYTE = 1 << 20
MAX_DEPTH = 40

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def fail(field: str, message: str, where: str = "", value: object = None) -> InputError:
    """An error about a file as a whole."""
    return InputError([Problem(field=field, message=message, where=where, value=value)])


def read_text(path: Path, field: str) -> str:
    """The text of a file of at most ``MAX_BYTE`` bytes in UTF-8; anything else is an InputError naming ``field``."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTE + 1)
    except (OSError, ValueError) as error:
        raise fail(field, f"cannot be read: {getattr(error, 'strerror', None) or error}", str(path)) from None
    if len(data) > MAX_BYTE:
        raise fail(field, f"is larger than {MAX_BYTE} bytes", str(path))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail(field, f"is not UTF-8 text (byte {error.start})", str(path)) from None


def parse(text: str, name: str, field: str) -> tuple[dict[str, Any], Callable[[tuple[str, ...]], str]]:
    """A YAML mapping and a function from a path of keys to ``name:line:col``.

    Aliases, duplicate keys, depth above ``MAX_DEPTH`` and anything but plain data are refused: a short file must not become a large one.
    """
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise fail(field, "aliases are not accepted", _at(name, event.start_mark))
        node = yaml.compose(text, Loader=_LOADER)
        _check(node, name, field, 0)
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, C version where available
    except yaml.MarkedYAMLError as error:
        raise fail(field, f"is not valid YAML: {error.problem}", _at(name, error.problem_mark)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise fail(field, f"is not valid YAML: {str(error).splitlines()[0]}", name) from None
    if not isinstance(document, dict):
        raise fail(field, "must be a mapping of fields", f"{name}:1:1", value=document)
    return document, lambda keys: _where(node, keys, name)


def _check(node: Any, name: str, field: str, depth: int) -> None:
    where = _at(name, node.start_mark if node is not None else None)
    if depth > MAX_DEPTH:
        raise fail(field, f"is nested deeper than {MAX_DEPTH} levels", where)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen if isinstance(key.value, str) else True:
                raise fail(f"{field}.{key.value!s:.80}", "is given twice" if isinstance(key.value, str) else "is not a plain key", where)
            seen.add(key.value)
            _check(value, name, field, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check(value, name, field, depth + 1)


def _where(node: Any, keys: tuple[str, ...], name: str) -> str:
    mark = node.start_mark
    for wanted in keys:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == wanted:
                    mark, node = key.start_mark, value
                    break
        elif isinstance(node, yaml.SequenceNode) and wanted.isdigit() and int(wanted) < len(node.value):
            node = node.value[int(wanted)]
            mark = node.start_mark
    return _at(name, mark)


def _at(name: str, mark: Any) -> str:
    """``name:line:col`` of a parser's mark, counted from 1."""
    return f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
