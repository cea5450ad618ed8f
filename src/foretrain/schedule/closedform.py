"""Closed forms of the gpipe, 1f1b and interleaved schedules."""

from __future__ import annotations

from foretrain.core.numeric import Num, first_largest, maximum
from foretrain.core.record import record
from foretrain.program.program import Program, StageKind
from foretrain.schedule.overlap import AXES, PhaseTime
from foretrain.schedule.protocol import Times
from foretrain.timeline.steptime import StepTime

FORWARD, RECOMPUTE, BACKWARD = 0, 1, 2


@record
class _StageTime:
    """Seconds of one microbatch on one stage: whole, forward and backward (with recomputation), and the parts of the whole."""

    total_s: Num
    forward_s: Num
    backward_s: Num
    parts_s: dict[str, Num]
    hidden_s: dict[str, Num]
    matrix_s: Num
    memory_s: Num
    link_s: Num


@record
class ClosedForm:
    """``T = m t_max + (sum_i t_i - t_max) / v + transfers + once per step``.

    With m microbatches, stage times t_i (forward and backward of one microbatch, all v chunks) and p stages. For equal stages this is
    ``(m + (p - 1) / v) t``: the bubble of GPipe and 1F1B ``(p - 1) / m`` (Narayanan et al., arXiv 2104.04473, section 2.2.1) and of the
    interleaved schedule ``(p - 1) / (v m)`` (section 2.2.2). Exact for equal stages without contention; for unequal ones the slowest
    stage sets the pace and every other stage is crossed once to fill and drain the pipeline.
    """

    def step_time(self, program: Program, times: Times) -> StepTime:
        """The step of ``program``; all stage kinds are looped over, the slowest gives the parts."""
        stages = [_stage_time(kind, times) for kind in program.stages]
        counts = [kind.count for kind in program.stages]
        slowest = stages[0].total_s
        for stage in stages[1:]:
            slowest = maximum(slowest, stage.total_s)
        crossing = sum(count * stage.total_s for count, stage in zip(counts, stages, strict=True)) - slowest
        m, v = program.num_microbatches, program.vpp
        fill_s = 2 * (program.pp - 1) * times.transfer_s
        sends_s = 2 * v * m * times.transfer_s * min(program.pp - 1, 1)
        bubble_s = crossing / v + fill_s

        weights = first_largest([stage.total_s for stage in stages])
        parts = {name: m * value for name, value in _weighted(weights, [stage.parts_s for stage in stages]).items()}
        hidden = {name: m * value for name, value in _weighted(weights, [stage.hidden_s for stage in stages]).items()}
        cover = _weighted(weights, [{"forward": stage.forward_s, "backward": stage.backward_s} for stage in stages])
        late_s = maximum(times.gather_s - cover["forward"], 0.0) + maximum(times.reduce_s - cover["backward"], 0.0) + times.bare_s
        exposed_sends_s = sends_s * (0.0 if program.overlap_p2p else 1.0)
        parts = {
            **parts,
            "dp_exposed": parts["dp_exposed"] + late_s,
            "pp_exposed": exposed_sends_s,
            "bubble": bubble_s,
            "optimizer": times.once_s,
            "host_optimizer": times.host_optimizer_s,
            "offload": parts["offload"] + times.offload_s,
        }
        hidden["dp"] = hidden["dp"] + times.gather_s + times.reduce_s + times.bare_s - late_s
        hidden["pp"] = sends_s - exposed_sends_s
        step_s = sum(parts.values())
        per_chip = m / program.pp
        mean = {
            name: per_chip * sum(count * getattr(stage, name) for count, stage in zip(counts, stages, strict=True))
            for name in ("matrix_s", "memory_s", "link_s")
        }
        return StepTime(
            step_s=step_s,
            parts_s=parts,
            hidden_s=hidden,
            matrix_s=mean["matrix_s"],
            memory_s=mean["memory_s"] + times.once_memory_s,
            link_s=mean["link_s"] + sends_s + times.gather_s + times.reduce_s + times.bare_s,
            bubble_fraction=bubble_s / (m * slowest),
        )


def _weighted(weights: list[Num], rows: list[dict[str, Num]]) -> dict[str, Num]:
    """Sum of the rows' parts times their weights."""
    return {name: sum(weight * row[name] for weight, row in zip(weights, rows, strict=True)) for name in rows[0]}


def _stage_time(kind: StageKind, times: Times) -> _StageTime:
    """All blocks of a stage, each repeated as often as the stage has it."""
    passes = [(repeat, times.blocks[index]) for index, repeat in kind.repeats]

    def over(which: tuple[int, ...], value: str) -> Num:
        seconds: Num = sum(repeat * getattr(block[phase], value) for repeat, block in passes for phase in which)
        return seconds

    everything = (FORWARD, RECOMPUTE, BACKWARD)
    compute = (FORWARD, BACKWARD)

    def by_axis(table: str) -> dict[str, Num]:
        return {axis: sum(repeat * _get(block[phase], table, axis) for repeat, block in passes for phase in everything) for axis in AXES}

    exposed, hidden = by_axis("exposed_s"), by_axis("hidden_s")
    return _StageTime(
        total_s=over(everything, "total_s"),
        forward_s=over((FORWARD,), "total_s"),
        backward_s=over((RECOMPUTE, BACKWARD), "total_s"),
        parts_s={
            "matmul": over(compute, "matmul_s"),
            "attention": over(compute, "attention_s"),
            "memory_bound": over(compute, "memory_bound_s"),
            "recompute": over((RECOMPUTE,), "compute_s"),
            "host": over(everything, "host_s"),
            "offload": over(everything, "offload_s"),
            **{f"{axis}_exposed": exposed[axis] for axis in AXES},
        },
        hidden_s={**hidden, "offload": over(everything, "offload_hidden_s")},
        matrix_s=over(everything, "matrix_s"),
        memory_s=over(everything, "memory_s"),
        link_s=sum(exposed.values()) + sum(hidden.values()),
    )


def _get(phase: PhaseTime, table: str, axis: str) -> Num:
    value: Num = getattr(phase, table).get(axis, 0.0)
    return value
