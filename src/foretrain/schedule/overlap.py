"""Seconds of a block for one microbatch: compute by class, communication exposed or hidden, and the host as a floor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from foretrain.compute.protocol import ComputeModel
from foretrain.core.numeric import Array, Num, maximum
from foretrain.core.record import record
from foretrain.network.protocol import CollectiveModel
from foretrain.program.op import Ops, Phase
from foretrain.program.program import Block, Collective, OffloadTransfer
from foretrain.system.chip import Chip
from foretrain.system.fabric import Fabric
from foretrain.system.memory import MemoryTier, transfer_s
from foretrain.system.stack import Stack
from foretrain.timeline.optime import OpTime

PHASES: tuple[Phase, ...] = ("forward", "recompute", "backward")
AXES = ("tp", "cp", "ep", "dp")
SHORTEST_S = 1e-30
"""Seconds that stand for none where they divide: no transfer is that short."""


@record
class PhaseTime:
    """One pass (forward, recomputed forward or backward) through a block for one microbatch, in seconds.

    ``matmul_s``, ``attention_s``, ``memory_bound_s``: device time by class of kernel. ``exposed_s`` and ``hidden_s``: communication by
    axis.
    ``host_s``: how much longer the host takes to launch the kernels than the device to run them. ``matrix_s``, ``memory_s``: how long
    matrix
    units and memory are really busy. ``offload_s`` and ``offload_hidden_s``: transfers between chip and offload tier, exposed and hidden.
    """

    matmul_s: Num
    attention_s: Num
    memory_bound_s: Num
    exposed_s: Mapping[str, Num]
    hidden_s: Mapping[str, Num]
    host_s: Num
    matrix_s: Num
    memory_s: Num
    offload_s: Num = 0.0
    offload_hidden_s: Num = 0.0

    @property
    def compute_s(self) -> Num:
        """Device time of all kernels."""
        return self.matmul_s + self.attention_s + self.memory_bound_s

    @property
    def total_s(self) -> Num:
        """Wall time of the pass."""
        return self.compute_s + sum(self.exposed_s.values()) + self.host_s + self.offload_s


@lru_cache(maxsize=4096)
def _selector(phases: tuple[Phase, ...]) -> Array:
    """One row per phase with a 1 at the ops that belong to it."""
    return np.array([[1.0 if phase == wanted else 0.0 for phase in phases] for wanted in PHASES])


def phase_sums(phases: tuple[Phase, ...], values: Num) -> list[Num]:
    """Sum of ``values`` (ops first) over the ops of each phase; plain floats when there is no candidates axis.

    >>> phase_sums(("forward", "backward", "backward"), np.array([1.0, 2.0, 3.0]))
    [1.0, 0.0, 5.0]
    """
    sums = _selector(phases) @ np.asarray(values)
    return sums.tolist() if sums.ndim == 1 else list(sums)


def block_time(
    block: Block, compute: ComputeModel, collective: CollectiveModel, chip: Chip, fabric: Fabric, stack: Stack, launches: float
) -> tuple[PhaseTime, ...]:
    """Times of the three passes of a block.

    Parameters
    ----------
    launches
        1 when the host launches every kernel by itself, 0 when it replays a captured graph.

    Notes
    -----
    A pass takes as long as the slower of device and host: ``max(device, kernels x host_kernel_s + collectives x host_collective_s)``; this
    floor is what small models at wide tensor parallelism run into.
    """
    times = compute.time(block.ops, chip)
    work = _work(block.ops, times)
    result = []
    for index, phase in enumerate(PHASES):
        matmul_s, attention_s, memory_bound_s, kernels, matrix_s, memory_s = (column[index] for column in work)
        calls = [call for call in block.collectives if call.phase == phase]
        cover = {"none": 0.0, "matmul": matmul_s, "attention": attention_s, "phase": matmul_s + attention_s + memory_bound_s}
        exposed, hidden = exposure(calls, cover, collective, fabric)
        device_s = cover["phase"] + sum(exposed.values())
        launched: Num = 0.0
        for call in calls:
            launched = launched + call.count
        host_s = launches * (kernels * stack.host_kernel_s + launched * stack.host_collective_s)
        result.append(
            PhaseTime(
                matmul_s=matmul_s,
                attention_s=attention_s,
                memory_bound_s=memory_bound_s,
                exposed_s=exposed,
                hidden_s=hidden,
                host_s=maximum(host_s - device_s, 0.0),
                matrix_s=matrix_s,
                memory_s=memory_s,
            )
        )
    return tuple(result)


def with_offload(passes: tuple[PhaseTime, ...], moves: tuple[OffloadTransfer, ...], tier: MemoryTier) -> tuple[PhaseTime, ...]:
    """The ``passes`` of a block with its transfers to and from ``tier``, which run beside them, one block ahead.

    ``exposed = max(0, transfer - cover)``, the cover being the block's own pass, for the backward pass with its recomputation (Isaev et
    al., SC23, doi 10.1145/3581784.3607102, hide the tier's transfers in the same way). Exact in a run of equal blocks.
    """
    times = dict(zip(PHASES, passes, strict=True))
    cover = {"forward": times["forward"].total_s, "backward": times["recompute"].total_s + times["backward"].total_s}
    for move in moves:
        whole = transfer_s(tier, move.read_byte, move.write_byte)
        exposed = maximum(whole - cover[move.phase], 0.0)
        times[move.phase] = dataclasses.replace(times[move.phase], offload_s=exposed, offload_hidden_s=whole - exposed)
    return tuple(times[phase] for phase in PHASES)


def _work(ops: Ops, times: OpTime) -> tuple[list[Num], ...]:
    """Matmul, attention and stream seconds, kernels, matrix-busy and memory-busy seconds, each as a list over phases."""
    matmul, attention, stream = ops.matmuls.phase, ops.attentions.phase, ops.streams.phase

    def add(*columns: list[Num]) -> list[Num]:
        return [sum(values) for values in zip(*columns, strict=True)]

    return (
        phase_sums(matmul, times.matmul_s),
        phase_sums(attention, times.attention_s),
        phase_sums(stream, times.stream_s),
        add(
            phase_sums(matmul, ops.matmuls.kernels),
            phase_sums(attention, times.attention_kernels),
            phase_sums(stream, ops.streams.kernels),
        ),
        add(phase_sums(matmul, times.matmul_ideal_s), phase_sums(attention, times.attention_ideal_s)),
        add(
            phase_sums(matmul, times.matmul_memory_s),
            phase_sums(attention, times.attention_memory_s),
            phase_sums(stream, times.stream_memory_s),
        ),
    )


def exposure(
    calls: list[Collective], cover_s: Mapping[str, Num], collective: CollectiveModel, fabric: Fabric
) -> tuple[dict[str, Num], dict[str, Num]]:
    """Exposed and hidden seconds by axis.

    Calls that may hide under the same compute share it: what exceeds it is exposed, ``max(0, sum - cover)``, divided between
    the axes in proportion.
    """
    exposed: dict[str, Num] = {}
    hidden: dict[str, Num] = {}
    for under, cover in cover_s.items():
        seconds: dict[str, Num] = {}
        for call in calls:
            if call.hidden_under == under:
                time_s = call.count * collective.time(call.op, call.group, call.payload_byte, fabric, call.draw)
                seconds[call.group.axis] = seconds.get(call.group.axis, 0.0) + time_s
        whole = sum(seconds.values())
        share = maximum(whole - cover, 0.0) / maximum(whole, SHORTEST_S) if seconds else 0.0
        for axis, time_s in seconds.items():
            exposed[axis] = exposed.get(axis, 0.0) + time_s * share
            hidden[axis] = hidden.get(axis, 0.0) + time_s * (1 - share)
    return exposed, hidden
