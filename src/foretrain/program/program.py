"""The program of a training step: blocks, stages made of them, collectives, and what memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.program.op import Ops, Phase

CollectiveOp = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "dispatch", "broadcast", "send_recv"]
Axis = Literal["tp", "cp", "ep", "dp", "pp"]


@record
class Group:
    """``size`` ranks of one axis (the mesh's, or ``ep`` across them), ``stride`` apart in rank order (1 = neighbouring chips)."""

    axis: Axis
    size: Num
    stride: Num


@record
class Collective:
    """``count`` calls of ``op`` over ``group``, each on ``payload_byte``.

    ``payload_byte`` follows nccl-tests: bytes per rank for all_reduce, broadcast and send_recv, the gathered total for all_gather,
    the input for reduce_scatter, bytes sent by one rank for all_to_all. A ``dispatch`` takes every part of the payload to ``copies`` ranks
    drawn evenly from the share ``reach`` of the group, over any link once only. ``hidden_under`` names the compute it may run beside:
    ``none`` (always exposed), ``matmul``, ``attention``, ``phase`` (all compute of its phase and block).
    """

    name: str
    op: CollectiveOp
    group: Group
    payload_byte: Num
    count: Num
    phase: Phase
    hidden_under: Literal["none", "matmul", "attention", "phase"]
    copies: Num = 1.0
    reach: Num = 1.0


@record
class Block:
    """A repeated piece of the network (one layer, the embedding, the head) for one microbatch on one rank."""

    name: str
    ops: Ops
    collectives: tuple[Collective, ...]


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
    step: ``offload_host_byte`` moved in host memory by the optimizer there, ``offload_link_byte`` between chip and host for it,
    ``offload_hidden_byte`` for activations, which may hide under compute.
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
