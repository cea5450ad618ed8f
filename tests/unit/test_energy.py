"""Joules at the meter: node anchors, published identities, where each loss enters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR
from foretrain.energy.activity import Activity
from foretrain.energy.energy import account_energy
from foretrain.run.phases import Busy, Phase
from tests.bill import Metered, chips_only, logged, machine, site_of

TRAINING = Busy(matrix=0.55, memory=0.4, links=0.3)


def node_w(busy: Busy) -> float:
    """AC watts of one eight-chip node, without switches and facility."""
    base = machine(8.0)
    cluster = replace(base, fabric=replace(base.fabric, switch_w=0.0))
    return float(account_energy(logged(8.0, 1.0, busy), cluster, site_of(), Activity()).it_j) / SECOND_PER_HOUR


def test_chip_power_lies_between_idle_and_tdp() -> None:
    chip = machine().server.chip
    assert Activity().watts(chip, Busy()) == 75.0
    assert Activity().watts(chip, Busy(matrix=1.0, memory=1.0, links=1.0)) == 700.0
    assert Activity(matrix=1.0, memory=0.0, links=0.0).watts(chip, Busy(matrix=0.5)) == 387.5


def test_node_power_meets_the_metered_anchors() -> None:
    """MLPerf power logs of 8 x H100: 6.8 to 7.2 kW AC in steady training, 2.1 to 2.5 kW at idle. A check, not a fit."""
    assert 6800.0 < node_w(TRAINING) < 7200.0
    assert 2100.0 < node_w(Busy()) < 2500.0
    assert node_w(Busy(matrix=1.0, memory=1.0, links=1.0)) < 10200.0


def test_energy_is_counted_per_node_once() -> None:
    """Ten hours of 8 x 400 W and 1000 W of host are 42 kWh: O-ENER-01."""
    base = chips_only(8.0)
    cluster = replace(base, server=replace(base.server, host_idle_w=1000.0, host_busy_w=1000.0))
    energy = account_energy(logged(8.0, 10.0), cluster, site_of(), Metered(mean_w=400.0))
    assert energy.it_j / J_PER_KWH == pytest.approx(42.0, rel=1e-12)
    assert energy.mean_w_per_chip == pytest.approx(525.0, rel=1e-12)


@pytest.mark.parametrize(
    ("num_chips", "hours", "watts", "pue", "kwh"),
    [
        (512.0, 3411.9 / 3600.0, 6849.0 / 8.0, 1.0, 415.4),  # MLPerf v4.0 GPT-3, metered nodes
        (8.0, 1687.9 / 3600.0, 7157.0 / 8.0, 1.0, 12.08e6 / 3.6e6),  # MLPerf v4.0 LoRA
        (1.0, 1_022_362.0, 400.0, 1.1, 449e3),  # LLaMA 65B
        (6144.0, 8_404_992.0 / 6144.0, 378.5, 1.08, 3436e3),  # PaLM 540B
        (1.0, 1_082_990.0, 400.0, 1.0, 433_196.0),  # BLOOM, dynamic
        (1024.0, 574.0, 326.0, 1.11, 213e3),  # GLaM, 280 billion tokens
    ],
)
def test_published_energy_of_logged_runs(num_chips: float, hours: float, watts: float, pue: float, kwh: float) -> None:
    energy = account_energy(logged(num_chips, hours), chips_only(num_chips), site_of(pue), Metered(mean_w=watts))
    assert energy.total_j / J_PER_KWH == pytest.approx(kwh, rel=5e-3)


def test_every_loss_enters_once() -> None:
    cluster, site = machine(16.0), site_of(pue=1.25)
    energy = account_energy(logged(16.0, 1.0), cluster, site, Metered(mean_w=700.0))
    expected = {"chips": 16 * 700.0, "host": 2 * 2050.0, "network": 1600.0, "storage": 0.0}
    expected["conversion"] = (expected["chips"] + expected["host"]) * (1 / 0.94 - 1)
    expected["facility"] = 0.25 * sum(expected.values())
    assert dict(energy.parts_j) == pytest.approx({name: watts * SECOND_PER_HOUR for name, watts in expected.items()})
    assert energy.total_j == pytest.approx(1.25 * energy.it_j)
    assert energy.peak_w == pytest.approx(sum(expected.values()))


def test_waiting_phases_draw_idle_power_and_do_not_lower_the_peak() -> None:
    steps = logged(8.0, 1.0, TRAINING)
    pause = Phase(purpose="checkpoint", duration_s=SECOND_PER_HOUR, num_chips=8.0, busy=Busy())
    both = replace(steps, phases=(*steps.phases, pause), wall_s=2 * SECOND_PER_HOUR)
    alone = account_energy(steps, machine(), site_of(), Activity())
    mixed = account_energy(both, machine(), site_of(), Activity())
    assert mixed.parts_j["chips"] - alone.parts_j["chips"] == pytest.approx(8 * 75.0 * SECOND_PER_HOUR)
    assert mixed.peak_w == alone.peak_w
    assert mixed.mean_w_per_chip < alone.mean_w_per_chip


def test_chips_dominate_an_eight_chip_node() -> None:
    """More than 60 % of a busy node's energy is the chips', without the network outside it: O-CARB-02."""
    energy = account_energy(logged(8.0, 1.0, TRAINING), machine(), site_of(), Activity())
    assert energy.parts_j["chips"] / (energy.it_j - energy.parts_j["network"]) > 0.6


def test_a_chip_without_a_span_between_idle_and_tdp_keeps_its_host_idle() -> None:
    base = chips_only(8.0)
    server = replace(base.server, chip=replace(base.server.chip, idle_w=700.0), host_idle_w=100.0, host_busy_w=200.0)
    energy = account_energy(logged(8.0, 1.0), replace(base, server=server), site_of(), Activity())
    assert energy.parts_j["host"] == pytest.approx(100.0 * SECOND_PER_HOUR)
