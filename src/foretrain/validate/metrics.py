"""Error figures, each with its definition."""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.core.record import record


@record
class Errors:
    """Of ``n`` pairs: mean and largest absolute relative error, and the mean signed one, all relative to the measured value."""

    n: int
    mean: float
    largest: float
    bias: float


def errors(predicted: Sequence[float], measured: Sequence[float]) -> Errors:
    """Relative errors ``predicted / measured - 1``.

    >>> round(errors([1.1, 0.8], [1.0, 1.0]).mean, 3)
    0.15
    """
    relative = [p / m - 1 for p, m in zip(predicted, measured, strict=True)]
    absolute = [abs(r) for r in relative]
    return Errors(n=len(relative), mean=sum(absolute) / len(absolute), largest=max(absolute), bias=sum(relative) / len(relative))
