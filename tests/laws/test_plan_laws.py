"""Laws every plan obeys: arrays give what scalars give, parts add up, terms vanish, more is not less."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from foretrain.core.terms import total
from foretrain.simulate.batch import stack_plans
from foretrain.simulate.result import Result
from foretrain.simulate.simulate import simulate_scenario
from tests.plans import base, random_plans, with_plan

COUNT = 10_000


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a result's step and bill by path."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from numbers(item, f"{path}.{index}")
    elif isinstance(value, (int, float, np.ndarray, np.number)):
        yield path, value


def figures(result: Result) -> dict[str, Any]:
    """Step and bill without the name of the worst stage's rows, which differ between layouts."""
    return dict([*numbers(result.step, "step"), *numbers(result.bill, "bill")])


def test_arrays_equal_scalars_over_random_valid_plans() -> None:
    scenario = base()
    plans = random_plans(COUNT, 20261130, scenario)
    compared = 0
    for members, strategy in stack_plans(plans):
        together = figures(simulate_scenario(with_plan(scenario, strategy)))
        for position, index in enumerate(members):
            alone = figures(simulate_scenario(with_plan(scenario, plans[index])))
            assert alone.keys() == together.keys()
            for path, value in alone.items():
                column = np.broadcast_to(np.asarray(together[path], dtype=float), len(members))[position]
                assert math.isclose(float(value), column, rel_tol=1e-12, abs_tol=1e-300), (path, value, column, plans[index])
            compared += 1
    assert compared == COUNT


def test_parts_add_up() -> None:
    scenario = base()
    for plan in random_plans(200, 1, scenario):
        result = simulate_scenario(with_plan(scenario, plan))
        step, bill = result.step, result.bill
        assert math.isclose(float(total(step.time.parts_s)), float(step.time.step_s), rel_tol=1e-12)
        assert all(float(part) >= 0 for part in step.time.parts_s.values()), step.time.parts_s
        assert math.isclose(float(total(step.memory.parts_byte)), float(step.memory.peak_byte), rel_tol=1e-12)
        assert math.isclose(sum(float(phase.duration_s) for phase in bill.run.phases), float(bill.run.wall_s), rel_tol=1e-9)
        assert math.isclose(float(total(bill.energy.parts_j)), float(bill.energy.total_j), rel_tol=1e-9)
        assert math.isclose(float(total(bill.cost.parts_usd)), float(bill.cost.total_usd), rel_tol=1e-9)
        assert math.isclose(float(total(bill.carbon.parts_kg)), float(bill.carbon.total_kg), rel_tol=1e-9)


def test_throughput_identity() -> None:
    scenario = base()
    for plan in random_plans(100, 2, scenario):
        case = with_plan(scenario, plan)
        step = simulate_scenario(case).step
        tokens = float(case.workload.recipe.global_batch_size) * float(case.workload.recipe.seq_len)
        assert math.isclose(float(step.token_per_s_per_chip) * float(plan.world_size) * float(step.time.step_s), tokens, rel_tol=1e-12)


def test_communication_and_bubble_vanish_on_one_chip() -> None:
    scenario = base()
    alone = dataclasses.replace(scenario.strategy, tp=1, dp=1, pp=1, num_microbatches=4)
    time = simulate_scenario(with_plan(scenario, alone)).step.time
    for part in ("tp_exposed", "cp_exposed", "pp_exposed", "dp_exposed", "bubble"):
        assert time.parts_s[part] == 0, part
    assert sum(float(value) for value in time.hidden_s.values()) == 0
    assert time.link_s == 0


@pytest.mark.parametrize("name", ["selective", "full"])
def test_memory_falls_and_time_grows_with_recomputation(name: str) -> None:
    scenario = base()
    unfused = dataclasses.replace(scenario.strategy, flash_attention=False, num_microbatches=4, dp=1, recompute=name)
    order = ["none", "selective", "full"]
    result = simulate_scenario(with_plan(scenario, unfused)).step
    for heavier in order[: order.index(name)]:
        other = simulate_scenario(with_plan(scenario, dataclasses.replace(unfused, recompute=heavier))).step
        assert result.memory.peak_byte < other.memory.peak_byte
        assert result.time.step_s > other.time.step_s


def test_zero_stages_shrink_the_states_in_order() -> None:
    scenario = base()
    peaks = [
        simulate_scenario(
            with_plan(scenario, dataclasses.replace(scenario.strategy, tp=1, dp=64, num_microbatches=1, zero=zero))
        ).step.memory.peak_byte
        for zero in (0, 1, 2, 3)
    ]
    assert peaks == sorted(peaks, reverse=True)


def test_longer_sequences_and_larger_microbatches_never_take_less() -> None:
    scenario = base()
    steps = [
        simulate_scenario(with_plan(scenario, dataclasses.replace(scenario.strategy, dp=1, microbatch_size=b))).step for b in (1, 2, 4, 8)
    ]
    assert [s.time.step_s for s in steps] == sorted(s.time.step_s for s in steps)
    assert [s.memory.peak_byte for s in steps] == sorted(s.memory.peak_byte for s in steps)


def test_a_slower_wire_or_chip_never_helps() -> None:
    fast = base()
    for override in (
        "system.fabric.tiers.0.byte_per_s=100 GB/s",
        "system.fabric.tiers.1.byte_per_s=50 Gbit/s",
        "system.chip.hbm_byte_per_s=1 TB/s",
        "system.chip.dense_flop_per_s.bf16=300 TFLOP/s",
        "stack.host_kernel_s=100 us",
    ):
        slow = base("llama-3.1-70b", "dgx-h100", 64, override)
        for plan in random_plans(30, 3, fast):
            quick = simulate_scenario(with_plan(fast, plan)).step.time.step_s
            assert simulate_scenario(with_plan(slow, plan)).step.time.step_s >= quick * (1 - 1e-12), override


def quicker(record: Any, factor: float) -> Any:
    """The record in a world where everything runs ``factor`` times faster: rates grow, durations shrink, by the unit in the name."""
    if isinstance(record, tuple):
        return tuple(quicker(item, factor) for item in record)
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        return record
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        power = 1 if field.name.endswith("_per_s") else -1 if field.name.endswith("_s") else 0
        if isinstance(value, Mapping):
            changes[field.name] = {key: item * factor**power if power else quicker(item, factor) for key, item in value.items()}
        else:
            changes[field.name] = value * factor**power if power else quicker(value, factor)
    return dataclasses.replace(record, **changes)


def test_time_has_one_unit() -> None:
    """Rescaling the second rescales every time and nothing else: no formula mixes seconds with anything hidden."""
    scenario = base()
    fast = dataclasses.replace(scenario, cluster=quicker(scenario.cluster, 4.0), stack=quicker(scenario.stack, 4.0))
    for plan in random_plans(100, 4, scenario):
        slow_step, fast_step = simulate_scenario(with_plan(scenario, plan)).step, simulate_scenario(with_plan(fast, plan)).step
        assert math.isclose(float(slow_step.time.step_s), 4.0 * float(fast_step.time.step_s), rel_tol=1e-9)
        assert math.isclose(float(slow_step.mfu), float(fast_step.mfu), rel_tol=1e-9)
        assert slow_step.memory.peak_byte == fast_step.memory.peak_byte
