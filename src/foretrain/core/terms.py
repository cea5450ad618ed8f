"""Sums that remember their parts."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num


def total(parts: Mapping[str, Num]) -> Num:
    """Sum of all parts, in insertion order, so that the result is reproducible bit by bit.

    >>> total({"a": 1.0, "b": 2.0})
    3.0
    """
    result: Num = 0.0
    for value in parts.values():
        result = result + value
    return result
