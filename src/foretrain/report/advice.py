"""What to change when a plan does not fit: each suggestion is a plan that was checked against all rules and whose memory was counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from foretrain.core.constants import GIB
from foretrain.core.record import record
from foretrain.program.lower import lower
from foretrain.simulate.scenario import Scenario
from foretrain.step.fits import fit_memory
from foretrain.strategy import rules
from foretrain.strategy.strategy import Strategy

MAX_SUGGESTIONS = 3
MAX_CHANGES = 6


OPTIONS = ("tp", "pp", "dp", "cp", "microbatch_size", "zero", "recompute")
SETTINGS = ("sequence_parallel", "flash_attention", "optimizer_offload", "offload_master", "parameter_offload")
"""Fields of the strategy that a suggestion may change: those with an option of their own, and those reached by ``--set``."""


@record
class Change:
    """A plan that differs from the scenario's, and its device memory [bytes]."""

    strategy: Strategy
    device_byte: float


def suggestions(scenario: Scenario) -> tuple[str, ...]:
    """Sentences that say which changes of the plan, on the same chips and with the same global batch, make it fit.

    Single changes come first, from the cheapest in time to the dearest. When none is enough, the change that saves most is taken again
    and again; when that does not fit either, the sentence says how far it comes.
    """
    given = scenario.strategy
    capacity = float(scenario.cluster.server.chip.hbm_byte - scenario.cluster.server.chip.reserved_byte)
    single = [change for change in changes(scenario, given) if change.device_byte <= capacity]
    if single:
        return tuple(f"would fit with {_said(given, change)}" for change in single[:MAX_SUGGESTIONS])
    best = descend(scenario, capacity)
    more = "more chips or chips with more memory are needed"
    if best is None:
        return (f"no change of the plan on these chips saves memory; {more}",)
    if best.device_byte <= capacity:
        return (f"no single change is enough; would fit with {_said(given, best)}",)
    return (f"no plan was found that fits on these chips; nearest: {_said(given, best)}; {more}",)


def _said(given: Strategy, change: Change) -> str:
    return f"{words(given, change.strategy)} ({change.device_byte / GIB:.2f} GiB)"


def words(given: Strategy, other: Strategy) -> str:
    """What to write on the command line to get from ``given`` to ``other``.

    >>> words(Strategy(dp=8), Strategy(tp=2, dp=4, sequence_parallel=True))
    '--tp 2 --dp 4 --set strategy.sequence_parallel=true'
    """
    new = {name: getattr(other, name) for name in (*OPTIONS, *SETTINGS) if getattr(other, name) != getattr(given, name)}
    options = [f"--{name.replace('_', '-')} {value}" for name, value in new.items() if name in OPTIONS]
    settings = [f"--set strategy.{name}={str(value).lower()}" for name, value in new.items() if name in SETTINGS]
    return " ".join([*options, *settings])


def descend(scenario: Scenario, capacity: float) -> Change | None:
    """The end of at most ``MAX_CHANGES`` changes, each the one that saves most memory; None when none saves any."""
    best: Change | None = None
    for _ in range(MAX_CHANGES):
        start = best.strategy if best else scenario.strategy
        need = best.device_byte if best else device_byte(scenario, start)
        step = min(changes(scenario, start), key=lambda change: change.device_byte, default=None)
        if need <= capacity or step is None or step.device_byte >= need:
            break
        best = step
    return best


def changes(scenario: Scenario, strategy: Strategy) -> list[Change]:
    """All single changes of ``strategy`` that break no rule."""
    chips, per_server = int(scenario.cluster.num_chips), int(scenario.cluster.server.num_chips)
    plans = (*state_levers(strategy), *activation_levers(strategy), *degree_levers(strategy, per_server), *offload_levers(strategy))
    return [
        Change(strategy=plan, device_byte=device_byte(scenario, plan)) for plan in plans if not rules.check(scenario.workload, plan, chips)
    ]


def device_byte(scenario: Scenario, strategy: Strategy) -> float:
    """Device memory of the worst rank under ``strategy`` [bytes]."""
    program = lower(scenario.workload, strategy)
    return float(fit_memory(program, scenario.cluster.server.chip, scenario.stack).device_byte)


def state_levers(strategy: Strategy) -> Iterator[Strategy]:
    """Plans that keep fewer model states on a chip by sharding them."""
    for zero in (1, 3):
        if strategy.zero < zero and strategy.dp * strategy.cp > 1:
            yield dataclasses.replace(strategy, zero=zero)


def activation_levers(strategy: Strategy) -> Iterator[Strategy]:
    """Plans that keep fewer activations on a chip."""
    if strategy.tp > 1 and not strategy.sequence_parallel:
        yield dataclasses.replace(strategy, sequence_parallel=True)
    if not strategy.flash_attention:
        yield dataclasses.replace(strategy, flash_attention=True)
        if strategy.recompute == "none":
            yield dataclasses.replace(strategy, recompute="selective")
    if strategy.microbatch_size > 1:
        more = int(strategy.num_microbatches) * int(strategy.microbatch_size)
        yield dataclasses.replace(strategy, microbatch_size=1, num_microbatches=more)
    if strategy.recompute != "full":
        yield dataclasses.replace(strategy, recompute="full")


def degree_levers(strategy: Strategy, per_server: int) -> Iterator[Strategy]:
    """Plans with half the data-parallel ranks and twice the ranks of another axis; tensor parallelism stays inside a server."""
    dp = int(strategy.dp)
    if dp % 2:
        return
    half = dataclasses.replace(strategy, dp=dp // 2, num_microbatches=int(strategy.num_microbatches) * 2)
    if strategy.tp * 2 <= per_server:
        yield dataclasses.replace(half, tp=int(strategy.tp) * 2)
    yield dataclasses.replace(half, pp=strategy.pp * 2, stage_layers=())
    yield dataclasses.replace(half, cp=int(strategy.cp) * 2)


def offload_levers(strategy: Strategy) -> Iterator[Strategy]:
    """Plans with the whole optimizer on the host, with its master copy too, and with the weights there."""
    if strategy.optimizer_offload < 1:
        yield dataclasses.replace(strategy, optimizer_offload=1)
    if not strategy.offload_master:
        yield dataclasses.replace(strategy, optimizer_offload=1, offload_master=True)
    if strategy.parameter_offload < 1:
        yield dataclasses.replace(strategy, parameter_offload=1)
