"""Names carry their unit, or stand in the table of ``docs/nomenclature.md``; and the table lists nothing that is not there."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import foretrain

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/nomenclature.md"
UNIT = r"(?:s|byte|flop|w|j|kg|usd|l|m2|hour|year|token|chip|param)"
NAME_WITH_UNIT = re.compile(rf"(?:.*_)?{UNIT}(?:_per_{UNIT}(?:_{UNIT})?)*$|.*_per_{UNIT}(?:_{UNIT})?$")


def records() -> Iterator[type]:
    """Every dataclass defined in the package."""
    for module in pkgutil.walk_packages(foretrain.__path__, "foretrain."):
        if module.name == "foretrain.__main__":
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.name:
                yield value


def is_numeric(hint: object) -> bool:
    """True for numbers, arrays, and mappings and tuples of them; a flag is not a number."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float) or origin is np.ndarray:
        return True
    if origin is typing.Annotated:
        return is_numeric(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return any(is_numeric(argument) for argument in arguments)
    if origin is tuple:
        return any(is_numeric(argument) for argument in arguments if argument is not Ellipsis)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return is_numeric(arguments[1])
    return False


def numeric_fields() -> dict[str, list[str]]:
    """Names of all numeric record fields, with the records that have them."""
    found: dict[str, list[str]] = {}
    for cls in records():
        for name, hint in typing.get_type_hints(cls, include_extras=True).items():
            if name in {field.name for field in dataclasses.fields(cls)} and is_numeric(hint):
                found.setdefault(name, []).append(cls.__name__)
    return found


def listed() -> list[str]:
    """Names in the first column of the page's tables."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def identifiers() -> set[str]:
    """Every name that the code defines or takes: fields, functions, arguments, module-level names, and keys of their dictionaries."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                names.add(node.value)
    return names


def test_numbers_say_their_unit_or_are_listed() -> None:
    known = set(listed())
    unknown = {name: where for name, where in numeric_fields().items() if not NAME_WITH_UNIT.match(name) and name not in known}
    assert not unknown, "name the unit, or list the pure number in docs/nomenclature.md"


def test_listed_names_exist() -> None:
    assert set(listed()) <= identifiers()


def test_no_name_is_listed_twice() -> None:
    names = listed()
    assert sorted(set(names)) == sorted(names)


def test_unit_rule() -> None:
    for name in ("hbm_byte_per_s", "step_s", "byte", "usd_per_chip_hour", "location_kg_per_j", "opex_fraction_per_year", "parts_usd"):
        assert NAME_WITH_UNIT.match(name), name
    for name in ("efficiency", "num_layers", "mfu", "seen", "heads", "utilisation"):
        assert not NAME_WITH_UNIT.match(name), name
