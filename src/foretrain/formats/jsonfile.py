"""JSON from users: small, strict, and with a line number for every key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from foretrain.core.errors import InputError, Problem
from foretrain.core.record import record

MAX_BYTE = 1 << 20


@record
class JsonFile:
    """The top-level object of a JSON file, its text and the name it is called in messages.

    ``not_finite`` is where the first NaN or infinity stands, empty if there is none: Python's writer makes them, JSON has none.
    """

    name: str
    text: str
    document: dict[str, Any]
    not_finite: str = ""

    def where(self, key: str, occurrence: int = 0) -> str:
        """``file:line:col`` of a key, or of the file's start if the key is not in it."""
        return f"{self.name}:{_line_col(self.text, _key_offset(self.text, key, occurrence))}"


def read_json(path: Path, field: str) -> JsonFile:
    """The JSON object in a file of at most ``MAX_BYTE`` bytes of UTF-8.

    Keys given twice and anything but an object at the top are refused; NaN and infinities are reported in ``not_finite``.

    Raises
    ------
    InputError
        Naming ``field``, the reason and ``file:line:col``.
    """
    text = _read_text(path, field)

    def refuse(message: str, offset: int = 0) -> NoReturn:
        raise InputError([Problem(field=field, message=message, where=f"{path}:{_line_col(text, offset)}")])

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                refuse(f"key {key!r:.80} is given twice", _key_offset(text, key, 1))
            result[key] = value
        return result

    not_finite: list[str] = []

    def constant(word: str) -> float:
        not_finite.append(f"{path}:{_line_col(text, max(text.find(word), 0))}")
        return float(word)

    try:
        document = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as error:
        refuse(f"is not valid JSON: {error.msg}", error.pos)
    except (ValueError, RecursionError) as error:
        refuse(f"is not usable JSON: {str(error).splitlines()[0]:.120}")
    if not isinstance(document, dict):
        refuse("must hold a JSON object at the top")
    return JsonFile(name=str(path), text=text, document=document, not_finite=not_finite[0] if not_finite else "")


def _read_text(path: Path, field: str) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError([Problem(field=field, value=str(path), message=f"cannot be read: {reason}")]) from None
    if len(data) > MAX_BYTE:
        raise InputError([Problem(field=field, message=f"is larger than {MAX_BYTE} bytes", where=f"{path}:1:1")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise InputError([Problem(field=field, message="is not UTF-8 text", where=f"{path}:{line}:{column}")]) from None


def _key_offset(text: str, key: str, occurrence: int) -> int:
    """Offset of the n-th place where ``key`` stands before a colon; the last one there is, or 0."""
    offsets = [match.start() for match in re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text)]
    return offsets[min(occurrence, len(offsets) - 1)] if offsets else 0


def _line_col(text: str, offset: int) -> str:
    """``line:col`` of an offset, both counted from one.

    >>> _line_col("ab", 1)
    '1:2'
    """
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"
