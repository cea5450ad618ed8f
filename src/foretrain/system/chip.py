"""The chip: data-sheet numbers and the few measured constants of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity

Fraction = Annotated[Num, Quantity(gt=0, le=1)]
Second = Annotated[Num, Quantity("s", ge=0)]


@record
class Tile:
    """An output tile of a matrix kernel: ``m`` x ``n`` elements, run at ``efficiency`` of the best tile's rate."""

    m: Annotated[Num, Quantity(integer=True, ge=8)]
    n: Annotated[Num, Quantity(integer=True, ge=8)]
    efficiency: Fraction


@record
class AttentionKernel:
    """A fused attention kernel: fractions of the dense 16-bit peak at head_dim 128 and long sequences.

    A thread block works on ``q_tile`` rows of scores. Its start and its end, when the matrix units wait for the first operands and for
    the last output, cost it as much as ``ramp_len`` columns. ``softmax_head_dim``: the
    head_dim at which the exponentials of a score would take as long as its products.
    """

    forward_efficiency: Fraction
    backward_efficiency: Fraction
    q_tile: Annotated[Num, Quantity(integer=True, ge=16)] = 128
    ramp_len: Annotated[Num, Quantity(ge=0)] = 170.0
    softmax_head_dim: Annotated[Num, Quantity(ge=0)] = 20.0


@record
class Kernels:
    """Measured behaviour of a chip's kernels. ``measured_on`` names the chip they were measured on: chips of one family share them.

    ``matmul_efficiency``: sustained share of the dense peak in the main loop of large GEMMs, by data type (includes
    the clock a chip holds under its power limit). ``stream_efficiency``: share of the memory bandwidth
    that elementwise and reduction kernels reach. ``kernel_s``: time from a kernel's start to its first and from its last useful
    work. ``wave_s``: first loads and last stores of one wave of the first tile listed, which is the largest; a smaller one takes
    less in proportion to its area.
    """

    measured_on: str
    matmul_efficiency: Mapping[str, Fraction]
    stream_efficiency: Fraction
    kernel_s: Second
    wave_s: Second
    tiles: tuple[Tile, ...]
    attention: Mapping[str, AttentionKernel]


@record
class Chip:
    """One accelerator. All peaks are dense: no structured sparsity."""

    name: str
    dense_flop_per_s: Mapping[str, Annotated[Num, Quantity("FLOP/s", gt=0)]]
    vector_flop_per_s: Annotated[Num, Quantity("FLOP/s", gt=0)]
    num_sm: Annotated[Num, Quantity(integer=True, ge=1)]
    hbm_byte: Annotated[Num, Quantity("B", gt=0)]
    hbm_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    l2_byte: Annotated[Num, Quantity("B", gt=0)]
    tdp_w: Annotated[Num, Quantity("W", gt=0)]
    idle_w: Annotated[Num, Quantity("W", gt=0)]
    reserved_byte: Annotated[Num, Quantity("B", ge=0)]
    kernels: Kernels
