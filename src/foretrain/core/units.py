"""Text with a unit at the door, SI numbers inside.

Base units are B (byte), s, W, J, USD, kg, l (litre), m2, FLOP and 1 (a pure number). Decimal and binary
prefixes differ (``GB`` is 1e9 B, ``GiB`` is 2**30 B) and so do ``B`` (byte) and ``b``/``bit``.
A bare number is accepted only where the quantity is a pure number.
"""

from __future__ import annotations

import math
import re
from typing import Any

PREFIX = {
    "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip

BASE: dict[str, tuple[float, str]] = {
    "B": (1.0, "B"), "b": (0.125, "B"), "bit": (0.125, "B"), "bits": (0.125, "B"), "byte": (1.0, "B"),
    "s": (1.0, "s"), "min": (60.0, "s"), "h": (3600.0, "s"), "hour": (3600.0, "s"), "day": (86400.0, "s"),
    "days": (86400.0, "s"), "year": (31557600.0, "s"), "years": (31557600.0, "s"), "month": (2629800.0, "s"),
    "W": (1.0, "W"), "J": (1.0, "J"), "Wh": (3600.0, "J"),
    "USD": (1.0, "USD"), "$": (1.0, "USD"),
    "g": (1e-3, "kg"), "gCO2": (1e-3, "kg"), "gCO2e": (1e-3, "kg"), "t": (1e3, "kg"), "tCO2e": (1e3, "kg"),
    "l": (1.0, "l"), "L": (1.0, "l"), "m2": (1.0, "m2"), "cm2": (1e-4, "m2"), "mm2": (1e-6, "m2"),
    "FLOP": (1.0, "FLOP"), "FLOPS": (1.0, "FLOP/s"), "Hz": (1.0, "1/s"),
    "%": (0.01, "1"), "1": (1.0, "1"), "token": (1.0, "1"), "tokens": (1.0, "1"),
}  # fmt: skip
_NO_PREFIX = {"min", "h", "hour", "day", "days", "year", "years", "month", "%", "1", "m2", "cm2", "mm2"}

EXAMPLE = {
    "B": "'80 GiB' or '80 GB'",
    "B/s": "'400 Gbit/s' or '3.35 TB/s'",
    "s": "'5 us' or '2 h'",
    "W": "'700 W'",
    "J": "'3 MWh'",
    "USD": "'300000 USD'",
    "USD/s": "'2.5 USD/h'",
    "USD/J": "'0.08 USD/kWh'",
    "kg": "'164 kg'",
    "kg/J": "'369 g/kWh'",
    "l/J": "'0.2 l/kWh'",
    "FLOP/s": "'989 TFLOP/s'",
    "1/s": "'0.01 1/h'",
    "1": "a plain number",
}

_NUMBER = re.compile(r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")
COUNT = {"k": 1e3, "K": 1e3, "Ki": 1024.0, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""What a letter after a pure number multiplies it with: 8k tokens per sequence, 15T tokens in all."""


def _factor(unit: str) -> tuple[float, str]:
    """SI factor and base unit of one unit word without a slash."""
    if unit in BASE:
        return BASE[unit]
    for length in (2, 1):
        prefix, rest = unit[:length], unit[length:]
        if prefix in PREFIX and rest in BASE and rest not in _NO_PREFIX:
            factor, base = BASE[rest]
            return PREFIX[prefix] * factor, base
    raise ValueError(f"unknown unit {unit!r}")


def _compound(unit: str) -> tuple[float, str]:
    """SI factor and base unit of ``a`` or ``a/b``."""
    above, slash, below = unit.partition("/")
    factor, base = _factor(above.strip() or "1")
    if slash:
        divisor, divisor_base = _factor(below.strip())
        factor, base = factor / divisor, f"{base}/{divisor_base}"
    return factor, {"J/s": "W", "B/B": "1"}.get(base, base)


def parse(value: object, unit: str) -> float:
    """Read ``value`` as a number of SI ``unit``.

    Parameters
    ----------
    value
        Text such as ``"400 Gbit/s"``; a plain number only if ``unit`` is ``"1"``.
    unit
        The SI unit expected, for instance ``"B/s"``.

    Raises
    ------
    ValueError
        When there is no number, no unit, an unknown unit or one of another dimension.

    >>> parse("400 Gbit/s", "B/s")
    50000000000.0
    >>> parse("15T", "1"), parse("300,000", "1")
    (15000000000000.0, 300000.0)
    >>> round(parse("0.08 USD/kWh", "USD/J") * 3.6e6, 12)
    0.08
    """
    example = EXAMPLE.get(unit, f"a value in {unit}")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"expected {example}")
    if isinstance(value, (int, float)):
        if unit != "1":
            raise ValueError(f"a bare number has no unit; expected {example}")
        try:
            return _finite(float(value))
        except OverflowError:
            raise ValueError("the number is too large") from None
    match = _NUMBER.match(value)
    if not match:
        raise ValueError(f"no number found; expected {example}")
    number, word = float(re.sub("[_,]", "", match[1])), match[2]
    if unit == "1" and word in COUNT:
        return _finite(number * COUNT[word])
    if not word:
        if unit != "1":
            raise ValueError(f"a bare number has no unit; expected {example}")
        return _finite(number)
    factor, base = _compound(word)
    if base != unit:
        raise ValueError(f"is in {base}, expected {unit}, e.g. {example}")
    return _finite(number * factor)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    return number


class Quantity:
    """Marks a record's field with its SI unit and range; reads text with a unit at the door.

    Used as ``Annotated[Num, Quantity("B/s", gt=0)]``. Inside the package the mark is inert.
    """

    __slots__ = ("ge", "gt", "integer", "le", "unit")

    def __init__(
        self,
        unit: str = "1",
        *,
        gt: float | None = None,
        ge: float | None = None,
        le: float | None = None,
        integer: bool = False,
    ) -> None:
        self.unit, self.gt, self.ge, self.le, self.integer = unit, gt, ge, le, integer

    @property
    def allowed(self) -> str:
        """The permitted range in words."""
        kind = "whole number" if self.integer else "number" if self.unit == "1" else f"value in {self.unit}"
        bounds = [f"{sign} {bound:g}" for sign, bound in ((">", self.gt), (">=", self.ge), ("<=", self.le)) if bound is not None]
        return " ".join([kind, " and ".join(bounds)]).strip()

    def read(self, value: object) -> float:
        """Parse and check one value; raises ValueError saying what is wrong."""
        number = parse(value, self.unit)
        if self.integer and number != int(number):
            raise ValueError("must be a whole number")
        if (
            (self.gt is not None and not number > self.gt)
            or (self.ge is not None and not number >= self.ge)
            or (self.le is not None and not number <= self.le)
        ):
            raise ValueError("is out of range")
        return int(number) if self.integer else number

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        """The validator that the door builds for a field with this mark."""
        from pydantic_core import PydanticCustomError, core_schema

        def validate(value: object) -> float:
            try:
                return self.read(value)
            except ValueError as error:
                raise PydanticCustomError("quantity", "{message}", {"message": str(error), "allowed": self.allowed}) from None

        return core_schema.no_info_plain_validator_function(validate)


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """``value`` with a decimal prefix, for a reader.

    >>> format_si(3.35e12, "B/s")
    '3.35 TB/s'
    """
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g} {prefix}{unit}"
    return f"{value:.{digits}g} {unit}"
