"""The step as a reader asks for it: seconds, memory, utilisation."""

from __future__ import annotations

import numpy as np

from foretrain.compute.protocol import ComputeModel
from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.network.protocol import CollectiveModel
from foretrain.program.program import Collective, Program
from foretrain.schedule.overlap import block_time
from foretrain.schedule.protocol import ScheduleModel, Times
from foretrain.step.fits import fit_memory
from foretrain.step.memory import Memory
from foretrain.system.chip import Chip
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.server import Server
from foretrain.system.stack import Stack
from foretrain.timeline.steptime import StepTime


@record
class Step:
    """``mfu``: model FLOP over dense peak; ``hfu``: model and repeated FLOP over dense peak, both in the program's convention.

    ``useful_token_per_s`` leaves out the padding of packed sequences. ``peak_flop_per_s``: the dense peak of one chip for the program's
    math type.
    """

    time: StepTime
    memory: Memory
    mfu: Num
    hfu: Num
    token_per_s: Num
    token_per_s_per_chip: Num
    useful_token_per_s: Num
    model_flop_per_s_per_chip: Num
    peak_flop_per_s: Num


def simulate_step(
    program: Program, cluster: Cluster, stack: Stack, compute: ComputeModel, collective: CollectiveModel, schedule: ScheduleModel
) -> Step:
    """One optimizer step of ``program`` on ``cluster``."""
    chip, fabric = cluster.server.chip, cluster.fabric
    times = time_program(program, cluster.server, fabric, stack, compute, collective)
    return measure_step(program, schedule.step_time(program, times), fit_memory(program, chip, stack), chip)


def time_program(
    program: Program, server: Server, fabric: Fabric, stack: Stack, compute: ComputeModel, collective: CollectiveModel
) -> Times:
    """Seconds of all blocks, transfers and once-per-step work of ``program``."""
    chip = server.chip
    launches = 0.0 if program.graph_capture else 1.0

    def seconds(calls: tuple[Collective, ...]) -> Num:
        return sum(call.count * collective.time(call.op, call.group, call.payload_byte, fabric, call.copies, call.reach) for call in calls)

    def waiting(phase: str) -> Num:
        return seconds(tuple(call for call in program.step_collectives if call.hidden_under != "none" and call.phase == phase))

    once = compute.time(program.once, chip)
    return Times(
        blocks=tuple(block_time(block, compute, collective, chip, fabric, stack, launches) for block in program.blocks),
        transfer_s=seconds(program.transfers),
        once_s=np.sum(once.stream_s, axis=0) + len(program.once.streams.name) * stack.host_kernel_s,
        once_memory_s=np.sum(once.stream_memory_s, axis=0),
        gather_s=waiting("forward"),
        reduce_s=waiting("backward"),
        bare_s=seconds(tuple(call for call in program.step_collectives if call.hidden_under == "none")),
        offload_s=program.offload_host_byte / server.host_memory_byte_per_s + program.offload_link_byte / server.host_link_byte_per_s,
        offload_hidden_s=program.offload_hidden_byte / server.host_link_byte_per_s,
    )


def measure_step(program: Program, time: StepTime, memory: Memory, chip: Chip) -> Step:
    """Throughput and utilisation of a timed step (MFU: Chowdhery et al., arXiv 2204.02311, appendix B).

    ``mfu = model FLOP / (step_s x chips x dense peak)``; ``hfu`` adds the FLOP executed again.
    """
    peak = chip.dense_flop_per_s[program.math_dtype]
    chip_s = time.step_s * program.world_size
    token_per_s = program.tokens_per_step / time.step_s
    return Step(
        time=time,
        memory=memory,
        mfu=program.model_flop / (chip_s * peak),
        hfu=(program.model_flop + program.recompute_flop) / (chip_s * peak),
        token_per_s=token_per_s,
        token_per_s_per_chip=token_per_s / program.world_size,
        useful_token_per_s=program.useful_tokens_per_step / time.step_s,
        model_flop_per_s_per_chip=program.model_flop / chip_s,
        peak_flop_per_s=peak,
    )
