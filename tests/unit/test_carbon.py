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
from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.energy.energy import account_energy
from foretrain.run.phases import Busy, Phase, Run
from foretrain.system.chip import Chip, Kernels
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.reliability import Reliability
from foretrain.system.server import Server
from foretrain.system.site import Site
from foretrain.system.storage import Storage

SIX_YEARS = Amortisation(life_s=6 * 8760 * SECOND_PER_HOUR, utilisation=0.85)


def machine(num_chips: float = 8.0) -> Cluster:
    """Eight 700 W chips per server, round numbers everywhere else."""
    kernels = Kernels(matmul_efficiency={}, stream_efficiency=0.9, kernel_s=0.0, wave_s=0.0, tiles=(), attention={})
    chip = Chip(
        name="chip", dense_flop_per_s={"bf16": 1e15}, vector_flop_per_s=6e13, num_sm=132, hbm_byte=8e10, hbm_byte_per_s=3.35e12,
        l2_byte=5e7, tdp_w=700.0, idle_w=75.0, reserved_byte=0.0, kernels=kernels,
    )  # fmt: skip
    server = Server(
        name="server", chip=chip, num_chips=8.0, rated_w=10200.0, host_idle_w=1450.0, host_busy_w=2050.0, psu_efficiency=0.94,
        purchase_usd=300000.0, embodied_boundary="cradle-to-gate", embodied_kg={"board": 1312.0, "rest": 3000.0},
    )  # fmt: skip
    return Cluster(
        name="cluster", num_chips=num_chips, server=server,
        fabric=Fabric(name="fabric", topology="fat tree", tiers=(), switch_w=100.0, switch_usd=0.0),
        storage=Storage(name="storage", write_byte_per_s=2e12, read_byte_per_s=4e12, server_byte_per_s=5e9),
        reliability=Reliability(failure_per_chip_s=5e-9, restart_s=600.0, step_overhead_s=0.05, evaluation_fraction=0.01),
    )  # fmt: skip


@record
class Metered:
    """A power model for logs: the chip drew ``mean_w`` [W], whatever it did."""

    mean_w: float

    def watts(self, chip: Chip, busy: Busy) -> Num:
        return self.mean_w


def logged(num_chips: float, hours: float, busy: Busy | None = None) -> Run:
    """A run of which only chips and wall-clock hours are known."""
    wall_s = hours * SECOND_PER_HOUR
    phase = Phase(purpose="steps", duration_s=wall_s, num_chips=num_chips, busy=busy or Busy())
    return Run(
        num_chips=num_chips, num_steps=1.0, phases=(phase,), wall_s=wall_s, goodput=1.0, checkpoint_interval_s=wall_s, num_failures=0.0
    )


def site_of(pue: float = 1.0, location_kg_per_kwh: float = 0.4, market_kg_per_kwh: float = 0.0) -> Site:
    return Site(
        name="site", pue=pue, location_kg_per_j=location_kg_per_kwh / J_PER_KWH, market_kg_per_j=market_kg_per_kwh / J_PER_KWH,
        intensity_definition="average", electricity_usd_per_j=0.08 / J_PER_KWH, wue_l_per_j=0.2 / J_PER_KWH,
    )  # fmt: skip


def chips_only(num_chips: float) -> Cluster:
    """A machine whose only consumers are its chips: what is metered per chip is all there is."""
    base = machine(num_chips)
    server = replace(base.server, host_idle_w=0.0, host_busy_w=0.0, psu_efficiency=1.0)
    return replace(base, server=server, fabric=replace(base.fabric, switch_w=0.0))


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
        *(f"operational_{name}" for name in ("chips", "host", "network", "conversion", "facility")),
        *(f"embodied_{name}" for name in ("board", "rest")),
    }


def test_embodied_scales_with_chips() -> None:
    """Eight chips carry eight times one chip's share: O-CARB-02."""
    one, eight = carbon_of(logged(1.0, 10.0), 400.0, site_of()), carbon_of(logged(8.0, 10.0), 400.0, site_of())
    assert eight.embodied_kg == pytest.approx(8 * one.embodied_kg, rel=1e-12)


def test_water_is_drunk_by_it_energy() -> None:
    assert carbon_of(logged(1.0, 1000.0), 1000.0, site_of(pue=1.5)).water_l == pytest.approx(200.0, rel=1e-9)
