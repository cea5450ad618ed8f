"""What a memory tool must answer before a launch. The ids name the case in the project's case list."""

from __future__ import annotations

import dataclasses

from foretrain.report.compare import comparison, table
from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.step.fits import verdict
from foretrain.sweep.solve import max_microbatch_size, max_seq_len, min_chips
from foretrain.sweep.variants import changed, knobs

OPTIONS = {"dp": "8", "zero": "3", "seq_len": "8192", "microbatch_size": "1", "recompute": "selective"}


def base() -> Scenario:
    return open_scenario("llama-3-8b", "dgx-h100", 8, OPTIONS)


def ok(scenario: Scenario) -> bool:
    return verdict(simulate_scenario(scenario).step.memory).ok


def peak_byte(scenario: Scenario) -> float:
    return float(simulate_scenario(scenario).step.memory.peak_byte)


def test_o_mem_13_inverse_questions() -> None:
    scenario = base()
    size, length, chips = max_microbatch_size(scenario), max_seq_len(scenario), min_chips(scenario)
    assert ok(changed(scenario, {"microbatch_size": size}))
    assert not ok(changed(scenario, {"microbatch_size": size + 1}))
    assert ok(changed(scenario, None, {"seq_len": length}))
    assert not ok(changed(scenario, None, {"seq_len": int(length * 1.1)}))
    assert chips is not None
    assert ok(changed(scenario, {"dp": chips}))
    assert not ok(changed(scenario, {"dp": chips // 2}))


def test_o_mem_13_relations_between_plans() -> None:
    scenario = base()
    narrow = dataclasses.replace(scenario.workload.recipe.precision, grads="bf16")
    assert peak_byte(changed(scenario, {"dp": 16})) < peak_byte(scenario)
    assert peak_byte(scenario) >= peak_byte(changed(scenario, None, {"precision": narrow}))


def test_o_mem_13_one_line_per_knob_and_the_parts_at_the_peak() -> None:
    scenario = base()
    lines = table(comparison(scenario, knobs(scenario)))
    for knob in ("microbatch_size", "seq_len", "dp", "recompute", "grads", "optimizer_offload"):
        assert any(line.startswith(f"{knob} ") for line in lines), knob
    memory = simulate_scenario(scenario).step.memory
    assert memory.peak_moment
    assert sum(map(float, memory.parts_byte.values())) == memory.peak_byte
