"""What the user left open: candidates for the free degrees, all timed at once, the fastest that fits is taken and explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from foretrain.catalog.schema import Where, validate
from foretrain.core.errors import InputError, Problem
from foretrain.program.lower import lower
from foretrain.simulate.batch import stack_plans
from foretrain.simulate.models import Models
from foretrain.simulate.scenario import Assumption
from foretrain.step.fits import MARGINAL_SHARE, fullness
from foretrain.step.step import simulate_step
from foretrain.strategy import rules
from foretrain.strategy.layout import split_layers
from foretrain.strategy.rules import divisors
from foretrain.strategy.strategy import Strategy
from foretrain.system.cluster import Cluster
from foretrain.system.stack import Stack
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import layer_kinds
from foretrain.workload.recipe import Workload

MICROBATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
ALWAYS_TRIED = 8
MICROBATCH_TOKENS = 32768
"""Microbatches of more than ``ALWAYS_TRIED`` sequences are tried up to this many tokens: short sequences need them to fill a chip."""
WIDEST_TP = 16
"""Tensor parallelism is tried up to this degree inside the innermost links, or a whole server."""
PIPELINES = (1, 2, 4, 8, 16, 32, 64)
MOST_CHUNKS = 8
CONTEXT_DEGREES = (1, 2, 4, 8, 16)
EXPERT_DEGREES = (1, 2, 4, 8, 16, 32, 64)
LONG_SEQ_LEN = 16384
"""Context parallelism is tried from sequences of more than this many tokens."""
CHOSEN = ("tp", "pp", "vpp", "dp", "cp", "ep", "microbatch_size", "zero", "recompute", "schedule", "sequence_parallel")


def choose(
    workload: Workload,
    given: Mapping[str, Any],
    cluster: Cluster,
    stack: Stack,
    models: Models,
    notes: list[Assumption],
    where: Where | None = None,
) -> Strategy:
    """The strategy that follows ``given`` and is otherwise the fastest candidate that fits.

    Parameters
    ----------
    given
        The strategy document: what the user and the stack fixed. ``sequence_parallel: auto`` means with tensor parallelism.
    notes
        Gets one assumption for every field that was chosen here.

    Returns
    -------
    The strategy. If no candidate fits, the one that needs the least memory: running out of memory is then the answer.

    Raises
    ------
    InputError
        When no candidate obeys the rules; the problems are those of the candidate with the fewest.
    """
    if isinstance(workload.model, ConvNet):
        return _choose_convnet(workload, given, cluster, stack, models, notes, where)
    fixed = {name: value for name, value in given.items() if value not in (None, "auto")}
    base = validate(Strategy, fixed, "strategy", where)
    mixture = workload.model.experts is not None
    if mixture and base.build.routed_dispatch and "dispatcher" not in fixed:
        base = dataclasses.replace(base, dispatcher="deepep")
        reason = "the stack has it: a token crosses every link once; alltoall sends a copy per expert"
        notes.append(Assumption(field="strategy.dispatcher", value=base.dispatcher, reason=reason))
    if mixture and "etp" not in fixed:
        notes.append(Assumption(field="strategy.etp", value=1, reason="not given; experts are not cut (Megatron-LM takes tp unless told)"))
    valid, problems = _valid(workload, _candidates(workload, base, fixed, cluster), int(cluster.num_chips))
    if not valid:
        free = {f"strategy.{name}" for name in CHOSEN if name not in fixed}
        raise InputError([problem for problem in problems if problem.field not in free] or problems)
    strategy, fits = _best(workload, valid, cluster, stack, models)
    num_layers = len(layer_kinds(workload.model))
    if not strategy.stage_layers and num_layers % strategy.pp:
        split = split_layers(num_layers, strategy.pp)
        reason = f"{num_layers} layers do not divide by pp = {strategy.pp}; the first and last stage get fewer"
        notes.append(Assumption(field="strategy.stage_layers", value=list(split), reason=reason))
    if len(valid) > 1:
        fastest, least = f"fastest of {len(valid)} plans that keeps the margin", f"none of {len(valid)} plans fits; this needs least memory"
        reason = fastest if fits else least
        chosen = [name for name in CHOSEN if name not in fixed and (name != "ep" or mixture)]
        notes.extend(Assumption(field=f"strategy.{name}", value=getattr(strategy, name), reason=reason) for name in chosen)
    return strategy


MOST_IMAGES = 1024
IMAGE_SIZES = 8
"""Microbatches of images that are tried: at most so many of the divisors of a rank's batch, up to ``MOST_IMAGES``."""


