"""Variants beside a base: what they change in time, memory, energy, cost and carbon, and which fields of the scenario differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foretrain.core.constants import GIB
from foretrain.report import figures as words
from foretrain.report.json import Document
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.step.fits import verdict
from foretrain.sweep.solve import max_microbatch_size, max_seq_len, min_chips
from foretrain.sweep.variants import Variant

FIGURES = (
    "device_byte", "step_s", "mfu", "token_per_s", "wall_s", "total_j", "total_usd", "total_kg",
)  # fmt: skip
LABEL = {
    "device_byte": "memory", "step_s": "step", "mfu": "MFU", "token_per_s": "token/s",
    "wall_s": "run", "total_j": "energy", "total_usd": "cost", "total_kg": "carbon",
}  # fmt: skip
NAME_WIDTH, COLUMN = 34, 9
SHOWN_FIELDS = 12
"""Most differing fields that the screen lists one by one."""


def comparison(base: Scenario, variants: Sequence[Variant], name: str = "base") -> Document:
    """``base`` and its variants as one plain document.

    Returns
    -------
    ``base`` (``name``, ``status``, ``figures``) and ``variants``, each with ``figures``, ``change`` (by figure: ``absolute`` and
    ``relative``), ``differs`` (path, value in the base, value here) and ``problems``. Figures that a plan out of memory does not have
    are null, and so are their changes.
    """
    start = figures(base)
    return {
        "base": {"name": name, **start},
        "variants": [_variant(base, start, variant) for variant in variants],
    }


def limits(scenario: Scenario) -> Document:
    """How far the plan's memory reaches: largest microbatch, longest sequence, fewest chips (null if there is none)."""
    return {
        "max_microbatch_size": max_microbatch_size(scenario) or None,
        "max_seq_len": max_seq_len(scenario) or None,
        "min_chips": min_chips(scenario),
    }


def figures(scenario: Scenario) -> Document:
    """Status and the figures that are compared."""
    result = simulate_scenario(scenario)
    step, bill = result.step, result.bill
    answer = verdict(step.memory)
    values = {
        "device_byte": step.memory.device_byte, "step_s": step.time.step_s, "mfu": step.mfu, "token_per_s": step.token_per_s,
        "wall_s": bill.run.wall_s, "total_j": bill.energy.total_j, "total_usd": bill.cost.total_usd, "total_kg": bill.carbon.total_kg,
    }  # fmt: skip
    kept = {name: float(value) if (answer.ok or name == "device_byte") and math.isfinite(value) else None for name, value in values.items()}
    return {"status": answer.status, "num_chips": int(scenario.cluster.num_chips), "figures": kept}


def _variant(base: Scenario, start: Document, variant: Variant) -> Document:
    """One variant against the base."""
    if variant.scenario is None:
        return {"name": variant.name, "status": "invalid", "figures": {}, "change": {}, "differs": [], "problems": list(variant.problems)}
    own = figures(variant.scenario)
    change = {name: _change(start["figures"][name], own["figures"][name]) for name in FIGURES}
    return {"name": variant.name, **own, "change": change, "differs": differs(base.document, variant.scenario.document), "problems": []}


def _change(old: float | None, new: float | None) -> Document:
    if old is None or new is None:
        return {"absolute": None, "relative": None}
    return {"absolute": new - old, "relative": (new - old) / old if old else None}


def differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Document]:
    """Every field in which two scenario documents differ, by path.

    >>> differs({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    [{'path': 'a.c', 'base': 2, 'value': 3}]
    """
    left, right = dict(_fields(one, "")), dict(_fields(other, ""))
    paths = list(dict.fromkeys((*left, *right)))
    pairs = [(path, left.get(path), right.get(path)) for path in paths]
    return [{"path": path, "base": old, "value": new} for path, old, new in pairs if old != new]


