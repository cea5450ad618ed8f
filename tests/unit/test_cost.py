"""Dollars: annuities, published totals, rented and owned."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Literal

import numpy as np
import pytest

from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR, SECOND_PER_YEAR
from foretrain.cost.account import Prices
from foretrain.cost.cost import account_cost
from foretrain.cost.finance import capital_recovery
from foretrain.cost.tco import yearly_cost_per_chip
from foretrain.energy.account import Energy
from foretrain.run.phases import Busy, Phase, Run
from foretrain.system.chip import Chip, Kernels
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.reliability import Reliability
from foretrain.system.server import Server
from foretrain.system.site import Site
from foretrain.system.storage import Storage

ENERGY = Energy(total_j=1000 * J_PER_KWH, it_j=800 * J_PER_KWH, parts_j={}, mean_w_per_chip=1000.0, peak_w=1e5)


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


def prices_of(tenure: Literal["rented", "owned"] = "rented", rate: float = 0.0) -> Prices:
    return Prices(
        tenure=tenure, rental_usd_per_chip_s=3.0 / SECOND_PER_HOUR, network_usd_fraction=0.2, facility_usd_per_w=10.0,
        discount_rate_per_year=rate, server_life_s=5 * SECOND_PER_YEAR, network_life_s=4 * SECOND_PER_YEAR,
        facility_life_s=15 * SECOND_PER_YEAR, opex_fraction_per_year=0.05, utilisation=0.8,
    )  # fmt: skip


def test_annuity_vanishes_into_straight_line_and_into_interest() -> None:
    with np.errstate(all="raise"):
        assert capital_recovery(0.0, 5.0) == pytest.approx(0.2, rel=1e-9)
    assert capital_recovery(1e-6, 5.0) == pytest.approx(0.2, rel=1e-5)
    assert capital_recovery(0.07, 1e6) == pytest.approx(0.07, rel=1e-12)
    assert capital_recovery(0.08, 1.0) == pytest.approx(1.08, rel=1e-12)


def test_hamilton_data_centre() -> None:
    """Hamilton 2010: 46,000 servers in 8 MW cost $3.5M a month, 57/8/22/13 % of it servers, network, facility, power."""
    monthly = {
        "servers": 46_000 * 1450.0 * capital_recovery(0.05 / 12, 36.0),
        "network": 12.8e6 * capital_recovery(0.05 / 12, 48.0),
        "facility": 8e6 * 9.0 * capital_recovery(0.05 / 12, 120.0),
        "power": 8000.0 * 0.8 * 1.45 * 730.5 * 0.07,
    }
    whole = sum(monthly.values())
    assert whole == pytest.approx(3.53e6, rel=2e-3)
    assert [100 * usd / whole for usd in monthly.values()] == pytest.approx([57, 8, 22, 13], abs=1)


def test_epoch_value_decay_is_an_endless_annuity() -> None:
    """A value that falls 0.14 decades a year costs 0.3224 of itself a year: a $30,000 H100 in its server $1.81 per hour."""
    per_year = capital_recovery(0.14 * log(10), 1e6)
    assert per_year == pytest.approx(0.3224, rel=1e-3)
    assert 30_000 * 1.64 * per_year / 8766 == pytest.approx(1.81, rel=2e-3)


def test_rent_of_a_7b_model() -> None:
    """7 billion parameters, 2 trillion tokens on A100 at 40 % MFU and $3 per chip-hour: O-COST-01."""
    hours = 6 * 7e9 * 2e12 / (312e12 * 0.4) / 3600
    cost = account_cost(logged(64.0, hours / 64), ENERGY, machine(64.0), prices_of(), site_of())
    assert hours == pytest.approx(186_966, rel=1e-4)
    assert cost.total_usd == cost.rented_usd == pytest.approx(560_897, rel=1e-4)
    assert cost.usd_per_chip_hour == pytest.approx(3.0)
    assert dict(cost.parts_usd) == {"rental": cost.total_usd}


def test_owned_job_by_hand() -> None:
    """Sixteen chips for half a year at zero interest: straight lines over the lives, idle time charged on top."""
    run = logged(16.0, 8766.0 / 2)
    cost = account_cost(run, ENERGY, machine(16.0), prices_of("owned"), site_of())
    chip_year = 16 * 0.5 / 0.8
    expected = {
        "servers": chip_year * 37_500 / 5,
        "network": chip_year * 0.2 * 37_500 / 4,
        "facility": chip_year * 10 * (10_200 / 8 + 100) / 15,
        "opex": chip_year * 0.05 * 1.2 * 37_500,
        "electricity": 1000 * 0.08,
    }
    assert dict(cost.parts_usd) == pytest.approx(expected, rel=1e-9)
    assert cost.total_usd == cost.owned_usd == pytest.approx(sum(expected.values()), rel=1e-9)


def test_both_tenures_stand_side_by_side() -> None:
    run, cluster, site = logged(8.0, 100.0), machine(), site_of()
    rented = account_cost(run, ENERGY, cluster, prices_of("rented", 0.08), site)
    owned = account_cost(run, ENERGY, cluster, prices_of("owned", 0.08), site)
    assert (rented.rented_usd, rented.owned_usd) == (owned.rented_usd, owned.owned_usd)
    assert (rented.total_usd, owned.total_usd) == (rented.rented_usd, rented.owned_usd)


def test_interest_and_idle_time_raise_the_price_of_owning() -> None:
    cheap, dear = yearly_cost_per_chip(machine(), prices_of("owned", 0.02)), yearly_cost_per_chip(machine(), prices_of("owned", 0.10))
    assert all(cheap[name] < dear[name] for name in ("servers", "network", "facility"))
    assert cheap["opex"] == dear["opex"]
    run, half_idle = logged(8.0, 1.0), replace(prices_of("owned"), utilisation=0.4)
    busy = account_cost(run, ENERGY, machine(), prices_of("owned"), site_of())
    idle = account_cost(run, ENERGY, machine(), half_idle, site_of())
    assert idle.parts_usd["servers"] == pytest.approx(2 * busy.parts_usd["servers"])
    assert idle.parts_usd["electricity"] == busy.parts_usd["electricity"]
