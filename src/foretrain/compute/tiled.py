"""The default answer: output tiles dealt to the chip's processors in waves, and the shape of attention."""

from __future__ import annotations

from typing import final

import numpy as np

from foretrain.compute import work
from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, maximum, minimum
from foretrain.core.record import record
from foretrain.program.op import Attentions, Matmuls, Ops
from foretrain.system.chip import Chip
from foretrain.timeline.optime import OpTime

PARTIAL_BYTE = 2 * DTYPE_BYTE["fp32"]
"""A partial sum that one block leaves to another is written and read once."""
BLOCKS_LEFT = 0.5
"""Blocks that a processor still has to finish, on average, when the queue of blocks runs dry."""


@final
@record
class Tiled:
    """Matrix products by ``product_s``, fused attention by ``attention_s``, each no faster than its bytes, plus ``kernel_s`` per kernel.

    What it leaves out: dimensions that are no multiple of 8 (frameworks pad them), tensors still in the L2 cache, kernels that
    run beside one another.
    """

    def time(self, ops: Ops, chip: Chip) -> OpTime:
        """Seconds of every op, as in ``ComputeModel.time``."""
        kernels, matmuls, attentions, streams = chip.kernels, ops.matmuls, ops.attentions, ops.streams
        rate = work.matmul_rate(matmuls, chip, kernels.matmul_efficiency)
        matmul_memory_s = work.memory_s(matmuls.byte, chip)
        attention_memory_s = work.memory_s(attentions.byte, chip)
        stream_memory_s = work.memory_s(streams.byte, chip)
        launches = work.attention_kernels(attentions)
        fused_s = maximum(attention_s(attentions, chip), attention_memory_s)
        fused_s = fused_s + work.along(launches, fused_s) * kernels.kernel_s
        return OpTime(
            matmul_s=maximum(product_s(matmuls, rate, chip), matmul_memory_s) + kernels.kernel_s,
            matmul_ideal_s=work.matmul_flop(matmuls) / rate,
            matmul_memory_s=matmul_memory_s,
            attention_s=fused_s,
            attention_ideal_s=work.attention_ideal_s(work.attention_flop(attentions), chip, fused_s),
            attention_memory_s=attention_memory_s,
            attention_kernels=launches,
            stream_s=work.stream_s(streams, stream_memory_s, chip),
            stream_memory_s=stream_memory_s,
        )


def blocks(size: Num, tile: Num) -> Num:
    """``ceil(size / tile)`` for whole numbers below 2**52, where the rounded quotient never crosses a whole number.

    (``core.numeric.ceil_div`` is exact for any float, at twenty times the cost on arrays.)

    >>> float(blocks(129.0, 128.0))
    2.0
    """
    whole: Num = np.ceil(size / tile)
    return whole


def product_s(matmuls: Matmuls, rate: Num, chip: Chip) -> Num:
    """Seconds of ``batch`` products m x n x k on all processors, the best over the chip's tiles, without its bytes and its start.

    With ``tiles = ceil(m / tm) ceil(n / tn) batch`` and, ``area`` being that of the first tile,
    ``tile_s = tm tn (2 k / (processor rate x tile efficiency) + wave_s / area)``:

    - whole tiles: ``ceil(tiles / num_sm) tile_s``, the wave quantisation of NVIDIA's "Matrix Multiplication Background User's Guide";
    - split along k: ``tiles / num_sm tile_s`` plus one more start and one partial tile per processor through memory,
      the even share of Osama et al., Stream-K, arXiv 2301.03598, section 4 (split-K is its case of few tiles).

    ``rate``: sustained FLOP/s of the whole chip for each op. Never faster than ``2 m n k batch / rate``; grows with every dimension.
    """
    kernels, area = chip.kernels, chip.kernels.tiles[0].m * chip.kernels.tiles[0].n
    depth_s = 2.0 * matmuls.k / (rate / chip.num_sm)
    edge_s = kernels.wave_s / area
    partial_s = chip.num_sm * PARTIAL_BYTE / (chip.hbm_byte_per_s * kernels.stream_efficiency)
    best_s: Num = np.inf
    for tile in kernels.tiles:
        tile_s = tile.m * tile.n * (depth_s / tile.efficiency + edge_s)
        waves = blocks(matmuls.m, tile.m) * (blocks(matmuls.n, tile.n) * matmuls.batch) / chip.num_sm
        spread_s = waves * tile_s + tile.m * tile.n * (edge_s + partial_s)
        best_s = minimum(best_s, minimum(np.ceil(waves) * tile_s, spread_s))
    return best_s


def attention_s(attentions: Attentions, chip: Chip) -> Num:
    """Seconds of fused attention on all processors, without its bytes and its start.

    A block of ``q_tile`` rows passes over ``min(kv_len seen + q_tile / 2, kv_len) + ramp_len`` columns: the mask's diagonal cuts
    through tiles that are computed whole (half a tile a row on average), and the ramp is paid by every block, which is what slows
    short sequences. Each column costs ``max(d, (d + softmax_head_dim) 128 / (128 + softmax_head_dim))`` instead of ``d`` products,
    because the exponentials of a score do not shrink with ``d`` (Shah et al., arXiv 2407.08608, section 3.1); beyond 128 nothing
    is gained. The queue of ``ceil(q_len / q_tile) batch`` blocks ends with half a block per processor on average, and no
    sooner than its longest block, which at the end of the diagonal is twice the mean.

    Valid for head_dim 64 to 256 and at least one tile of queries; block scheduling as in Dao, arXiv 2307.08691, section 3.2.
    """
    kernel = work.attention_kernel(attentions, chip)
    efficiency = work.attention_efficiency(attentions, kernel)
    d, spare = attentions.head_dim, kernel.softmax_head_dim
    slowdown = maximum(1.0, (1.0 + spare / d) / (1.0 + spare / 128.0))
    column_s = work.attention_flop_per_score(attentions) * slowdown * kernel.q_tile
    column_s = column_s / (chip.dense_flop_per_s[work.attention_dtype(chip)] / chip.num_sm * efficiency)
    seen = attentions.kv_len * attentions.seen
    mean_s = (minimum(seen + kernel.q_tile / 2, attentions.kv_len) + kernel.ramp_len) * column_s
    longest_s = (minimum(2.0 * seen, attentions.kv_len) + kernel.ramp_len) * column_s
    waves = blocks(attentions.q_len, kernel.q_tile) * attentions.batch / chip.num_sm
    return maximum((waves + BLOCKS_LEFT) * mean_s, longest_s)
