"""Kilograms and litres: published identities, both accountings, embodied shares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretrain.carbon.account import Amortisation, Carbon
from foretrain.carbon.carbon import account_carbon
from foretrain.carbon.declared import Declared
from foretrain.carbon.footprint import amortised
from foretrain.carbon.metrics import software_carbon_intensity
from foretrain.core.constants import J_PER_KWH, SECOND_PER_DAY, SECOND_PER_HOUR, SECOND_PER_YEAR
from foretrain.energy.energy import account_energy
from foretrain.run.phases import Run
from foretrain.system.site import Site
from tests.bill import Metered, chips_only, logged, machine, site_of

SIX_YEARS = Amortisation(life_s=6 * 8760 * SECOND_PER_HOUR, utilisation=0.85)


def carbon_of(run: Run, watts: float, site: Site, amortisation: Amortisation = SIX_YEARS) -> Carbon:
    cluster = chips_only(float(run.num_chips))
    energy = account_energy(run, cluster, site, Metered(mean_w=watts))
    return account_carbon(run, energy, cluster, site, Declared(), amortisation)


@pytest.mark.parametrize(
    ("params", "tokens", "num_chips", "peak", "efficiency", "watts", "pue", "kg_per_kwh", "days", "mwh", "tonne"),
    [
        (175e9, 300e9, 10_000.0, 125e12, 0.197, 330.0, 1.1, 0.429, 14.805, 1289.85, 553.34),  # GPT-3
        (11e9, 600e9, 512.0, 123e12, 0.37, 310.0, 1.12, 0.545, 19.670, 83.92, 45.74),  # T5
        (2.3e9, 1000e9, 1024.0, 123e12, 0.39, 288.0, 1.09, 0.177, None, 25.09, 4.440),  # GShard
        (7.41e9, 2000e9, 1024.0, 123e12, 0.28, 245.0, 1.1, 0.33, None, 193.28, 63.78),  # Switch
        (0.55e9, 7000e9, 512.0, 125e12, 0.212, 342.0, 1.1, 0.413, 19.705, 91.09, 37.62),  # XLM
    ],
)
def test_llmcarbon_rows(
    params: float, tokens: float, num_chips: float, peak: float, efficiency: float, watts: float, pue: float, kg_per_kwh: float,
    days: float | None, mwh: float, tonne: float,
) -> None:  # fmt: skip
    """LLMCarbon (arXiv 2309.14393): days from 6 N D, energy from chip-hours, watts and PUE, carbon from energy."""
    hours = 6 * params * tokens / (num_chips * peak * efficiency) / SECOND_PER_HOUR
    run, site = logged(num_chips, hours), site_of(pue, kg_per_kwh)
    energy = account_energy(run, chips_only(num_chips), site, Metered(mean_w=watts))
    assert days is None or run.wall_s / SECOND_PER_DAY == pytest.approx(days, rel=1e-3)
    assert energy.total_j / J_PER_KWH / 1e3 == pytest.approx(mwh, rel=1e-3)
    assert carbon_of(run, watts, site).operational_location_kg / 1e3 == pytest.approx(tonne, rel=1e-3)


@pytest.mark.parametrize(
    ("chip_hours", "watts", "pue", "kg_per_kwh", "tonne", "within"),
    [
        (1_022_362.0, 400.0, 1.1, 0.385, 173.0, 0.01),  # LLaMA 65B
        (1_720_320.0, 400.0, 1.1, 0.385, 291.42, 0.001),  # Llama 2 70B
        (1_082_990.0, 400.0, 1.0, 0.057, 24.69, 0.001),  # BLOOM, dynamic
        (30.84e6, 700.0, 1.0, 0.4137, 8930.0, 0.015),  # Llama 3.1 405B: O-CARB-01
        (7.0e6, 700.0, 1.0, 0.4137, 2040.0, 0.015),  # Llama 3.1 70B
        (1.46e6, 700.0, 1.0, 0.4137, 420.0, 0.015),  # Llama 3.1 8B
    ],
)
def test_published_operational_carbon(chip_hours: float, watts: float, pue: float, kg_per_kwh: float, tonne: float, within: float) -> None:
    carbon = carbon_of(logged(64.0, chip_hours / 64), watts, site_of(pue, kg_per_kwh))
    assert carbon.operational_location_kg / 1e3 == pytest.approx(tonne, rel=within)
    assert carbon.operational_market_kg == 0.0


def test_bloom_embodied() -> None:
    """Luccioni et al. (arXiv 2211.02001): 150 kg per chip and 2500 kg per server over six years at 85 %, 3.64 t and 7.57 t."""
    base = machine(384.0)
    cluster = replace(base, server=replace(base.server, embodied_kg={"chips": 8 * 150.0, "rest": 2500.0}))
    run, site = logged(384.0, 1_082_990.0 / 384), site_of()
    energy = account_energy(run, cluster, site, Metered(mean_w=400.0))
    carbon = account_carbon(run, energy, cluster, site, Declared(), SIX_YEARS)
    assert carbon.parts_kg["embodied_chips"] / 1e3 == pytest.approx(3.64, rel=5e-3)
    assert carbon.parts_kg["embodied_rest"] / 1e3 == pytest.approx(7.57, rel=5e-3)
    assert carbon.embodied_kg == pytest.approx(carbon.parts_kg["embodied_chips"] + carbon.parts_kg["embodied_rest"])
    assert carbon.embodied_boundary == "cradle-to-gate"


@pytest.mark.parametrize(("kg", "tonne"), [(164.0, 144.0), (463.0, 408.0)])
def test_405b_embodied(kg: float, tonne: float) -> None:
    """30.84 million chip-hours of four fully used years."""
    life = Amortisation(life_s=4 * SECOND_PER_YEAR, utilisation=1.0)
    assert amortised(kg, 30.84e6 * SECOND_PER_HOUR, life) / 1e3 == pytest.approx(tonne, rel=0.01)


def test_sci_of_an_hour() -> None:
    """1000 kg over four years are 28.5 g in an hour of the whole device, and market contracts do not enter."""
    life = Amortisation(life_s=4 * SECOND_PER_YEAR, utilisation=1.0)
    hour_kg = amortised(1000.0, SECOND_PER_HOUR, life)
    assert hour_kg == pytest.approx(0.0285, rel=5e-3)
    carbon = Carbon(
        total_kg=hour_kg, operational_location_kg=1.0, operational_market_kg=0.0, embodied_kg=hour_kg, embodied_boundary="",
        parts_kg={}, water_l=0.0,
    )  # fmt: skip
    assert software_carbon_intensity(carbon, 10.0) == pytest.approx((1.0 + hour_kg) / 10)


def test_accounting_chooses_the_total_and_hides_nothing() -> None:
    """1000 kWh of IT at PUE 1.2: 480 kg on the grid, 48 kg under contracts for 90 % of it: O-CARB-03."""
    run, site = logged(1.0, 1000.0), site_of(pue=1.2, location_kg_per_kwh=0.4, market_kg_per_kwh=0.04)
    location = carbon_of(run, 1000.0, site)
    market = carbon_of(run, 1000.0, site, replace(SIX_YEARS, accounting="market"))
    for carbon in (location, market):
        assert carbon.operational_location_kg == pytest.approx(480.0, rel=1e-9)
        assert carbon.operational_market_kg == pytest.approx(48.0, rel=1e-9)
        assert carbon.total_kg == pytest.approx(sum(carbon.parts_kg.values()), rel=1e-12)
    assert location.total_kg - market.total_kg == pytest.approx(432.0, rel=1e-9)
    assert set(location.parts_kg) == {
        *(f"operational_{name}" for name in ("chips", "host", "network", "storage", "conversion", "facility")),
        *(f"embodied_{name}" for name in ("board", "rest", "storage")),
    }


def test_embodied_scales_with_chips() -> None:
    """Eight chips carry eight times one chip's share: O-CARB-02."""
    one, eight = carbon_of(logged(1.0, 10.0), 400.0, site_of()), carbon_of(logged(8.0, 10.0), 400.0, site_of())
    assert eight.embodied_kg == pytest.approx(8 * one.embodied_kg, rel=1e-12)


def test_water_is_drunk_by_it_energy() -> None:
    assert carbon_of(logged(1.0, 1000.0), 1000.0, site_of(pue=1.5)).water_l == pytest.approx(200.0, rel=1e-9)
