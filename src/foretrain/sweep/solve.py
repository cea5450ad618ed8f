"""Inverse questions: the largest microbatch, the longest sequence, the fewest chips that still fit in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from foretrain.core.numeric import Array
from foretrain.program.lower import lower
from foretrain.simulate.scenario import Scenario
from foretrain.step.fits import fit_memory
from foretrain.strategy import rules
from foretrain.strategy.rules import divisors
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet
from foretrain.workload.recipe import Recipe, Workload

LARGEST = 2**24
"""No microbatch and no number of sequence pieces is looked for beyond this."""
TRIES = 64
"""Candidates that one evaluation of the formulas looks at."""


def fits(scenario: Scenario, strategy: Strategy, recipe: Recipe) -> Array:
    """Whether the worst rank fits, for every candidate of ``strategy`` and ``recipe`` (arrays over candidates)."""
    program = lower(Workload(model=scenario.workload.model, recipe=recipe), strategy)
    memory = fit_memory(program, scenario.cluster.server.chip, scenario.stack)
    return np.less_equal(memory.device_byte, memory.capacity_byte)


def largest(holds: Callable[[Array], Array], limit: int = LARGEST) -> int:
    """The largest whole number from 1 to ``limit`` below the first for which ``holds`` is false; 0 if 1 is false already.

    ``holds`` gets candidates as an array and is true up to some number and false beyond. The bracket shrinks by a factor of ``TRIES``
    per call: geometric while it spans magnitudes, then even.

    >>> largest(lambda n: n * n < 1000.0)
    31
    """
    low, high = 0, limit + 1
    while high - low > 1:
        spread = np.geomspace if high > 4 * (low + 1) else np.linspace
        tries = np.unique(np.round(spread(low + 1, high - 1, TRIES)))
        good = holds(tries)
        first = int(np.argmin(good)) if not good.all() else len(tries)
        low, high = int(tries[first - 1]) if first else low, int(tries[first]) if first < len(tries) else high
    return low


def max_microbatch_size(scenario: Scenario) -> int:
    """Most sequences per microbatch that fit, 0 if not even one does; the number of microbatches is kept, so the global batch grows."""
    recipe = scenario.workload.recipe
    return largest(lambda size: fits(scenario, dataclasses.replace(scenario.strategy, microbatch_size=size), recipe))


def max_seq_len(scenario: Scenario) -> int:
    """Longest sequence that fits, a multiple of what context and sequence parallelism cut it into; 0 if none fits.

    A learned position table bounds it; an image is one token long.
    """
    strategy, model = scenario.strategy, scenario.workload.model
    if isinstance(model, ConvNet):
        return 1
    pieces = int(strategy.cp) * (int(strategy.tp) if strategy.sequence_parallel else 1)
    bound = model.num_positions // pieces if model.position == "learned" and model.num_positions else LARGEST

    def holds(count: Array) -> Array:
        longer = count * pieces
        return fits(scenario, strategy, dataclasses.replace(scenario.workload.recipe, seq_len=longer))

    return pieces * largest(holds, bound)


def min_chips(scenario: Scenario) -> int | None:
    """Fewest chips on which the plan fits; None if it fits on none.

    Data-parallel ranks are added or taken away, all else including the global batch stays. Counts must obey the rules of the plan, share
    the batch evenly, and fill whole servers or a part of one.
    """
    strategy, recipe = scenario.strategy, scenario.workload.recipe
    per_rank, per_server = int(strategy.world_size) // int(strategy.dp), int(scenario.cluster.server.num_chips)
    share = int(recipe.global_batch_size) // int(strategy.microbatch_size)
    plans = [dataclasses.replace(strategy, dp=dp, num_microbatches=share // dp) for dp in divisors(share)]
    valid = [
        plan
        for plan in plans
        for chips in (int(plan.dp) * per_rank,)
        if (chips <= per_server or chips % per_server == 0) and not rules.check(scenario.workload, plan, chips)
    ]
    if not valid:
        return None
    dp = np.array([plan.dp for plan in valid], dtype=np.float64)
    good = np.broadcast_to(fits(scenario, dataclasses.replace(strategy, dp=dp, num_microbatches=share / dp), recipe), dp.shape)
    return int(dp[np.argmax(good)]) * per_rank if good.any() else None
