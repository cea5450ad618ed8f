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


@record
class Change:
    """A plan that differs from the scenario's: the ``words`` of the command line that ask for it, and its device memory [bytes]."""

    words: str
    strategy: Strategy
    device_byte: float


def suggestions(scenario: Scenario) -> tuple[str, ...]:
    """Sentences that say which changes of the plan, on the same chips and with the same global batch, make it fit.

    Single changes come first, in the order of ``levers``. When none is enough, the change that saves most is taken again and again;
    when that does not fit either, the sentence says how far it comes.
    """
    capacity = float(scenario.cluster.server.chip.hbm_byte - scenario.cluster.server.chip.reserved_byte)
    single = [change for change in changes(scenario, scenario.strategy) if change.device_byte <= capacity]
    if single:
        return tuple(f"would fit with {change.words} ({change.device_byte / GIB:.2f} GiB)" for change in single[:MAX_SUGGESTIONS])
    best = descend(scenario, capacity)
    if best is None:
        return ("no change of the plan on these chips saves memory; more chips or chips with more memory are needed",)
    need = f"{best.device_byte / GIB:.2f} GiB"
    if best.device_byte <= capacity:
        return (f"no single change is enough; would fit with {best.words} ({need})",)
    return (f"no plan was found that fits on these chips; nearest: {best.words} ({need}); more chips or chips with more memory are needed",)


def descend(scenario: Scenario, capacity: float) -> Change | None:
    """The end of at most ``MAX_CHANGES`` changes, each the one that saves most memory; None when none saves any."""
    best: Change | None = None
    taken: dict[str, str] = {}
    need = device_byte(scenario, scenario.strategy)
    for _ in range(MAX_CHANGES):
        options = changes(scenario, best.strategy if best else scenario.strategy)
        step = min(options, key=lambda change: change.device_byte, default=None)
        if step is None or step.device_byte >= need:
            break
        taken.update(_flags(step.words))
        need = step.device_byte
        best = Change(words=" ".join(f"{flag} {value}" for flag, value in taken.items()), strategy=step.strategy, device_byte=need)
        if need <= capacity:
            break
    return best


def _flags(words: str) -> Iterator[tuple[str, str]]:
    """Flag and value of every option; ``--set`` keeps its path so that settings of different fields do not replace each other."""
    items = words.split()
    for flag, value in zip(items[::2], items[1::2], strict=True):
        path, equals, setting = value.partition("=")
        yield (f"{flag} {path}", f"={setting}") if equals else (flag, value)


def changes(scenario: Scenario, strategy: Strategy) -> list[Change]:
    """All single changes of ``strategy`` that break no rule."""
    return [
        Change(words=words, strategy=other, device_byte=device_byte(scenario, other))
        for words, other in levers(strategy, int(scenario.cluster.server.num_chips))
        if not rules.check(scenario.workload, other, int(scenario.cluster.num_chips))
    ]


def device_byte(scenario: Scenario, strategy: Strategy) -> float:
    """Device memory of the worst rank under ``strategy`` [bytes]."""
    program = lower(scenario.workload, strategy)
    return float(fit_memory(program, scenario.cluster.server.chip, scenario.stack).device_byte)


def levers(strategy: Strategy, server_chips: int) -> Iterator[tuple[str, Strategy]]:
    """Changes that may save memory, from the cheapest in time to the dearest, with their words on the command line.

    None changes the number of chips or the global batch; tensor parallelism stays inside a server.
    """
    tp, dp, cp = int(strategy.tp), int(strategy.dp), int(strategy.cp)
    micro, number = int(strategy.microbatch_size), int(strategy.num_microbatches)
    if tp > 1 and not strategy.sequence_parallel:
        yield "--set strategy.sequence_parallel=true", dataclasses.replace(strategy, sequence_parallel=True)
    for zero in (1, 3):
        if strategy.zero < zero and dp * cp > 1:
            yield f"--zero {zero}", dataclasses.replace(strategy, zero=zero)
    if not strategy.flash_attention:
        yield "--set strategy.flash_attention=true", dataclasses.replace(strategy, flash_attention=True)
        if strategy.recompute == "none":
            yield "--recompute selective", dataclasses.replace(strategy, recompute="selective")
    if micro > 1:
        yield "--microbatch-size 1", dataclasses.replace(strategy, microbatch_size=1, num_microbatches=number * micro)
    if strategy.recompute != "full":
        yield "--recompute full", dataclasses.replace(strategy, recompute="full")
    if dp % 2 == 0:
        half = dataclasses.replace(strategy, dp=dp // 2, num_microbatches=number * 2)
        if tp * 2 <= server_chips:
            yield f"--tp {tp * 2} --dp {dp // 2}", dataclasses.replace(half, tp=tp * 2)
        yield f"--pp {strategy.pp * 2} --dp {dp // 2}", dataclasses.replace(half, pp=strategy.pp * 2, stage_layers=())
        yield f"--cp {cp * 2} --dp {dp // 2}", dataclasses.replace(half, cp=cp * 2)
