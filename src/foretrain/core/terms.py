"""Sums that remember their parts."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.core.record import record


@record
class Breakdown:
    """A total and the named parts it is the sum of, all in one unit.

    A view made on request for a reader; formulas return flat records of numbers.
    """

    name: str
    unit: str
    parts: Mapping[str, Num]

    @property
    def total(self) -> Num:
        """Sum of the parts [``unit``]."""
        return total(self.parts)

    def shares(self) -> dict[str, Num]:
        """Each part over the total, in [0, 1]; a zero total gives zeros."""
        whole = self.total
        return {name: value / (whole + (whole == 0)) for name, value in self.parts.items()}


def total(parts: Mapping[str, Num]) -> Num:
    """Sum of all parts, in insertion order, so that the result is reproducible bit by bit.

    >>> total({"a": 1.0, "b": 2.0})
    3.0
    """
    result: Num = 0.0
    for value in parts.values():
        result = result + value
    return result
