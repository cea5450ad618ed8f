"""From the seconds of a step to the phases of a job."""

from __future__ import annotations

from foretrain.core.numeric import Num, floor_div, maximum, minimum
from foretrain.run.goodput import checkpoint_times, input_stall, interrupt
from foretrain.run.phases import Busy, Phase, Purpose, Run
from foretrain.step.step import Step
from foretrain.system.cluster import Cluster
from foretrain.timeline.steptime import StepTime


def num_steps(tokens: Num, tokens_per_step: Num) -> Num:
    """Optimizer steps of a run of ``tokens``: ``floor(tokens / tokens_per_step)``, at least one; both are whole numbers.

    Trainers drop the last, incomplete batch (Megatron-LM divides samples by the global batch in whole numbers), so the step
    that would go beyond the budget is not made.

    >>> num_steps(100e9, 512.0 * 2048.0), num_steps(1000.0, 4096.0)
    (95367.0, 1.0)
    """
    return maximum(floor_div(tokens, tokens_per_step), 1.0)


def step_busy(time: StepTime) -> Busy:
    """Shares of a step during which matrix units, memory and links work: ``busy seconds / step_s``, at most 1.

    Transfers that run beside each other on different links can add up to more than the step: then the links are busy all of it.
    """
    return Busy(
        matrix=minimum(time.matrix_s / time.step_s, 1.0),
        memory=minimum(time.memory_s / time.step_s, 1.0),
        links=minimum(time.link_s / time.step_s, 1.0),
    )


def simulate_run(step: Step, num_steps: Num, checkpoint_byte: Num, cluster: Cluster, input_byte: Num = 0.0) -> Run:
    """A job of ``num_steps`` steps on all chips of ``cluster``, saving ``checkpoint_byte`` bytes per checkpoint.

    Every step reads ``input_byte`` bytes of data (``run.goodput.input_stall``). Useful work is ``num_steps (step_s (1 +
    evaluation_fraction) + input stall + step_overhead_s)``; checkpoints, lost work and restarts come on top
    (``run.goodput.interrupt``), with ``num_chips x failure_per_chip_s`` failures per second, each of which stops all chips (Poisson,
    independent). A restart reads the checkpoint back. Evaluation and repeated work keep the chips as busy as steps do; in all other
    phases they wait. ``goodput = num_steps x step_s / wall_s``.
    """
    reliability = cluster.reliability
    steps_s = num_steps * step.time.step_s
    input_s = num_steps * input_stall(input_byte, step.time.step_s, cluster)
    overhead_s = num_steps * reliability.step_overhead_s
    evaluation_s = reliability.evaluation_fraction * steps_s
    write_s, read_s = checkpoint_times(checkpoint_byte, cluster)
    stops = interrupt(
        steps_s + input_s + overhead_s + evaluation_s,
        write_s,
        reliability.restart_s + read_s,
        cluster.num_chips * reliability.failure_per_chip_s,
    )
    busy, waiting = step_busy(step.time), Busy()

    def phase(purpose: Purpose, duration_s: Num, busy: Busy) -> Phase:
        return Phase(purpose=purpose, duration_s=duration_s, num_chips=cluster.num_chips, busy=busy)

    wall_s = steps_s + input_s + overhead_s + evaluation_s + stops.checkpoint_s + stops.lost_s + stops.restart_s
    return Run(
        num_chips=cluster.num_chips,
        num_steps=num_steps,
        phases=(
            phase("steps", steps_s, busy),
            phase("input", input_s, waiting),
            phase("overhead", overhead_s, waiting),
            phase("evaluation", evaluation_s, busy),
            phase("checkpoint", stops.checkpoint_s, waiting),
            phase("lost", stops.lost_s, busy),
            phase("restart", stops.restart_s, waiting),
        ),
        wall_s=wall_s,
        goodput=steps_s / wall_s,
        checkpoint_interval_s=stops.interval_s,
        num_failures=stops.num_failures,
    )
