"""YAML from users: small, safe, and with a line number for every key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from foretrain.core.errors import InputError, Problem

MAX_BYTE = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 20_000

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
        raise fail(field, f"is larger than {MAX_BYTE} bytes", f"{path}:1:1")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        raise fail(field, f"is not UTF-8 text (byte {error.start})", f"{path}:{line}:{column}") from None


def parse(text: str, name: str, field: str) -> tuple[dict[str, Any], Callable[[tuple[str, ...]], str]]:
    """A YAML mapping and a function from a path of keys to ``name:line:col``.

    Keys are always text. Aliases, merge keys, tags, duplicate keys, depth above ``MAX_DEPTH`` and more than ``MAX_NODES`` values
    are refused: a short file must not become a large one, and data must not choose how it is read.
    """
    try:
        _check_events(text, name, field)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        where = _at(name, error.problem_mark) if error.problem_mark else name
        raise fail(field, f"is not valid YAML: {error.problem}", where) from None
    except (yaml.YAMLError, ValueError) as error:
        offset = getattr(error, "position", None)
        before = text[:offset] if isinstance(offset, int) else ""
        where = f"{name}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        raise fail(field, f"is not valid YAML: {str(error).splitlines()[0]}", where) from None
    if not isinstance(node, yaml.MappingNode):
        raise fail(field, "must be a mapping of fields", f"{name}:1:1")
    document: dict[str, Any] = _build(node, yaml.SafeLoader(""), name, field)
    return document, lambda keys: _where(node, keys, name)


def _at(name: str, mark: Any) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}"


def _check_events(text: str, name: str, field: str) -> None:
    """Refuse what would be costly or surprising before anything is built from it."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        where = _at(name, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise fail(field, "aliases are not accepted", where)
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise fail(field, f"tags are not accepted ({tag!s:.60})", where)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise fail(field, f"is nested deeper than {MAX_DEPTH} levels", where)
        if nodes > MAX_NODES:
            raise fail(field, f"holds more than {MAX_NODES} keys and values", where)


def _build(node: Any, constructor: Any, name: str, field: str) -> Any:
    """Plain data from a node tree: mappings with text keys, lists, and scalars as YAML understands them."""
    if isinstance(node, yaml.SequenceNode):
        return [_build(value, constructor, name, f"{field}.{index}") for index, value in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        try:
            return constructor.construct_object(node)
        except (yaml.YAMLError, ValueError):
            raise fail(field, "is not a plain value", _at(name, node.start_mark), value=f"{node.value!s:.80}") from None
    document: dict[str, Any] = {}
    for key, value in node.value:
        where = _at(name, key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise fail(field, "has a key that is not plain text", where)
        if key.value == "<<":
            raise fail(field, "merge keys are not accepted", where)
        if key.value in document:
            raise fail(f"{field}.{key.value:.80}", "is given twice", where)
        document[key.value] = _build(value, constructor, name, f"{field}.{key.value:.80}")
    return document


def _where(node: Any, keys: tuple[str, ...], name: str) -> str:
    """Place of the last of ``keys`` that can be found below ``node``."""
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
