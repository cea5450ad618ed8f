"""Units at the door, with pint as the oracle for every conversion."""

from __future__ import annotations

import contextlib
import math

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.units import PREFIX, Quantity, format_si, parse

ORACLE = pint.UnitRegistry()
ORACLE.define("USD = [currency]")
ORACLE.define("FLOP = [work_item]")
ORACLE.define("B = byte")
SI = {"B": "byte", "B/s": "byte/s", "s": "s", "W": "W", "J": "J", "USD": "USD", "USD/s": "USD/s", "USD/J": "USD/J", "kg": "kg"}
SI |= {"kg/J": "kg/J", "l/J": "l/J", "1/s": "1/s", "FLOP/s": "FLOP/s", "USD/W": "USD/W", "m2": "m^2", "l": "l"}
# our text, our unit, the same in pint's words
TEXTS = [
    ("80 GiB", "B", "80 gibibyte"),
    ("80 GB", "B", "80 gigabyte"),
    ("400 Gbit/s", "B/s", "400 gigabit/s"),
    ("400 Gb/s", "B/s", "400 gigabit/s"),
    ("3.35 TB/s", "B/s", "3.35 terabyte/s"),
    ("50 MiB", "B", "50 mebibyte"),
    ("5 us", "s", "5 microsecond"),
    ("5 µs", "s", "5 microsecond"),
    ("7 ns", "s", "7 nanosecond"),
    ("2 h", "s", "2 hour"),
    ("10 min", "s", "10 minute"),
    ("54 days", "s", "54 day"),
    ("6 years", "s", "6 julian_year"),
    ("10.2 kW", "W", "10.2 kilowatt"),
    ("1.3 MW", "W", "1.3 megawatt"),
    ("3 MWh", "J", "3 megawatt_hour"),
    ("2.5 USD/h", "USD/s", "2.5 USD/hour"),
    ("0.08 USD/kWh", "USD/J", "0.08 USD/kilowatt_hour"),
    ("11.7 USD/W", "USD/W", "11.7 USD/watt"),
    ("369.47 g/kWh", "kg/J", "369.47 gram/kilowatt_hour"),
    ("1312 kg", "kg", "1312 kilogram"),
    ("1.6 t", "kg", "1.6 metric_ton"),
    ("0.3 l/kWh", "l/J", "0.3 liter/kilowatt_hour"),
    ("989.4 TFLOP/s", "FLOP/s", "989.4e12 FLOP/s"),
    ("1.974e-5 1/h", "1/s", "1.974e-5 /hour"),
    ("814 mm2", "m2", "814 mm^2"),
]


@pytest.mark.parametrize(("text", "unit", "words"), TEXTS)
def test_conversions_agree_with_pint(text: str, unit: str, words: str) -> None:
    assert parse(text, unit) == pytest.approx(ORACLE.Quantity(words).to(SI[unit]).magnitude, rel=1e-12)


@given(st.sampled_from(sorted(PREFIX)), st.floats(1e-6, 1e6))
def test_every_prefix_scales_as_pints(prefix: str, number: float) -> None:
    assert parse(f"{number!r} {prefix}B", "B") == pytest.approx(ORACLE.Quantity(number, f"{prefix}B").to("byte").magnitude, rel=1e-12)


def test_bytes_are_not_bits_and_decimal_is_not_binary() -> None:
    assert parse("1 GB", "B") == 8 * parse("1 Gbit", "B") == 8 * parse("1 Gb", "B")
    assert parse("1 GiB", "B") / parse("1 GB", "B") == 2**30 / 1e9


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        (700, "W", "bare number"),
        ("700", "W", "bare number"),
        ("80 GiB", "W", "expected W"),
        ("5 parsecs", "s", "unknown unit"),
        ("400 Gbit", "B/s", "expected B/s"),
        ("fast", "B/s", "no number"),
        ("", "s", "no number"),
        (True, "1", "expected"),
        (None, "1", "expected"),
        (math.inf, "1", "finite"),
        ("1e999", "1", "finite"),
        (10**400, "1", "too large"),
        ("1 kmin", "s", "unknown unit"),
    ],
)
def test_nonsense_is_refused_with_a_reason(value: object, unit: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(value, unit)


def test_a_quantity_checks_its_range_and_whole_numbers() -> None:
    assert Quantity(integer=True, ge=1).read(3.0) == 3
    assert Quantity("W", gt=0).read("0.7 kW") == 700
    for mark, value in (
        (Quantity(gt=0), 0),
        (Quantity(ge=1), 0.5),
        (Quantity(le=1), 2),
        (Quantity(integer=True), 1.5),
        (Quantity("W", gt=0), "0 W"),
    ):
        with pytest.raises(ValueError, match=r"range|whole"):
            mark.read(value)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_but_never_crashes(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert math.isfinite(parse(text, "B/s"))


def test_numbers_for_a_reader() -> None:
    assert format_si(3.35e12, "B/s") == "3.35 TB/s"
    assert format_si(700.0, "W") == "700 W"
