"""The laws of plans hold for every family of models, recipes and features, not only for plain decoders."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from foretrain.core.terms import total
from foretrain.simulate.batch import stack_plans
from foretrain.simulate.simulate import simulate_scenario
from tests.families import FAMILIES, family
from tests.laws.test_plan_laws import figures, quicker
from tests.plans import random_plans, with_plan

COUNT = 150


@pytest.mark.parametrize("name", FAMILIES)
def test_arrays_equal_scalars_and_parts_add_up(name: str) -> None:
    scenario = family(name)
    plans = random_plans(COUNT, 7, scenario)
    for members, strategy in stack_plans(plans):
        together = figures(simulate_scenario(with_plan(scenario, strategy)))
        for position, index in enumerate(members):
            result = simulate_scenario(with_plan(scenario, plans[index]))
            alone = figures(result)
            assert alone.keys() == together.keys()
            for path, value in alone.items():
                column = np.broadcast_to(np.asarray(together[path], dtype=float), len(members))[position]
                assert math.isclose(float(value), column, rel_tol=1e-12, abs_tol=1e-300), (path, value, column, plans[index])
            step, bill = result.step, result.bill
            assert all(float(part) >= 0 for part in step.time.parts_s.values()), step.time.parts_s
            assert math.isclose(float(total(step.time.parts_s)), float(step.time.step_s), rel_tol=1e-12)
            assert all(float(part) >= -1e-9 for part in step.memory.parts_byte.values()), step.memory.parts_byte
            assert math.isclose(float(total(step.memory.parts_byte)), float(step.memory.peak_byte), rel_tol=1e-12)
            assert math.isclose(float(total(bill.energy.parts_j)), float(bill.energy.total_j), rel_tol=1e-9)
            assert 0 < step.mfu <= step.hfu < 1


@pytest.mark.parametrize("name", FAMILIES)
def test_communication_vanishes_on_one_chip(name: str) -> None:
    scenario = family(name)
    alone = dataclasses.replace(scenario.strategy, tp=1, dp=1, pp=1, num_microbatches=4)
    time = simulate_scenario(with_plan(scenario, alone)).step.time
    assert all(value == 0 for part, value in time.parts_s.items() if part.endswith("_exposed") or part in ("bubble", "offload"))
    assert sum(float(value) for value in time.hidden_s.values()) == 0
    assert time.link_s == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_more_work_never_takes_less(name: str) -> None:
    scenario = family(name)
    one = dataclasses.replace(scenario.strategy, tp=1, dp=2, zero=1, num_microbatches=1)
    steps = [simulate_scenario(with_plan(scenario, dataclasses.replace(one, microbatch_size=b))).step for b in (1, 2, 4, 8)]
    assert [s.time.step_s for s in steps] == sorted(s.time.step_s for s in steps)
    assert [s.memory.peak_byte for s in steps] == sorted(s.memory.peak_byte for s in steps)


@pytest.mark.parametrize("name", FAMILIES)
def test_time_has_one_unit(name: str) -> None:
    scenario = family(name)
    fast = dataclasses.replace(scenario, cluster=quicker(scenario.cluster, 4.0), stack=quicker(scenario.stack, 4.0))
    for plan in random_plans(10, 4, scenario):
        slow_step, fast_step = (simulate_scenario(with_plan(case, plan)).step for case in (scenario, fast))
        assert math.isclose(float(slow_step.time.step_s), 4.0 * float(fast_step.time.step_s), rel_tol=1e-9)
        assert math.isclose(float(slow_step.mfu), float(fast_step.mfu), rel_tol=1e-9)
        assert slow_step.memory.peak_byte == fast_step.memory.peak_byte


def test_uneven_routing_and_wider_dispatch_cost_time() -> None:
    scenario = family("experts")
    plan = dataclasses.replace(scenario.strategy, tp=1, dp=16, ep=8, num_microbatches=4)
    steps = []
    for imbalance in (1.0, 1.5, 2.0):
        recipe = dataclasses.replace(scenario.workload.recipe, expert_imbalance=imbalance)
        case = dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, recipe=recipe))
        steps.append(float(simulate_scenario(with_plan(case, plan)).step.time.step_s))
    assert steps == sorted(steps)
    seconds = {
        word: float(simulate_scenario(with_plan(scenario, dataclasses.replace(plan, dispatcher=word))).step.time.step_s)  # type: ignore[arg-type]
        for word in ("deepep", "alltoall", "allgather")
    }
    assert seconds["deepep"] <= seconds["alltoall"] < seconds["allgather"]


def test_what_is_frozen_needs_no_gradients_and_no_states() -> None:
    whole, adapters, four_bit = (family(name) for name in ("states in 8 bits", "adapters", "adapters on 4-bit weights"))
    plan = dataclasses.replace(whole.strategy, tp=1, dp=8, num_microbatches=1)
    memory = [simulate_scenario(with_plan(case, plan)).step.memory.parts_byte for case in (whole, adapters, four_bit)]
    assert memory[1]["gradients"] < 0.01 * memory[0]["gradients"]
    assert memory[2]["weights"] < 0.35 * memory[1]["weights"]
    times = [simulate_scenario(with_plan(case, plan)).step.time.step_s for case in (whole, adapters)]
    assert times[1] < times[0]


def test_no_gradient_passes_what_is_frozen_and_has_nothing_to_train_before_it() -> None:
    frozen, head_only = family("packed documents"), family("frozen parts")
    plan = dataclasses.replace(frozen.strategy, tp=1, dp=8, num_microbatches=1)
    whole, rest = (simulate_scenario(with_plan(case, plan)) for case in (frozen, head_only))
    assert rest.step.memory.parts_byte["activations"] < 0.02 * whole.step.memory.parts_byte["activations"]
    layer = rest.program.blocks[0]
    assert {call.phase for call in layer.collectives} <= {"forward"}
    assert set(layer.ops.matmuls.phase) == {"forward"}
    assert rest.program.model_flop < 0.45 * whole.program.model_flop


def test_muons_work_does_not_depend_on_how_experts_are_spread() -> None:
    scenario = family("experts")
    recipe = dataclasses.replace(scenario.workload.recipe, optimizer="muon")
    case = dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, recipe=recipe))
    plan = dataclasses.replace(case.strategy, tp=1, dp=16, zero=1, num_microbatches=1)
    work = []
    for ep in (1, 2, 8):
        matmuls = simulate_scenario(with_plan(case, dataclasses.replace(plan, ep=ep))).program.once.matmuls
        work.append(float(np.sum(2.0 * matmuls.m * matmuls.n * matmuls.k * matmuls.batch)))
    assert work[0] == pytest.approx(work[1]) == pytest.approx(work[2])


def test_muons_products_take_time_that_sharding_divides() -> None:
    adam, muon = family("states in 8 bits"), family("matrices orthogonalised")
    plan = dataclasses.replace(adam.strategy, tp=1, dp=8, zero=1, num_microbatches=1)
    seconds = [float(simulate_scenario(with_plan(case, plan)).step.time.parts_s["optimizer"]) for case in (adam, muon)]
    assert seconds[1] > 2 * seconds[0]
    wide = dataclasses.replace(plan, dp=16)
    assert float(simulate_scenario(with_plan(muon, wide)).step.time.parts_s["optimizer"]) < seconds[1]