def _fields(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _fields(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _fields(item, f"{path}.{index}")
    else:
        yield path, value


def table(document: Document) -> list[str]:
    """One line per variant: the change of every figure, memory in GiB and the rest in per cent."""
    head = "".join(f"{LABEL[name]:>{COLUMN}}" for name in FIGURES)
    base = document["base"]
    lines = [f"{'':{NAME_WIDTH}}{head}  fits", f"{_cut(base['name']):{NAME_WIDTH}}{_absolute(base['figures'])}  {base['status']}"]
    for variant in document["variants"]:
        if variant["problems"]:
            lines.append(f"{_cut(variant['name']):{NAME_WIDTH}}  not possible: {variant['problems'][0]}"[:160])
            continue
        cells = "".join(f"{_delta(name, variant['change'][name]):>{COLUMN}}" for name in FIGURES)
        lines.append(f"{_cut(variant['name']):{NAME_WIDTH}}{cells}  {variant['status']}")
    return [*lines, *_limit_lines(document.get("limits"))]


def _limit_lines(found: Document | None) -> list[str]:
    if found is None:
        return []
    text = {name: "none fits" if value is None else f"{value:,}" for name, value in found.items()}
    return [
        "",
        f"largest microbatch that fits (same number of microbatches): {text['max_microbatch_size']} sequences",
        f"longest sequence that fits: {text['max_seq_len']} tokens",
        f"fewest chips that fit (same plan and batch, other dp): {text['min_chips']}",
    ]


def blocks(document: Document) -> list[str]:
    """For every variant: each figure in the base and here with the change, and the fields that differ."""
    base = document["base"]
    lines = []
    for variant in document["variants"]:
        lines += [f"{variant['name']} against {base['name']}", ""]
        lines.append(f"  {'':10}{'base':>18}{'here':>18}{'change':>18}{'':>10}")
        lines.append(f"  {'fits':10}{base['status']:>18}{variant['status']:>18}")
        for name in FIGURES:
            old, new, change = base["figures"][name], variant["figures"][name], variant["change"][name]
            gap = change["absolute"]
            moved = "-" if gap is None else "same" if gap == 0 else f"{'-' if gap < 0 else '+'}{_figure(name, abs(gap))}"
            lines.append(f"  {LABEL[name]:10}{_figure(name, old):>18}{_figure(name, new):>18}{moved:>18}{_percent(change['relative']):>10}")
        lines += ["", *_differing(variant["differs"]), ""]
    return lines[:-1]


def _differing(fields: Sequence[Document]) -> list[str]:
    if not fields:
        return ["  no field of the scenario differs"]
    shown = [f"    {field['path']}: {field['base']} -> {field['value']}" for field in fields[:SHOWN_FIELDS]]
    more = [f"    and {len(fields) - SHOWN_FIELDS} more (--json lists all)"] if len(fields) > SHOWN_FIELDS else []
    return [f"  fields of the scenario that differ: {len(fields)}", *shown, *more]


def _figure(name: str, value: float | None) -> str:
    """A figure with its unit, for a reader."""
    if value is None:
        return "-"
    if name == "device_byte":
        return f"{words.gib(value)} GiB"
    if name == "mfu":
        return f"{100 * value:.2f} %"
    write = {"step_s": words.duration, "wall_s": words.duration, "token_per_s": words.count, "total_j": words.energy}
    return {**write, "total_usd": words.money, "total_kg": words.mass}[name](value)


def _absolute(values: Mapping[str, float | None]) -> str:
    """The base's figures in the table's narrow columns."""
    short = {"days": "d", "hours": "h", " million USD": "M$", " billion USD": "G$", " USD": "$"}
    cells = []
    for name in FIGURES:
        text = _figure(name, values[name])
        for long, brief in short.items():
            text = text.replace(long, brief)
        cells.append(f"{text.replace(' ', '')[: COLUMN - 1]:>{COLUMN}}")
    return "".join(cells)


def _delta(name: str, change: Mapping[str, float | None]) -> str:
    gap = change["absolute"]
    if name == "device_byte" and gap is not None:
        return f"{gap / GIB:+.2f}G"
    return _percent(change["relative"])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.1f}%"


def _cut(name: str) -> str:
    return name if len(name) < NAME_WIDTH else name[: NAME_WIDTH - 4] + "..."
