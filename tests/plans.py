"""Random valid plans, and a base scenario to run them in."""

from __future__ import annotations

import dataclasses
import random
from functools import lru_cache

from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario
from foretrain.strategy import rules
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import Model


@lru_cache(maxsize=8)
def base(model: str = "llama-3.1-70b", system: str = "dgx-h100", chips: int = 64, *overrides: str) -> Scenario:
    """A scenario whose plan is fixed, so that opening it is quick."""
    return open_scenario(model, system, chips, {"tp": 8, "pp": 1, "microbatch_size": 1, "zero": 1, "recompute": "none"}, list(overrides))


def with_plan(scenario: Scenario, strategy: Strategy) -> Scenario:
    """The scenario under another plan: batch and chips follow from it."""
    recipe = dataclasses.replace(
        scenario.workload.recipe, global_batch_size=strategy.dp * strategy.microbatch_size * strategy.num_microbatches
    )
    cluster = dataclasses.replace(scenario.cluster, num_chips=strategy.world_size)
    workload = dataclasses.replace(scenario.workload, recipe=recipe)
    return dataclasses.replace(scenario, workload=workload, cluster=cluster, strategy=strategy)


def random_strategy(rng: random.Random, scenario: Scenario) -> Strategy:
    """One draw over every degree and word; not necessarily valid."""
    model = scenario.workload.model
    experts = isinstance(model, Model) and model.experts is not None
    cut = not isinstance(model, ConvNet)
    pp = rng.choice([1, 1, 2, 4, 5, 8]) if cut else 1
    vpp = rng.choice([1, 1, 2]) if pp > 1 else 1
    flash = rng.random() < 0.8
    offload = rng.choice([0.0, 0.0, 0.5, 1.0])
    dp = rng.choice([1, 2, 3, 8, 32, 128])
    zero = rng.choice([0, 1, 2, 3])
    return dataclasses.replace(
        scenario.strategy,
        tp=rng.choice([1, 2, 4, 8]) if cut else 1,
        pp=pp,
        vpp=vpp,
        dp=dp,
        dp_replicate=rng.choice([1, 2, 4]) if zero and not experts and dp % 4 == 0 else 1,
        cp=rng.choice([1, 1, 2, 4]) if flash and cut else 1,
        context_parallel=rng.choice(["ring", "ring", "all_gather", "ulysses"]),
        ep=rng.choice([1, 2, 4, 8]) if experts else 1,
        etp=rng.choice([1, 1, 2]) if experts else 1,
        dispatcher=rng.choice(["alltoall", "alltoall", "deepep", "allgather"]),
        overlap_ep=rng.random() < 0.3,
        loss_chunks=rng.choice([1, 1, 8]),
        optimizer_offload=offload,
        parameter_offload=rng.choice([0.0, 0.0, 0.5]),
        offload_tier=rng.choice(["host", "nvme"]),
        activation_offload="layer" if pp == 1 and rng.random() < 0.2 and cut else "none",
        microbatch_size=rng.choice([1, 2, 3, 4]),
        num_microbatches=rng.choice([1, 2, 4, 8, 15, 16, 40, 64]),
        sequence_parallel=rng.random() < 0.5,
        zero=zero,
        recompute=rng.choice(["none", "selective", "full"]) if cut else "none",
        schedule="interleaved" if vpp > 1 else rng.choice(["1f1b", "gpipe"]),
        flash_attention=flash,
        overlap_grad_reduce=rng.random() < 0.5,
        overlap_p2p=rng.random() < 0.5,
    )


def random_plans(count: int, seed: int, scenario: Scenario) -> list[Strategy]:
    """``count`` plans that obey every rule."""
    rng = random.Random(seed)  # noqa: S311 - test data
    plans: list[Strategy] = []
    while len(plans) < count:
        plan = random_strategy(rng, scenario)
        candidate = with_plan(scenario, plan)
        if not rules.check(candidate.workload, plan, int(plan.world_size)):
            plans.append(plan)
    return plans
