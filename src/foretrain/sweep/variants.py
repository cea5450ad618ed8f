"""Scenarios that differ from a base in one knob, with everything that was chosen for the base kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from foretrain.catalog.schema import plain
from foretrain.core.errors import InputError, Problem
from foretrain.core.record import record
from foretrain.run.run import num_steps
from foretrain.simulate.choose import CHOSEN
from foretrain.simulate.open import ramp_steps
from foretrain.simulate.scenario import Scenario
from foretrain.strategy import rules
from foretrain.workload.recipe import Workload

FOLLOWS = ("dp",)
"""Chosen fields that follow from the number of chips and the other degrees."""
STAGES = (0, 1, 2, 3)
RECOMPUTE = ("none", "selective", "full")
HALVED = {"fp32": "bf16", "bf16": "fp32", "fp16": "fp32"}
"""The other usual type of gradients."""


@record
class Variant:
    """``name`` says what was changed; either a ``scenario`` or the ``problems`` that keep it from being one."""

    name: str
    scenario: Scenario | None
    problems: tuple[str, ...] = ()


def pinned(scenario: Scenario) -> list[str]:
    """Settings that keep the plan and the recipe of ``scenario``; degrees that follow from others are left free."""
    recipe, strategy = scenario.workload.recipe, scenario.strategy
    kept = {f"recipe.{name}": getattr(recipe, name) for name in ("seq_len", "global_batch_size", "tokens")}
    kept |= {f"strategy.{name}": getattr(strategy, name) for name in CHOSEN if name not in FOLLOWS}
    return [f"{path}={str(value).lower()}" for path, value in kept.items()]


def set_one(reopen: Callable[[Sequence[str]], Scenario], base: Scenario, settings: Sequence[str]) -> list[Variant]:
    """One variant per ``path=value`` of ``settings``, with the plan of ``base`` kept wherever the setting does not touch it.

    ``reopen`` opens the base again under a list of settings.

    Raises
    ------
    InputError
        With the problems of every setting that cannot be used.
    """
    variants: list[Variant] = []
    problems: list[Problem] = []
    for text in settings:
        try:
            variants.append(Variant(name=text, scenario=reopen([*pinned(base), text])))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return variants


def changed(scenario: Scenario, strategy: Mapping[str, Any] | None = None, recipe: Mapping[str, Any] | None = None) -> Scenario:
    """``scenario`` with other fields of its strategy and recipe; microbatches, batch, chips and steps follow.

    The global batch stays where the data-parallel ranks can share it, and is otherwise rounded down to whole microbatches, at least one
    each. The number of chips is that of the plan.

    Raises
    ------
    InputError
        With the rules of the plan that the change breaks.
    """
    plan = dataclasses.replace(scenario.strategy, **(strategy or {}))
    wanted = dataclasses.replace(scenario.workload.recipe, **(recipe or {}))
    share = int(plan.dp) * int(plan.microbatch_size)
    plan = dataclasses.replace(plan, num_microbatches=max(int(wanted.global_batch_size) // share, 1))
    final = dataclasses.replace(wanted, global_batch_size=share * int(plan.num_microbatches))
    workload = Workload(model=scenario.workload.model, recipe=final)
    chips = int(plan.world_size)
    problems = rules.check(workload, plan, chips)
    if problems:
        raise InputError(problems)
    sections: dict[str, Any] = {"recipe": plain(final), "strategy": plain(plan)}
    system: Any = scenario.document["system"]
    return dataclasses.replace(
        scenario,
        workload=workload,
        strategy=plan,
        cluster=dataclasses.replace(scenario.cluster, num_chips=chips),
        num_steps=num_steps(final.tokens, final.seq_len * final.global_batch_size) + ramp_steps(final),
        document={**scenario.document, **sections, "system": {**system, "num_chips": chips}},
        warnings=tuple(rules.warnings(workload, plan)),
    )


def knobs(scenario: Scenario) -> list[Variant]:
    """What happens when one knob of the plan is turned: batch, sequence, ranks, sharding, recomputation, gradients, offload."""
    return [_variant(scenario, *knob) for knob in _knobs(scenario)]


def _variant(scenario: Scenario, name: str, strategy: Mapping[str, Any], recipe: Mapping[str, Any]) -> Variant:
    try:
        return Variant(name=name, scenario=changed(scenario, strategy, recipe))
    except InputError as error:
        return Variant(name=name, scenario=None, problems=tuple(str(problem) for problem in error.problems))


def _knobs(scenario: Scenario) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Names of the knobs with the fields of strategy and recipe they change."""
    plan, recipe = scenario.strategy, scenario.workload.recipe
    for name, holder in (("microbatch_size", plan), ("dp", plan), ("global_batch_size", recipe), ("seq_len", recipe)):
        now = int(getattr(holder, name))
        for value in (now * 2, *((now // 2,) if now % 2 == 0 and (name != "global_batch_size" or int(plan.num_microbatches) > 1) else ())):
            change = {name: value}
            yield f"{name} {now} -> {value}", change if holder is plan else {}, change if holder is recipe else {}
    yield from ((f"zero {plan.zero} -> {value}", {"zero": value}, {}) for value in STAGES if value != plan.zero)
    yield from ((f"recompute {plan.recompute} -> {value}", {"recompute": value}, {}) for value in RECOMPUTE if value != plan.recompute)
    grads = recipe.precision.grads
    if grads in HALVED:
        other: Any = HALVED[grads]
        yield f"grads {grads} -> {other}", {}, {"precision": dataclasses.replace(recipe.precision, grads=other)}
    share = 0.0 if plan.optimizer_offload == 1 else 1.0
    yield f"optimizer_offload {float(plan.optimizer_offload):g} -> {share:g}", {"optimizer_offload": share}, {}
