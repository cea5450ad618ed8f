"""How fast the command and the formulas are, as ratios to plain Python measured in the same run.

Absolute times depend on the machine; a ratio to a bare interpreter or to a fixed loop can be compared between machines and days.
Run with ``make bench`` or ``python benchmarks/run.py``.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import foretrain
from foretrain.program.lower import lower
from foretrain.simulate.scenario import Scenario
from foretrain.step.step import simulate_step
from foretrain.strategy.strategy import Strategy

PLANS = 4096
COMMAND = [sys.executable, "-m", "foretrain"]
SIMULATE = ["simulate", "llama-3.1-405b", "--on", "dgx-h100", "--chips", "16384"]


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def process(*words: str) -> float:
    """Wall time of a fresh process."""
    return seconds(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))


def fixed_loop() -> float:
    """A hundred thousand turns of pure Python: the yardstick for one evaluation."""
    total = 0.0
    for index in range(100_000):
        total += index * 0.5
    return total


def step_of(scenario: Scenario, strategy: Strategy) -> object:
    """Program, memory and time of one plan, or of an array of plans."""
    models = scenario.models
    program = lower(scenario.workload, strategy)
    return simulate_step(program, scenario.cluster, scenario.stack, models.compute, models.collective, models.schedule)


def plans(scenario: Scenario) -> Strategy:
    """An array of valid plans with the same words: microbatch sizes and counts, and data-parallel degrees."""
    rng = np.random.default_rng(0)
    draw = {name: 2.0 ** rng.integers(0, 5, PLANS) for name in ("dp", "microbatch_size", "num_microbatches")}
    return dataclasses.replace(scenario.strategy, **draw)


def measure() -> dict[str, float]:
    """All figures: best of several in seconds, the median for fresh simulations, plans per second."""
    scenario = foretrain.open_scenario("llama-3.1-8b", on="dgx-h100", chips=64, options={"tp": 2})
    foretrain.simulate_scenario(scenario)
    many = plans(scenario)
    return {
        "bare_s": min(process(sys.executable, "-c", "pass") for _ in range(7)),
        "version_s": min(process(*COMMAND, "--version") for _ in range(7)),
        "simulate_s": statistics.median(process(*COMMAND, *SIMULATE) for _ in range(7)),
        "loop_s": min(seconds(fixed_loop) for _ in range(20)),
        "evaluation_s": min(seconds(lambda: foretrain.simulate_scenario(scenario)) for _ in range(50)),
        "single_plan_per_s": 1 / min(seconds(lambda: step_of(scenario, scenario.strategy)) for _ in range(50)),
        "array_plan_per_s": PLANS / min(seconds(lambda: step_of(scenario, many)) for _ in range(10)),
    }


def main() -> None:
    """Measure and print."""
    m = measure()
    bare, loop, single, array = m["bare_s"], m["loop_s"], m["single_plan_per_s"], m["array_plan_per_s"]
    print(f"bare python              {bare * 1e3:8.1f} ms   best of 7")
    print(f"foretrain --version      {m['version_s'] * 1e3:8.1f} ms   best of 7      {m['version_s'] / bare:6.1f} x bare python")
    print(f"foretrain simulate       {m['simulate_s'] * 1e3:8.1f} ms   median of 7    {m['simulate_s'] / bare:6.1f} x bare python")
    print(f"one evaluation           {m['evaluation_s'] * 1e3:8.3f} ms   best of 50     {m['evaluation_s'] / loop:6.2f} x fixed loop")
    print(f"plans one by one         {single:8,.0f} /s   best of 50")
    print(f"plans as arrays          {array:8,.0f} /s   best of 10     {array / single:6.0f} x one by one")


if __name__ == "__main__":
    main()
