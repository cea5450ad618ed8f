"""The program of a training step: blocks, stages made of them, collectives, and what memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.program.op import Ops, Phase
from foretrain.strategy.strategy import OffloadTier

CollectiveOp = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "dispatch", "broadcast", "send_recv"]
Axis = Literal["tp", "cp", "ep", "dp", "pp"]


@record
class Group:
    """``size`` ranks of one axis (the mesh's, or ``ep`` across them), ``stride`` apart in rank order (1 = neighbouring chips)."""

    axis: Axis
    size: Num
    stride: Num


@record
class Draw:
    """Where the tokens of a ``dispatch`` go: each to ``drawn`` of ``total`` things spread evenly over the group's ranks, all of them in
    ``groups_drawn`` of ``groups`` equal groups of neighbours."""

    total: int = 1
    drawn: int = 1
    groups: int = 1
    groups_drawn: int = 1


ANYWHERE = Draw()
"""One of one thing: what is not a dispatch goes to one place."""


@record
class Collective:
    """``count`` calls of ``op`` over ``group``, each on ``payload_byte``.

    ``payload_byte`` follows nccl-tests: bytes per rank for all_reduce, broadcast and send_recv, the gathered total for all_gather,
    the input for reduce_scatter, bytes sent by one rank for all_to_all. A ``dispatch`` takes every part of the payload to the places of its
    ``draw``, over any link once only. ``hidden_under`` names the compute it may run beside:
    ``none`` (always exposed), ``matmul``, ``attention``, ``phase`` (all compute of its phase and block).
    """

    name: str
    op: CollectiveOp
    group: Group
    payload_byte: Num
    count: Num
    phase: Phase
    hidden_under: Literal["none", "matmul", "attention", "phase"]
    draw: Draw = ANYWHERE


@record
class OffloadTransfer:
    """Bytes that the ``phase`` of a block moves from (``read_byte``) and to (``write_byte``) the offload tier, per rank and microbatch."""

    phase: Phase
    read_byte: Num
    write_byte: Num


@record
class Block:
    """A repeated piece of the network (one layer, the embedding, the head) for one microbatch on one rank.

    ``offload``: what its passes move between chip and offload tier while they compute.
    """

    name: str
    ops: Ops
    collectives: tuple[Collective, ...]
    offload: tuple[OffloadTransfer, ...] = ()


@record
class StageKind:
    """``count`` pipeline stages, the first of them at index ``first``, each running every block ``repeats`` times.

    ``params`` are parameters held by one rank before any ZeRO sharding; ``memory_byte`` what the rank holds at the peak, by cause
    (``program.memory``).
    """

    name: str
    first: int
    count: int
    repeats: tuple[tuple[int, int], ...]
    params: Num
    memory_byte: Mapping[str, Num]


@record
class Program:
    """The work of one optimizer step.

    ``once`` are ops done once per step and rank (optimizer, gradient norm), ``step_collectives`` collectives done once per step
    (gradients, parameters, tied embeddings). ``transfers`` are the collectives of one pipeline transfer between neighbouring stages,
    for one microbatch and model chunk. ``useful_tokens_per_step`` leaves out padding. ``model_flop``: model FLOP of the whole step, over
    all ranks, in the recipe's convention; ``recompute_flop``: FLOP that are executed again, same convention. Offload, per rank and
    step: ``offload_host_byte`` moved in host memory by the optimizer there and ``offload_host_flop`` its arithmetic, ``offload_link_byte``
    between chip and host for it, ``offload_read_byte`` and ``offload_write_byte`` of states and weights between ``offload_tier`` and where
    they are updated, ``offload_hidden_byte`` streamed by the blocks, which may hide under compute. ``tier_byte``:
    what a rank keeps in each tier. ``input_byte`` is read from the file system per step by all ranks together.
    """

    blocks: tuple[Block, ...]
    stages: tuple[StageKind, ...]
    once: Ops
    step_collectives: tuple[Collective, ...]
    transfers: tuple[Collective, ...]
    num_microbatches: Num
    pp: int
    vpp: int
    overlap_p2p: bool
    graph_capture: bool
    world_size: Num
    tokens_per_step: Num
    useful_tokens_per_step: Num
    num_parameters: Num
    num_active_parameters: Num
    model_flop: Num
    recompute_flop: Num
    offload_host_byte: Num
    offload_link_byte: Num
    offload_hidden_byte: Num
    checkpoint_byte: Num
    num_communicators: Num
    peak_moment: str
    math_dtype: str
    flop_convention: str
    offload_tier: OffloadTier = "host"
    offload_host_flop: Num = 0.0
    offload_read_byte: Num = 0.0
    offload_write_byte: Num = 0.0
    tier_byte: Mapping[OffloadTier, Num] = field(default_factory=dict)
    input_byte: Num = 0.0
