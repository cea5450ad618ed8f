"""Laws of the bill: sums, one formula for scalars and arrays, limits, directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foretrain.carbon.account import Amortisation, Carbon
from foretrain.carbon.carbon import account_carbon
from foretrain.carbon.declared import Declared
from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR, SECOND_PER_YEAR
from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.cost.account import Cost, Prices
from foretrain.cost.cost import account_cost
from foretrain.energy.account import Energy
from foretrain.energy.activity import Activity
from foretrain.energy.energy import account_energy
from foretrain.run.phases import Run
from foretrain.run.run import simulate_run
from foretrain.system.cluster import Cluster
from foretrain.system.reliability import Reliability
from foretrain.system.site import Site
from tests.bill import machine, step_of

EXACT = 1e-12


@record
class Bill:
    run: Run
    energy: Energy
    cost: Cost
    carbon: Carbon


@record
class Job:
    """Everything the bill depends on that the laws vary."""

    num_chips: Num = 1024.0
    step_s: Num = 5.0
    matrix: Num = 0.5
    memory: Num = 0.4
    links: Num = 0.3
    num_steps: Num = 1e5
    checkpoint_byte: Num = 1e12
    failure_per_chip_s: Num = 5e-9
    restart_s: Num = 600.0
    step_overhead_s: Num = 0.1
    evaluation_fraction: Num = 0.01
    pue: Num = 1.2
    psu_efficiency: Num = 0.94
    discount_rate: Num = 0.08
    utilisation: Num = 0.85
    tenure: Literal["rented", "owned"] = "owned"
    accounting: Literal["location", "market"] = "location"


def bill(job: Job) -> Bill:
    """The whole bill of ``job``, through the public functions."""
    cluster = cluster_of(job)
    site = Site(
        name="site", pue=job.pue, location_kg_per_j=0.37 / J_PER_KWH, market_kg_per_j=0.1 / J_PER_KWH, intensity_definition="average",
        electricity_usd_per_j=0.08 / J_PER_KWH, wue_l_per_j=0.3 / J_PER_KWH,
    )  # fmt: skip
    prices = Prices(
        tenure=job.tenure, rental_usd_per_chip_s=2.5 / SECOND_PER_HOUR, network_usd_fraction=0.23, facility_usd_per_w=11.0,
        discount_rate_per_year=job.discount_rate, server_life_s=5 * SECOND_PER_YEAR, network_life_s=5 * SECOND_PER_YEAR,
        facility_life_s=15 * SECOND_PER_YEAR, opex_fraction_per_year=0.05, utilisation=job.utilisation,
    )  # fmt: skip
    amortisation = Amortisation(life_s=6 * SECOND_PER_YEAR, utilisation=job.utilisation, accounting=job.accounting)
    run = simulate_run(step_of(job.step_s, job.matrix, job.memory, job.links), job.num_steps, job.checkpoint_byte, cluster)
    energy = account_energy(run, cluster, site, Activity())
    return Bill(
        run=run,
        energy=energy,
        cost=account_cost(run, energy, cluster, prices, site),
        carbon=account_carbon(run, energy, cluster, site, Declared(), amortisation),
    )


def cluster_of(job: Job) -> Cluster:
    base = machine(job.num_chips)
    reliability = Reliability(
        failure_per_chip_s=job.failure_per_chip_s,
        restart_s=job.restart_s,
        step_overhead_s=job.step_overhead_s,
        evaluation_fraction=job.evaluation_fraction,
    )
    return replace(base, server=replace(base.server, psu_efficiency=job.psu_efficiency), reliability=reliability)


def flat(result: Bill) -> dict[str, Num]:
    """Every number of a bill by name."""
    run, energy, cost, carbon = result.run, result.energy, result.cost, result.carbon
    records = (
        ("run", run, "wall_s goodput checkpoint_interval_s num_failures chip_s"),
        ("energy", energy, "total_j it_j mean_w_per_chip peak_w"),
        ("cost", cost, "total_usd rented_usd owned_usd usd_per_chip_hour"),
        ("carbon", carbon, "total_kg operational_location_kg operational_market_kg embodied_kg water_l"),
    )
    numbers = {f"{name}.{field}": getattr(part, field) for name, part, fields in records for field in fields.split()}
    parts = {"energy": energy.parts_j, "cost": cost.parts_usd, "carbon": carbon.parts_kg}
    phases = {f"run.{phase.purpose}": phase.duration_s for phase in run.phases}
    return {**numbers, **phases, **{f"{name}.parts.{key}": value for name, table in parts.items() for key, value in table.items()}}


def zero_or(low: float, high: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.floats(low, high))


SHARE = st.floats(0.0, 1.3)
NUMBERS = {
    "num_chips": st.integers(1, 20_000).map(float),
    "step_s": st.floats(0.01, 100.0),
    "matrix": SHARE,
    "memory": SHARE,
    "links": SHARE,
    "num_steps": st.integers(1, 1_000_000).map(float),
    "checkpoint_byte": zero_or(1e6, 1e14),
    "failure_per_chip_s": zero_or(1e-12, 1e-6),
    "restart_s": zero_or(1.0, 1e4),
    "step_overhead_s": zero_or(1e-3, 10.0),
    "evaluation_fraction": zero_or(1e-3, 1.0),
    "pue": st.floats(1.0, 2.0),
    "psu_efficiency": st.floats(0.8, 1.0),
    "discount_rate": zero_or(1e-3, 0.3),
    "utilisation": st.floats(0.1, 1.0),
}
TENURE, ACCOUNTING = st.sampled_from(["rented", "owned"]), st.sampled_from(["location", "market"])
JOBS = st.builds(Job, **NUMBERS, tenure=TENURE, accounting=ACCOUNTING)


@given(JOBS)
def test_parts_add_up(job: Job) -> None:
    result = bill(job)
    for total, parts in (
        (result.run.wall_s, [phase.duration_s for phase in result.run.phases]),
        (result.energy.total_j, result.energy.parts_j.values()),
        (result.cost.total_usd, result.cost.parts_usd.values()),
        (result.carbon.total_kg, result.carbon.parts_kg.values()),
    ):
        assert total == pytest.approx(sum(parts), rel=EXACT)
        assert all(value >= 0.0 for value in parts)
    assert 0.0 < result.run.goodput <= 1.0
    assert result.energy.total_j == pytest.approx(result.energy.it_j * job.pue, rel=EXACT)


@given(st.lists(JOBS, min_size=2, max_size=6), TENURE, ACCOUNTING)
def test_an_array_of_jobs_is_each_job(
    jobs: list[Job], tenure: Literal["rented", "owned"], accounting: Literal["location", "market"]
) -> None:
    jobs = [replace(job, tenure=tenure, accounting=accounting) for job in jobs]
    columns = {name: np.array([getattr(job, name) for job in jobs]) for name in NUMBERS}
    with np.errstate(all="raise", under="ignore"):
        together = flat(bill(Job(**columns, tenure=tenure, accounting=accounting)))
    for index, job in enumerate(jobs):
        for name, value in flat(bill(job)).items():
            assert np.broadcast_to(together[name], len(jobs))[index] == pytest.approx(value, rel=EXACT), name


@given(JOBS)
def test_without_failures_nothing_is_lost(job: Job) -> None:
    run = bill(replace(job, failure_per_chip_s=0.0, checkpoint_byte=0.0)).run
    spent = {phase.purpose: phase.duration_s for phase in run.phases}
    assert spent["checkpoint"] == spent["lost"] == spent["restart"] == run.num_failures == 0.0
    assert run.wall_s == pytest.approx(job.num_steps * (job.step_s * (1 + job.evaluation_fraction) + job.step_overhead_s), rel=EXACT)


@given(JOBS)
def test_the_limits_are_continuous(job: Job) -> None:
    """A rare failure and a tiny checkpoint cost next to nothing more than none."""
    none = bill(replace(job, failure_per_chip_s=0.0, checkpoint_byte=0.0))
    tiny = bill(replace(job, failure_per_chip_s=1e-25, checkpoint_byte=1e-6))
    assert tiny.run.wall_s == pytest.approx(none.run.wall_s, rel=1e-7)
    assert tiny.energy.total_j == pytest.approx(none.energy.total_j, rel=1e-7)


RISING = {
    "failure_per_chip_s": ("run.wall_s", "run.chip_s", "energy.total_j", "cost.total_usd", "carbon.total_kg", "carbon.embodied_kg"),
    "restart_s": ("run.wall_s", "energy.total_j", "cost.total_usd"),
    "checkpoint_byte": ("run.wall_s", "run.checkpoint", "energy.total_j"),
    "step_overhead_s": ("run.wall_s", "energy.total_j", "cost.total_usd"),
    "num_steps": ("run.wall_s", "energy.total_j", "cost.total_usd", "carbon.total_kg"),
    "matrix": ("energy.total_j", "energy.peak_w", "carbon.total_kg"),
    "memory": ("energy.total_j", "energy.peak_w"),
    "links": ("energy.total_j", "energy.peak_w"),
    "pue": ("energy.total_j", "energy.peak_w", "carbon.total_kg", "cost.owned_usd"),
    "discount_rate": ("cost.owned_usd",),
}


@pytest.mark.parametrize("name", RISING)
@given(job=JOBS, data=st.data())
def test_more_of_it_never_makes_the_bill_smaller(name: str, job: Job, data: st.DataObject) -> None:
    low, high = sorted((getattr(job, name), data.draw(NUMBERS[name])))
    less, more = flat(bill(replace(job, **{name: low}))), flat(bill(replace(job, **{name: high})))
    assume(more["run.goodput"] > 1e-7)  # at the clip the job never finishes: only what its endless time is made of still changes
    for output in RISING[name]:
        assert more[output] >= less[output] * (1 - 1e-9), output


@given(JOBS)
def test_twice_the_chips_for_the_same_wall_time(job: Job) -> None:
    """Without failures and checkpoints the wall time does not depend on the chips; everything else doubles."""
    calm = replace(job, failure_per_chip_s=0.0, checkpoint_byte=0.0)
    once, twice = flat(bill(calm)), flat(bill(replace(calm, num_chips=2 * calm.num_chips)))
    assert twice["run.wall_s"] == once["run.wall_s"]
    for name in ("run.chip_s", "energy.total_j", "energy.peak_w", "cost.rented_usd", "cost.owned_usd", "carbon.total_kg", "carbon.water_l"):
        assert twice[name] == pytest.approx(2 * once[name], rel=EXACT), name


@given(JOBS, st.floats(1e-3, 1e3))
def test_seconds_scale(job: Job, factor: float) -> None:
    """A world that is slower by a factor, in all its times and rates, has a run that is longer by it, with the same goodput."""
    slower = replace(
        job, step_s=job.step_s * factor, restart_s=job.restart_s * factor, step_overhead_s=job.step_overhead_s * factor,
        checkpoint_byte=job.checkpoint_byte * factor, failure_per_chip_s=job.failure_per_chip_s / factor,
    )  # fmt: skip
    before, after = bill(job).run, bill(slower).run
    assert after.goodput == pytest.approx(before.goodput, rel=1e-6)
    assert after.wall_s == pytest.approx(before.wall_s * factor, rel=1e-6)


@given(JOBS)
def test_busier_never_exceeds_the_rating_of_the_chips(job: Job) -> None:
    result = bill(job)
    assert result.energy.parts_j["chips"] <= 700.0 * result.run.chip_s * (1 + EXACT)
    assert result.energy.parts_j["chips"] >= 75.0 * result.run.chip_s * (1 - EXACT)
