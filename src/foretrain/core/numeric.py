"""The one number type of every formula: a float, a float64 array over candidate plans, or a number that remembers its expression.

A formula is written once, in broadcasting arithmetic, and serves all three (``core.traced`` is the third). The few operations
that Python's operators do not cover are here, so that no formula ever branches on a number.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foretrain.core.traced import OBJECT, apply, is_traced

Array: TypeAlias = NDArray[np.float64]
Num: TypeAlias = float | Array


def _plain(a: Any, b: Any) -> bool:
    """True when both operands are Python scalars, for which the builtins are ten times faster."""
    return isinstance(a, (int, float)) and isinstance(b, (int, float))


def maximum(a: Num, b: Num) -> Num:
    """Elementwise maximum.

    >>> maximum(2.0, 3.0)
    3.0
    """
    if _plain(a, b):
        return max(a, b)
    result: Num = np.maximum(a, b)
    return apply("max", a, b) if getattr(result, "dtype", OBJECT) is OBJECT else result


def minimum(a: Num, b: Num) -> Num:
    """Elementwise minimum.

    >>> minimum(2.0, 3.0)
    2.0
    """
    if _plain(a, b):
        return min(a, b)
    result: Num = np.minimum(a, b)
    return apply("min", a, b) if getattr(result, "dtype", OBJECT) is OBJECT else result


def clip(x: Num, low: Num, high: Num) -> Num:
    """``x`` limited to ``[low, high]``.

    >>> clip(9.0, 1.0, 8.0)
    8.0
    """
    return minimum(maximum(x, low), high)


def ceil_div(a: Num, b: Num) -> Num:
    """The smallest whole number not below ``a / b``; both must be exact whole numbers.

    >>> ceil_div(126.0, 16.0)
    8.0
    """
    return -((-a) // b)


def floor_div(a: Num, b: Num) -> Num:
    """The largest whole number not above ``a / b``; both must be exact whole numbers.

    >>> floor_div(126.0, 16.0)
    7.0
    """
    return a // b


def log2(x: Num) -> Num:
    """Binary logarithm.

    >>> float(log2(8.0))
    3.0
    """
    result: Num = np.log2(x)
    return result


def sqrt(x: Num) -> Num:
    """Square root.

    >>> float(sqrt(9.0))
    3.0
    """
    result: Num = np.sqrt(x)
    return result


def positive(x: Num) -> Num:
    """1.0 where ``x`` is above zero, else 0.0: lets a term vanish without a branch.

    >>> positive(0.0), positive(3.0)
    (0.0, 1.0)
    """
    if isinstance(x, (int, float)):
        return 1.0 if x > 0 else 0.0
    result: Num = apply("positive", x) if is_traced(x) else np.greater(x, 0).astype(np.float64)
    return result


def at_least(a: Num, b: Num) -> Num:
    """1.0 where ``a`` is not below ``b``, else 0.0.

    >>> at_least(2.0, 2.0), at_least(1.0, 2.0)
    (1.0, 0.0)
    """
    if _plain(a, b):
        return 1.0 if a >= b else 0.0
    result: Num = apply("at_least", a, b) if is_traced(a, b) else np.greater_equal(a, b).astype(np.float64)
    return result


ROUNDING = 1e-12
"""Relative difference below which two results of one formula count as equal: rounding depends on how a sum is laid out in memory."""


def first_largest(values: list[Num]) -> list[Num]:
    """Weight 1.0 for the first of ``values`` that is as large as the largest (to ``ROUNDING``), 0.0 for the others.

    >>> first_largest([1.0, 3.0, 3.0])
    [0.0, 1.0, 0.0]
    """
    largest = values[0]
    for value in values[1:]:
        largest = maximum(largest, value)
    taken: Num = 0.0
    weights: list[Num] = []
    for value in values:
        weight = at_least(value, largest * (1.0 - ROUNDING)) * (1.0 - taken)
        taken = taken + weight
        weights.append(weight)
    return weights


def stack(values: list[Num]) -> Array:
    """Scalars and arrays of one candidate axis stacked along a new first axis.

    >>> stack([1.0, 2.0]).shape
    (2,)
    """
    if all(isinstance(v, (int, float)) for v in values):
        return np.array(values, dtype=np.float64)
    stacked = np.stack(np.broadcast_arrays(*values))
    return stacked if stacked.dtype is OBJECT else stacked.astype(np.float64, copy=False)
