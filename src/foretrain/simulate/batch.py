"""Many plans in few calls: plans with the same words become one plan whose numbers are arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from foretrain.core.numeric import Array
from foretrain.strategy.strategy import Strategy

NUMBERS = (
    "tp", "dp", "cp", "ep", "etp", "dp_replicate", "microbatch_size", "num_microbatches", "optimizer_offload", "parameter_offload",
    "live_params",
)  # fmt: skip
"""Fields of a strategy that flow through the formulas; all others choose the path."""

WORDS = tuple(field.name for field in dataclasses.fields(Strategy) if field.name not in NUMBERS)


def words(strategy: Strategy) -> tuple[Any, ...]:
    """The fields of a plan that choose its path through the code."""
    return tuple(getattr(strategy, name) for name in WORDS)


def stack_plans(plans: Sequence[Strategy], chunk: int = 4096) -> Iterator[tuple[list[int], Strategy]]:
    """Group plans by their words.

    Parameters
    ----------
    plans
        Single plans (plain numbers).
    chunk
        Most plans in one group, so that the arrays of a group stay in cache.

    Yields
    ------
    The positions of a group's plans, and one strategy whose numbers are float64 arrays over them.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, plan in enumerate(plans):
        groups.setdefault(words(plan), []).append(index)
    for members in groups.values():
        for begin in range(0, len(members), chunk):
            part = members[begin : begin + chunk]
            columns: dict[str, Array] = {
                name: np.array([getattr(plans[index], name) for index in part], dtype=np.float64) for name in NUMBERS
            }
            yield part, dataclasses.replace(plans[part[0]], **columns)  # type: ignore[arg-type]
