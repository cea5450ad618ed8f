"""Names for the nodes of a traced result: what the report calls them, which kernel or collective they time, what the code calls them."""

from __future__ import annotations

import ast
import dataclasses
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from foretrain.core.record import record
from foretrain.core.traced import Place, Traced
from foretrain.program.program import Collective, Program
from foretrain.report.json import sections
from foretrain.schedule.overlap import PHASES
from foretrain.simulate.result import Result
from foretrain.simulate.scenario import Scenario
from foretrain.step.step import time_program

PARTS_UNIT = {"step": "s", "memory": "byte", "energy": "j", "cost": "usd", "carbon": "kg", "run": "s"}
"""Unit suffix of figures that carry none in their own name, by section: the entries of ``parts`` and ``hidden``."""


@record
class Home:
    """Where a number is computed: dotted name of the function, and the name that the code gives the number, if any."""

    function: str
    name: str = ""


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number below ``value`` by dotted path; text, flags and nulls are left out.

    >>> list(flat({"a": [1.0, {"b": 2.0}], "c": "x"}))
    [('a.0', 1.0), ('a.1.b', 2.0)]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from flat({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, path)
    elif isinstance(value, (list, tuple)):
        yield from flat(dict(enumerate(value)), path)
    elif isinstance(value, (int, float, Traced)) and not isinstance(value, bool):
        yield path, value


def figures(scenario: Scenario, result: Result) -> dict[str, Any]:
    """Every figure of the report by its name there (``cost.total_usd``), then those of the result's records (``bill.cost.total_usd``)."""
    return {**dict(flat({"step": result.step, "bill": result.bill})), **dict(flat(sections(scenario, result)))}


def labels(scenario: Scenario, result: Result) -> dict[int, str]:
    """Names of the nodes of a traced result by identity; a node that several names fit has the first, and that of equal kernels.

    The report's figures come first. Then the kernels, collectives and passes that the step was timed with: the formulas are run once
    more on the same nodes, which gives the same nodes again.
    """
    found: dict[int, list[str]] = {}
    for name, value in _named(scenario, result):
        if isinstance(value, Traced) and value.op != "leaf":
            found.setdefault(id(value), []).append(name)
    return {node: _joined(names) for node, names in found.items()}


def _joined(names: list[str]) -> str:
    """The first name; equal kernels of one pass are named together.

    >>> _joined(["layer forward: norm 1", "layer forward: norm 2", "step.parts.matmul"])
    'layer forward: norm 1, norm 2'
    """
    where, colon, _ = names[0].partition(": ")
    alike = [name for name in dict.fromkeys(names) if colon and name.startswith(where + colon) and "_" not in name]
    return ", ".join([names[0], *(name.partition(": ")[2] for name in alike if name != names[0])])


def _named(scenario: Scenario, result: Result) -> Iterator[tuple[str, Any]]:
    yield from flat(sections(scenario, result))
    yield from _passes(scenario, result.program)
    yield from _kernels(scenario, result.program)
    yield from _collectives(scenario, result.program)
    yield from flat({"step": result.step, "bill": result.bill})


def _passes(scenario: Scenario, program: Program) -> Iterator[tuple[str, Any]]:
    """Seconds of the three passes of every block, and the rest of what the schedule puts together."""
    cluster, models = scenario.cluster, scenario.models
    times = time_program(program, cluster.server, cluster.fabric, scenario.stack, models.compute, models.collective)
    for block, passes in zip(program.blocks, times.blocks, strict=True):
        for phase, seconds in zip(PHASES, passes, strict=True):
            yield f"{block.name} {phase}: total_s", seconds.total_s
            yield from ((f"{block.name} {phase}: {name}", value) for name, value in flat(seconds))
    for name, value in flat(dataclasses.replace(times, blocks=())):
        yield f"once per step: {name}", value


def _kernels(scenario: Scenario, program: Program) -> Iterator[tuple[str, Any]]:
    """Seconds of every op of every block."""
    for block in program.blocks:
        seconds = scenario.models.compute.time(block.ops, scenario.cluster.server.chip)
        for table in ("matmul", "attention", "stream"):
            ops = getattr(block.ops, f"{table}s")
            for name, phase, value in zip(ops.name, ops.phase, getattr(seconds, f"{table}_s"), strict=True):
                yield f"{block.name} {phase}: {name}", value


def _collectives(scenario: Scenario, program: Program) -> Iterator[tuple[str, Any]]:
    """Seconds and bytes of every collective."""
    calls: list[tuple[str, Collective]] = [
        *((block.name, call) for block in program.blocks for call in block.collectives),
        *(("once per step", call) for call in (*program.step_collectives, *program.transfers)),
    ]
    for where, call in calls:
        name = f"{where} {call.phase}: {call.name}"
        yield name, scenario.models.collective.time(call.op, call.group, call.payload_byte, scenario.cluster.fabric)
        yield f"{name} payload_byte", call.payload_byte


def unit_of(name: str) -> str:
    """The unit suffix of a name, without its underscore; empty for a pure number.

    >>> unit_of("system.server.chip.hbm_byte_per_s"), unit_of("step.parts.matmul"), unit_of("step.mfu"), unit_of("discount_rate_per_year")
    ('byte_per_s', 's', '', 'per_year')
    """
    parts = name.split(".")
    for part in reversed(parts[-2:]):
        words = part.rpartition(" ")[2].split("_")
        for begin in range(len(words)):
            if all(word in UNITS for word in words[begin:]) and words[begin:] != ["per"]:
                return "_".join(words[begin:])
    timed = ": " in name and "_" not in name.partition(": ")[2]
    return "s" if timed else PARTS_UNIT.get(parts[0], "") if len(parts) > 2 and parts[1] in ("parts", "hidden") else ""


UNITS = frozenset({"s", "byte", "flop", "w", "j", "kg", "usd", "l", "m2", "hour", "year", "chip", "token", "million", "kwh", "per"})
"""Words of which the unit at the end of a name consists."""


def home(place: Place) -> Home:
    """The function that computes a number and the name it has there: a variable, a field, a dictionary's key, or the function's own."""
    function = place.code.co_qualname
    lines = list(place.code.co_positions())[place.instruction // 2]
    name = _assigned(place.code.co_filename).get(lines, "")
    own = function.rpartition(".")[2].lstrip("_")
    shown = ".".join(word for word in function.split(".") if not word.startswith("<"))
    return Home(function=f"{place.module}.{shown}", name=own if name == RETURNED else name)


RETURNED = "return"


@lru_cache(maxsize=64)
def _assigned(path: str) -> dict[tuple[int | None, int | None, int | None, int | None], str]:
    """Names of the expressions of a source file by position (first and last line, first and last column)."""
    found: dict[tuple[int | None, int | None, int | None, int | None], str] = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(path)))):
        for name, value in _targets(node):
            found[value.lineno, value.end_lineno, value.col_offset, value.end_col_offset] = name
    return found


def _targets(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What ``node`` gives a name to."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        yield from ((str(key.value), value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield RETURNED, node.value
