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
from tests.bill import logged, machine, site_of

ENERGY = Energy(total_j=1000 * J_PER_KWH, it_j=800 * J_PER_KWH, parts_j={}, mean_w_per_chip=1000.0, peak_w=1e5)


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
