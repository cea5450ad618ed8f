"""The job: steps from tokens, checkpoints, failures, goodput."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foretrain.core.constants import SECOND_PER_DAY, SECOND_PER_HOUR
from foretrain.run.goodput import checkpoint_interval, checkpoint_times, interrupt
from foretrain.run.phases import Run
from foretrain.run.run import num_steps, simulate_run
from foretrain.system.cluster import Cluster
from tests.bill import machine, step_of


def with_reliability(cluster: Cluster, **changes: float) -> Cluster:
    return replace(cluster, reliability=replace(cluster.reliability, **changes))


def seconds(run: Run) -> dict[str, float]:
    return {phase.purpose: float(phase.duration_s) for phase in run.phases}


def test_incomplete_last_batch_is_dropped() -> None:
    assert num_steps(100e9, 512.0 * 2048.0) == 95367.0
    assert num_steps(4096.0 * 10, 4096.0) == 10.0
    assert num_steps(10, 4096) == 1.0
    np.testing.assert_array_equal(num_steps(np.array([8192.0, 8191.0]), 4096.0), [2.0, 1.0])


@pytest.mark.parametrize(("overhead_s", "days"), [(0.0, 2.042), (7.24, 10.03)])
def test_calendar_days_include_the_overhead_between_steps(overhead_s: float, days: float) -> None:
    """A log promised two days, the calendar said ten (NVIDIA-NeMo/NeMo 12727): O-REP-02."""
    cluster = with_reliability(machine(), step_overhead_s=overhead_s, evaluation_fraction=0.0, failure_per_chip_s=0.0)
    run = simulate_run(step_of(1.85), num_steps(100e9, 512.0 * 2048.0), 0.0, cluster)
    assert run.num_steps == 95367.0
    assert run.wall_s / SECOND_PER_DAY == pytest.approx(days, rel=1e-3)
    assert run.goodput == pytest.approx(1.85 / (1.85 + overhead_s), rel=1e-12)
    assert list(seconds(run)) == ["steps", "input", "overhead", "evaluation", "checkpoint", "lost", "restart"]


def test_checkpoint_moves_at_the_slower_of_servers_and_file_system() -> None:
    assert checkpoint_times(1e12, machine(8.0)) == (200.0, 200.0)  # one server at 5 GB/s
    assert checkpoint_times(1e12, machine(4.0)) == (200.0, 200.0)  # half a server has the whole adapter
    assert checkpoint_times(1e12, machine(16384.0)) == (0.5, 0.25)  # 2048 servers could do 10 TB/s


def test_young_interval() -> None:
    """Published example of 6000 s between failures, 10 s to save, with and without 600 s of recovery: O-REL-02."""
    assert checkpoint_interval(10.0, 1 / 6000.0, 1e9) == pytest.approx(346.4, rel=1e-3)
    with_recovery = checkpoint_interval(10.0, 1 / (6000.0 + 600.0), 1e9)
    assert with_recovery == pytest.approx(363.3, rel=1e-3)
    assert with_recovery // 15.0 == 24.0


def daly_wall_s(work_s: float, write_s: float, restart_s: float, mtbf_s: float, interval_s: float) -> float:
    """Daly's exact wall time over exponential failures, which may also strike during writes and restarts."""
    segment = np.expm1((interval_s + write_s) / mtbf_s)
    return float(mtbf_s * np.exp(restart_s / mtbf_s) * segment * work_s / interval_s)


@pytest.mark.parametrize(("write_s", "restart_s", "within"), [(10.0, 0.0, 0.001), (100.0, 100.0, 0.01), (1000.0, 1000.0, 0.1)])
def test_first_order_agrees_with_the_exact_sum_in_its_range(write_s: float, restart_s: float, within: float) -> None:
    mtbf_s, work_s = 1e4, 1e7
    stops = interrupt(work_s, write_s, restart_s, 1 / mtbf_s)
    wall_s = work_s + stops.checkpoint_s + stops.lost_s + stops.restart_s
    exact_s = daly_wall_s(work_s, write_s, restart_s, mtbf_s, float(stops.interval_s))
    assert wall_s == pytest.approx(exact_s, rel=within)
    best_s = min(daly_wall_s(work_s, write_s, restart_s, mtbf_s, t) for t in np.linspace(0.3, 2.0, 500) * float(stops.interval_s))
    assert exact_s <= best_s * 1.005


def test_llama_405b_interruptions() -> None:
    """419 unexpected stops of 16,384 chips in 54 days, more than 90 % of the time effective: O-REL-01."""
    rate = 1.0 / (50677.0 * SECOND_PER_HOUR)
    cluster = with_reliability(machine(16384.0), failure_per_chip_s=rate, restart_s=420.0, step_overhead_s=0.0, evaluation_fraction=0.0)
    run = simulate_run(step_of(10.0), 400_000.0, 15.0 * 2e12, cluster)
    assert run.wall_s / run.num_failures / SECOND_PER_HOUR == pytest.approx(3.093, rel=1e-3)
    assert run.num_failures / run.wall_s * 54 * SECOND_PER_DAY == pytest.approx(419, rel=1e-2)
    assert 0.90 < run.goodput < 0.99


def test_without_failures_one_checkpoint_is_written_at_the_end() -> None:
    run = simulate_run(step_of(1.0), 1000.0, 1e12, with_reliability(machine(), failure_per_chip_s=0.0))
    spent = seconds(run)
    assert spent["lost"] == spent["restart"] == run.num_failures == 0.0
    assert spent["checkpoint"] == pytest.approx(200.0, rel=1e-12)
    assert run.checkpoint_interval_s == spent["steps"] + spent["overhead"] + spent["evaluation"]


def test_a_free_checkpoint_leaves_only_restarts() -> None:
    run = simulate_run(step_of(1.0), 1000.0, 0.0, machine())
    assert seconds(run)["checkpoint"] == seconds(run)["lost"] == 0.0
    assert seconds(run)["restart"] == pytest.approx(float(run.num_failures) * 600.0, rel=1e-12)


@pytest.mark.parametrize("rate", [1e-5, 1e-3, 1.0, 1e9])
def test_a_job_that_fails_faster_than_it_works_never_finishes(rate: float) -> None:
    with np.errstate(all="raise"):
        run = simulate_run(step_of(1.0), 1000.0, 1e13, with_reliability(machine(1e5), failure_per_chip_s=rate))
    assert np.isfinite(run.wall_s)
    assert 0.0 < run.goodput < 1e-8
    assert run.wall_s == pytest.approx(sum(seconds(run).values()), rel=1e-12)


def test_chips_work_during_steps_evaluation_and_rework_only() -> None:
    """Transfers beside each other add up to more than the step: the links are busy all the time."""
    run = simulate_run(step_of(2.0, links=1.2), 10.0, 1e12, machine())
    busy = {phase.purpose: phase.busy for phase in run.phases}
    assert (busy["steps"].matrix, busy["steps"].memory, busy["steps"].links) == pytest.approx((0.5, 0.4, 1.0))
    assert busy["evaluation"] == busy["lost"] == busy["steps"]
    assert busy["checkpoint"].matrix == busy["restart"].memory == busy["overhead"].links == 0.0