def _choose_convnet(
    workload: Workload,
    given: Mapping[str, Any],
    cluster: Cluster,
    stack: Stack,
    models: Models,
    notes: list[Assumption],
    where: Where | None,
) -> Strategy:
    """``choose`` for a convolutional network: data parallel over all chips, so that only the microbatch is searched."""
    fixed = {name: value for name, value in given.items() if value not in (None, "auto")}
    base = validate(Strategy, fixed, "strategy", where)
    chips, batch = int(cluster.num_chips), int(workload.recipe.global_batch_size)
    dp = int(base.dp) if "dp" in fixed else chips
    own = max(batch // dp, 1)
    free = [size for size in divisors(own) if size <= MOST_IMAGES][-IMAGE_SIZES:]
    sizes = [int(base.microbatch_size)] if "microbatch_size" in fixed else free
    plans = [dataclasses.replace(base, dp=dp, microbatch_size=size, num_microbatches=max(own // size, 1)) for size in sizes]
    valid, problems = _valid(workload, plans, chips)
    if not valid:
        open_fields = {f"strategy.{name}" for name in ("dp", "microbatch_size") if name not in fixed}
        raise InputError([problem for problem in problems if problem.field not in open_fields] or problems)
    strategy, fits = _best(workload, valid, cluster, stack, models)
    if "dp" not in fixed:
        notes.append(Assumption(field="strategy.dp", value=dp, reason="every chip holds the whole network"))
    if "microbatch_size" not in fixed:
        reason = f"fastest of {len(valid)} that keeps the margin" if fits else f"none of {len(valid)} fits; this needs least memory"
        notes.append(Assumption(field="strategy.microbatch_size", value=strategy.microbatch_size, reason=reason))
    return strategy


def _candidates(workload: Workload, base: Strategy, fixed: Mapping[str, Any], cluster: Cluster) -> Iterator[Strategy]:
    """Plans over the free fields whose degrees multiply to the number of chips and whose batch can be formed."""
    chips, batch = int(cluster.num_chips), int(workload.recipe.global_batch_size)
    server, linked = int(cluster.server.num_chips), int(cluster.fabric.tiers[0].size)
    model, seq_len = workload.transformer, int(workload.recipe.seq_len)

    def options(name: str, free: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
        return (getattr(base, name),) if name in fixed else tuple(free)

    cps = options("cp", CONTEXT_DEGREES if workload.recipe.seq_len > LONG_SEQ_LEN and base.flash_attention else (1,))
    kv_heads = model.num_heads if model.latent else model.num_kv_heads
    degrees = sorted({*divisors(server), *(2**i for i in range(linked.bit_length()) if 2**i <= min(linked, WIDEST_TP))})
    tps = options("tp", [d for d in degrees if model.num_heads % d == 0 and kv_heads % d == 0])
    num_layers = len(layer_kinds(model))
    pps = options("pp", [p for p in PIPELINES if p <= num_layers])
    experts = model.experts.num_experts if model.experts else 1
    eps = options("ep", [ep for ep in EXPERT_DEGREES if experts % ep == 0])
    sizes = [size for size in MICROBATCH_SIZES if size <= ALWAYS_TRIED or size * seq_len <= MICROBATCH_TOKENS]
    for tp, pp, cp, ep in product(tps, pps, cps, eps):
        rest, left_over = divmod(chips, int(tp) * int(pp) * int(cp))
        for dp in options("dp", (rest,) if not left_over and rest else (max(rest, 1),)):
            for microbatch_size in options("microbatch_size", sizes):
                count = max(batch // (int(dp) * int(microbatch_size)), 1)
                for words in _words(base, fixed, int(tp), int(pp), int(dp) * int(cp), num_layers):
                    yield dataclasses.replace(
                        base,
                        tp=int(tp),
                        dp=int(dp),
                        cp=int(cp),
                        ep=int(ep),
                        microbatch_size=int(microbatch_size),
                        num_microbatches=count,
                        **words,
                    )


def _words(base: Strategy, fixed: Mapping[str, Any], tp: int, pp: int, shards: int, num_layers: int) -> Iterator[dict[str, Any]]:
    """Word combinations of one choice of degrees."""
    longest = max(base.stage_layers or split_layers(num_layers, pp))
    possible = tuple(d for d in divisors(longest) if d <= MOST_CHUNKS)
    chunks: tuple[int, ...] = (base.vpp,) if "vpp" in fixed else possible if pp > 1 and "schedule" not in fixed else (1,)
    if "schedule" in fixed and base.schedule == "interleaved" and "vpp" not in fixed:
        chunks = possible[1:] or (1,)
    zeros: tuple[int, ...] = (base.zero,) if "zero" in fixed else (1,) if pp > 1 or tp > 1 else (1, 3) if shards > 1 else (0,)
    free = ("none", "full") if base.flash_attention else ("none", "selective", "full")
    recomputes: tuple[str, ...] = (base.recompute,) if "recompute" in fixed else free
    sequence_parallel = base.sequence_parallel if "sequence_parallel" in fixed else tp > 1
    for vpp, zero, recompute in product(chunks, zeros, recomputes):
        schedule = base.schedule if "schedule" in fixed else "interleaved" if vpp > 1 else "1f1b"
        yield {
            "pp": pp,
            "vpp": vpp,
            "zero": zero,
            "recompute": recompute,
            "schedule": schedule,
            "sequence_parallel": sequence_parallel,
        }


def _valid(workload: Workload, plans: Iterable[Strategy], num_chips: int) -> tuple[list[Strategy], list[Problem]]:
    """The plans that obey every rule, and the shortest list of problems among the others."""
    valid: list[Strategy] = []
    fewest: list[Problem] = []
    for plan in plans:
        problems = rules.check(workload, plan, num_chips)
        if not problems:
            valid.append(plan)
        elif not fewest or len(problems) < len(fewest):
            fewest = problems
    return valid, fewest


def _best(workload: Workload, plans: list[Strategy], cluster: Cluster, stack: Stack, models: Models) -> tuple[Strategy, bool]:
    """The fastest plan that fits with the margin, else that fits at all, else the one that needs the least memory."""
    if len(plans) == 1:
        return plans[0], True
    seconds, need = np.empty(len(plans)), np.empty(len(plans))
    for members, strategy in stack_plans(plans):
        program = lower(workload, strategy)
        step = simulate_step(program, cluster, stack, models.compute, models.collective, models.schedule)
        seconds[members] = step.time.step_s
        need[members] = fullness(step.memory)
    for limit in (1 - MARGINAL_SHARE, 1.0):
        if (need <= limit).any():
            return plans[int(np.argmin(np.where(need <= limit, seconds, np.inf)))], True
    return plans[int(np.argmin(need))], False
