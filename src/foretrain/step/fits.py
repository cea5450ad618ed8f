"""Does the plan fit in device memory?"""

from __future__ import annotations

import dataclasses

from foretrain.core.constants import GIB
from foretrain.core.numeric import Num, first_largest, maximum, minimum
from foretrain.core.verdict import Status, Verdict
from foretrain.program.program import Program
from foretrain.step.memory import Memory
from foretrain.system.chip import Chip
from foretrain.system.server import Server, tier
from foretrain.system.stack import Stack

MARGINAL_SHARE = 0.05
"""A plan is called marginal when less than this share of the capacity is left (assumption, range 0.02 to 0.10: the error of memory
predictions that users accept)."""


def fit_memory(program: Program, chip: Chip, stack: Stack) -> Memory:
    """Memory of the worst rank: allocated, reserved by the allocator, and on the device.

    ``reserved = allocated x (1 + fragmentation)``; ``device = reserved + context + communicators x communicator_byte``. Capacity is the
    chip's memory less what the driver keeps.
    """
    peaks: list[Num] = [sum(stage.memory_byte.values()) for stage in program.stages]
    weights = first_largest(peaks)
    worst: Num = 0.0
    index: Num = 0.0
    parts: dict[str, Num] = dict.fromkeys(program.stages[0].memory_byte, 0.0)
    for stage, peak, weight in zip(program.stages, peaks, weights, strict=True):
        worst = worst + weight * peak
        index = index + weight * stage.first
        parts = {name: value + weight * stage.memory_byte[name] for name, value in parts.items()}
    reserved = worst * (1.0 + stack.fragmentation)
    communicators = program.num_communicators * stack.communicator_byte
    return Memory(
        peak_byte=worst,
        reserved_byte=reserved,
        device_byte=reserved + stack.context_byte + communicators,
        context_byte=stack.context_byte,
        communicator_byte=communicators,
        capacity_byte=chip.hbm_byte - chip.reserved_byte,
        worst_stage=index,
        peak_moment=program.peak_moment,
        parts_byte=parts,
        stages={stage.name: peak for stage, peak in zip(program.stages, peaks, strict=True)},
        stage_params={stage.name: stage.params for stage in program.stages},
    )


def with_tiers(memory: Memory, program: Program, server: Server) -> Memory:
    """``memory`` with what the ranks of one server keep in its host memory and further tiers, and what these hold.

    ``per rank x chips of the server in use``, every rank taken as the one with most parameters: exact for equal stages, else from above.
    The tiers are those of the program: host memory, and the offload tier where it is another one.
    """
    ranks = minimum(server.num_chips, program.world_size)
    return dataclasses.replace(
        memory,
        tier_byte={name: ranks * byte for name, byte in program.tier_byte.items()},
        tier_capacity_byte={name: tier(server, name).capacity_byte for name in program.tier_byte},
    )


def fullness(memory: Memory) -> Num:
    """Need over capacity of the fullest memory, device or tier; above 1 the plan does not fit."""
    share = memory.device_byte / memory.capacity_byte
    for name, byte in memory.tier_byte.items():
        share = maximum(share, byte / memory.tier_capacity_byte[name])
    return share


def verdict(memory: Memory) -> Verdict:
    """The verdict on a single plan (plain numbers): ``oom`` above a capacity, ``marginal`` within ``MARGINAL_SHARE`` below it.

    The first reason names stage, need and capacity on the device, and the largest cause; further ones name each tier of memory
    that does not hold what is offloaded to it.
    """
    need, capacity = memory.device_byte, memory.capacity_byte
    status: Status = "oom" if need > capacity else "marginal" if need > capacity * (1 - MARGINAL_SHARE) else "fits"
    cause = max(memory.parts_byte, key=lambda name: float(memory.parts_byte[name]))
    on_device = (
        f"stage {int(memory.worst_stage)} needs {need / GIB:.2f} GiB of {capacity / GIB:.2f} GiB on the device; "
        f"largest part: {cause} {memory.parts_byte[cause] / GIB:.2f} GiB"
    )
    full = [name for name, byte in memory.tier_byte.items() if byte > memory.tier_capacity_byte[name]]
    beyond = [
        f"{name} memory of a server needs {memory.tier_byte[name] / GIB:.2f} GiB of {memory.tier_capacity_byte[name] / GIB:.2f} GiB"
        for name in full
    ]
    return Verdict(status="oom" if full else status, reasons=(on_device, *beyond))
