"""Figures for a reader: few digits, a unit on every number, shares that add up to 100."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.constants import GIB, J_PER_KWH, SECOND_PER_DAY, SECOND_PER_HOUR

Steps = tuple[tuple[float, str], ...]

_ENERGY: Steps = ((1e6 * J_PER_KWH, "GWh"), (1e3 * J_PER_KWH, "MWh"), (J_PER_KWH, "kWh"))
_MASS: Steps = ((1e6, "kt"), (1e3, "t"), (1.0, "kg"))
_POWER: Steps = ((1e6, "MW"), (1e3, "kW"), (1.0, "W"))
_MONEY: Steps = ((1e9, "billion USD"), (1e6, "million USD"), (1.0, "USD"))
_TIME: Steps = ((SECOND_PER_DAY, "days"), (SECOND_PER_HOUR, "hours"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_COUNT: Steps = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_PARAMETERS: Steps = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1.0, ""))
_RATE: Steps = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"))


def figure(value: float, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, whole numbers kept whole, thousands separated.

    >>> figure(1234567.0), figure(12.345), figure(0.01234), figure(0.0)
    ('1,234,567', '12.3', '0.0123', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if "e" in text else f"{value:.{_decimals(value, digits)}f}"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show ``digits`` significant digits of ``value``."""
    exponent = int(f"{value:e}".partition("e")[2])
    return max(digits - 1 - exponent, 0)


def _scaled(value: float, steps: Steps, digits: int = 3) -> str:
    """``value`` in the largest unit of ``steps`` that does not exceed it, else in the last."""
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{figure(value / factor, digits)} {unit}".rstrip()
    factor, unit = steps[-1]
    return f"{figure(value / factor, digits)} {unit}".rstrip()


def energy(joule: float) -> str:
    """Joules in kWh, MWh or GWh.

    >>> energy(3.6e12)
    '1.00 GWh'
    """
    return _scaled(joule, _ENERGY)


def mass(kg: float) -> str:
    """Kilograms in kg, t or kt.

    >>> mass(12345.0)
    '12.3 t'
    """
    return _scaled(kg, _MASS)


def power(watt: float) -> str:
    """Watts in W, kW or MW.

    >>> power(1234.0)
    '1.23 kW'
    """
    return _scaled(watt, _POWER)


def money(usd: float) -> str:
    """US dollars, from a million on in millions.

    >>> money(1234.4), money(61.5e6)
    ('1,234 USD', '61.5 million USD')
    """
    return _scaled(usd, _MONEY)


def duration(second: float) -> str:
    """Seconds in the largest fitting unit from us to days.

    >>> duration(200000.0), duration(0.002)
    ('2.31 days', '2.00 ms')
    """
    return _scaled(second, _TIME)


def count(value: float) -> str:
    """A large count with a decimal prefix.

    >>> count(15.6e12), count(8.03e9), count(128.0)
    ('15.6 T', '8.03 G', '128')
    """
    return _scaled(value, _COUNT)


def parameters(value: float) -> str:
    """A number of parameters in words, as model names have it.

    >>> parameters(405.9e9), parameters(124475904)
    ('406 billion', '124 million')
    """
    return _scaled(value, _PARAMETERS)


def rate(flop_per_s: float) -> str:
    """FLOP per second with a prefix; four digits, as data sheets have them.

    >>> rate(989.4e12)
    '989.4 TFLOP/s'
    """
    return _scaled(flop_per_s, _RATE, digits=4)


def gib(byte: float) -> str:
    """Bytes in GiB (2**30 bytes) with two decimals, unit not included.

    >>> gib(80e9)
    '74.51'
    """
    return f"{byte / GIB:,.2f}"


def percents(parts: Mapping[str, float], decimals: int = 1) -> dict[str, str]:
    """Shares of the parts in per cent whose printed figures sum to exactly 100.

    Every share is rounded down to the last printed digit, and the digits still missing go to the parts with the largest remainders
    (the largest-remainder method of Hare and Niemeyer). Parts that are all zero give zeros.

    >>> percents({"a": 1.0, "b": 1.0, "c": 1.0})
    {'a': '33.4', 'b': '33.3', 'c': '33.3'}
    """
    scale = 10**decimals
    whole = sum(parts.values())
    exact = {name: 100 * scale * value / whole if whole else 0.0 for name, value in parts.items()}
    units = {name: int(value // 1) for name, value in exact.items()}
    missing = 100 * scale * bool(whole) - sum(units.values())
    for name in sorted(exact, key=lambda name: units[name] - exact[name])[:missing]:
        units[name] += 1
    return {name: f"{value / scale:.{decimals}f}" for name, value in units.items()}
