"""The closed forms against a schedule that is played out event by event."""

from __future__ import annotations

from itertools import product

import pytest

from foretrain.program.lower import lower
from foretrain.program.program import Program
from foretrain.schedule.closedform import ClosedForm
from foretrain.schedule.overlap import PhaseTime
from foretrain.schedule.protocol import Times
from foretrain.strategy.strategy import Strategy
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe, Workload

Pass = tuple[str, int, int]
"""Forward or backward, model chunk, microbatch."""

FORWARD_S, BACKWARD_S = 1.0, 2.0


def order_1f1b(stage: int, p: int, m: int) -> list[Pass]:
    """Warm up, alternate, drain."""
    warm = min(p - stage - 1, m)
    passes: list[Pass] = [("F", 0, i) for i in range(warm)]
    for i in range(m - warm):
        passes += [("F", 0, warm + i), ("B", 0, i)]
    return passes + [("B", 0, i) for i in range(m - warm, m)]


def order_gpipe(stage: int, p: int, m: int) -> list[Pass]:
    return [("F", 0, i) for i in range(m)] + [("B", 0, i) for i in range(m)]


def order_interleaved(stage: int, p: int, m: int, v: int) -> list[Pass]:
    """Megatron-LM's order: microbatches in groups of p, chunk by chunk within a group."""
    steps = [(chunk, group * p + i) for group in range(m // p) for chunk in range(v) for i in range(p)]
    forward: list[Pass] = [("F", chunk, i) for chunk, i in steps]
    backward: list[Pass] = [("B", v - 1 - chunk, i) for chunk, i in steps]
    warm = min((p - stage - 1) * 2 + (v - 1) * p, len(forward))
    passes = forward[:warm]
    for ahead, behind in zip(forward[warm:], backward, strict=False):
        passes += [ahead, behind]
    return passes + backward[len(forward) - warm :]


def play(orders: list[list[Pass]], layers: list[float], v: int) -> float:
    """Makespan when every stage runs its passes in order, each as soon as its input is there."""
    p = len(orders)
    done: dict[tuple[int, Pass], float] = {}
    clock, position = [0.0] * p, [0] * p

    def needs(stage: int, work: Pass) -> list[tuple[int, Pass]]:
        kind, chunk, i = work
        place = chunk * p + stage
        if kind == "F":
            return [] if place == 0 else [((place - 1) % p, ("F", (place - 1) // p, i))]
        after = [] if place == p * v - 1 else [((place + 1) % p, ("B", (place + 1) // p, i))]
        return [(stage, ("F", chunk, i)), *after]

    while any(position[s] < len(orders[s]) for s in range(p)):
        moved = False
        for s in range(p):
            while position[s] < len(orders[s]) and all(n in done for n in needs(s, orders[s][position[s]])):
                work = orders[s][position[s]]
                start = max([clock[s], *(done[n] for n in needs(s, work))])
                clock[s] = start + (FORWARD_S if work[0] == "F" else BACKWARD_S) * layers[s] / v
                done[s, work] = clock[s]
                position[s] += 1
                moved = True
        assert moved, "the order deadlocks"
    return max(clock)


def phase(seconds: float) -> PhaseTime:
    zero = {"matmul_s": seconds, "attention_s": 0.0, "memory_bound_s": 0.0, "host_s": 0.0, "matrix_s": 0.0, "memory_s": 0.0}
    return PhaseTime(exposed_s={}, hidden_s={}, **zero)  # type: ignore[arg-type]


def closed(program: Program) -> float:
    """The closed form with one second a layer forward and two backward, and everything else free."""
    layer = (phase(FORWARD_S), phase(0.0), phase(BACKWARD_S))
    nothing = (phase(0.0),) * 3
    times = Times(
        blocks=(layer, nothing, nothing), transfer_s=0.0, once_s=0.0, once_memory_s=0.0, gather_s=0.0, reduce_s=0.0, bare_s=0.0,
        host_optimizer_s=0.0, offload_s=0.0,
    )  # fmt: skip
    return float(ClosedForm().step_time(program, times).step_s)


def program_of(num_layers: int, strategy: Strategy) -> Program:
    model = Model(name="m", num_layers=num_layers, hidden_size=64, num_heads=4, num_kv_heads=4, head_dim=16, ffn_size=256, vocab_size=128)
    return lower(Workload(model=model, recipe=Recipe(seq_len=64, global_batch_size=1, tokens=1)), strategy)


@pytest.mark.parametrize(("p", "m"), [(1, 1), (2, 2), (4, 4), (4, 9), (8, 32), (8, 3)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_equal_stages_are_exact(p: int, m: int, schedule: str) -> None:
    order = order_gpipe if schedule == "gpipe" else order_1f1b
    strategy = Strategy(pp=p, num_microbatches=m, schedule=schedule)  # type: ignore[arg-type]
    played = play([order(s, p, m) for s in range(p)], [2.0] * p, 1)
    assert closed(program_of(2 * p, strategy)) == pytest.approx(played, rel=1e-12)


@pytest.mark.parametrize(("p", "v", "m"), [(p, v, k * p) for p, v, k in product((2, 4, 8), (2, 3), (1, 2, 4))])
def test_equal_interleaved_stages_are_exact(p: int, v: int, m: int) -> None:
    strategy = Strategy(pp=p, vpp=v, num_microbatches=m, schedule="interleaved")
    played = play([order_interleaved(s, p, m, v) for s in range(p)], [float(v)] * p, v)
    assert closed(program_of(v * p, strategy)) == pytest.approx(played, rel=1e-12)


@pytest.mark.parametrize("split", [(7, 8, 8, 7), (1, 2, 2, 3), (3, 4, 4, 4)])
def test_unequal_stages_are_close_and_never_too_fast(split: tuple[int, ...]) -> None:
    m = 16
    strategy = Strategy(pp=4, num_microbatches=m, stage_layers=split)
    played = play([order_1f1b(s, 4, m) for s in range(4)], [float(n) for n in split], 1)
    form = closed(program_of(sum(split), strategy))
    assert played * (1 - 1e-9) <= form <= played * 1.05


def test_a_stage_with_nothing_else_to_do_is_one_with_the_sum() -> None:
    one = closed(program_of(6, Strategy(pp=1, num_microbatches=5)))
    assert one == 5 * 6 * (FORWARD_S + BACKWARD_S)
