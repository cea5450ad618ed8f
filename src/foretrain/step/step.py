"""The step as a reader asks for it: seconds, memory, utilisation."""

from __future__ import annotations

import numpy as np

from foretrain.compute.protocol import ComputeModel
from foretrain.core.numeric import Num, maximum
from foretrain.core.record import record
from foretrain.network.protocol import CollectiveModel
from foretrain.program.program import Collective, Program
from foretrain.schedule.overlap import block_time, with_offload
from foretrain.schedule.protocol import ScheduleModel, Times
from foretrain.step.fits import fit_memory, with_tiers
from foretrain.step.memory import Memory
from foretrain.system.chip import Chip
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.memory import transfer_s
from foretrain.system.server import Server, tier
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
    memory = with_tiers(fit_memory(program, chip, stack), program, cluster.server)
    return measure_step(program, schedule.step_time(program, times), memory, chip)


def time_program(
    program: Program, server: Server, fabric: Fabric, stack: Stack, compute: ComputeModel, collective: CollectiveModel
) -> Times:
    """Seconds of all blocks, transfers and once-per-step work of ``program``."""
    chip = server.chip
    launches = 0.0 if program.graph_capture else 1.0

    def seconds(calls: tuple[Collective, ...]) -> Num:
        return sum(call.count * collective.time(call.op, call.group, call.payload_byte, fabric, call.draw) for call in calls)

    def waiting(phase: str) -> Num:
        return seconds(tuple(call for call in program.step_collectives if call.hidden_under != "none" and call.phase == phase))

    once = compute.time(program.once, chip)
    launched = len(program.once.streams.name) + len(program.once.matmuls.name)
    once_s = np.sum(once.matmul_s, axis=0) + np.sum(once.stream_s, axis=0) + launched * stack.host_kernel_s
    host_s = host_optimizer_time(program, server, stack)
    far = tier(server, program.offload_tier)
    passes = ((block, block_time(block, compute, collective, chip, fabric, stack, launches)) for block in program.blocks)
    return Times(
        blocks=tuple(with_offload(times, block.offload, far) for block, times in passes),
        transfer_s=seconds(program.transfers),
        once_s=once_s,
        once_memory_s=np.sum(once.stream_memory_s, axis=0),
        gather_s=waiting("forward"),
        reduce_s=waiting("backward"),
        bare_s=seconds(tuple(call for call in program.step_collectives if call.hidden_under == "none")),
        host_optimizer_s=host_s,
        offload_s=update_transfer_time(program, server, once_s + host_s),
    )


def host_optimizer_time(program: Program, server: Server, stack: Stack) -> Num:
    """Seconds that the host's CPUs need for their share of the update: the slower of memory and arithmetic.

    ``max(bytes / (memory bandwidth per chip x host_optimizer_efficiency), flop / host_flop_per_s)``, all chips of the server at once and
    nothing of it hidden: the next forward pass needs the weights (Ren et al., arXiv 2101.06840, section 4.1). Their delayed update,
    which would hide it, changes the training and is left out.
    """
    memory_s = program.offload_host_byte / (server.host_memory_byte_per_s * stack.host_optimizer_efficiency)
    return maximum(memory_s, program.offload_host_flop / server.host_flop_per_s)


def update_transfer_time(program: Program, server: Server, update_s: Num) -> Num:
    """Seconds of transfers for the update that nothing hides.

    Gradients go to the host and weights come back, before and after its update: both wait. States of a farther tier, or of any tier when
    the chip updates them, are streamed beside the update and cost what exceeds ``update_s``, the whole update on chip and host.
    """
    link_s = program.offload_link_byte / (server.host_link_byte_per_s * server.host_link_efficiency)
    streamed_s = transfer_s(tier(server, program.offload_tier), program.offload_read_byte, program.offload_write_byte)
    return link_s + maximum(streamed_s - update_s, 0.0)


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
