"""The model to beat: half of the dense peak and the textbook bubble."""

from __future__ import annotations

from foretrain.program.lower import lower
from foretrain.simulate.scenario import Scenario


def null_step_s(scenario: Scenario) -> float:
    """Executed FLOP at half of the dense peak, stretched by the 1F1B bubble ``1 + (p - 1) / (v m)`` [s]."""
    program = lower(scenario.workload, scenario.strategy)
    chip = scenario.cluster.server.chip
    flop = (program.model_flop + program.recompute_flop) / program.world_size
    bubble = 1 + (program.pp - 1) / (program.vpp * program.num_microbatches)
    return float(flop / (0.5 * chip.dense_flop_per_s[program.math_dtype]) * bubble)
