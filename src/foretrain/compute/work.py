"""What the compute models share: FLOP of the ops, rates of the chip, and the seconds that FLOP and bytes alone would take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from foretrain.core.numeric import Array, Num, maximum, minimum, stack
from foretrain.program.op import Attentions, Matmuls, Phase, Streams
from foretrain.system.chip import AttentionKernel, Chip

ATTENTION_DTYPES = ("bf16", "fp16")
"""Fused attention kernels multiply in 16 bits whatever the layers around them do; a chip runs them in the first type that it has."""
NO_KERNEL = AttentionKernel(forward_efficiency=1.0, backward_efficiency=1.0)
"""Stands for the kernel where no op asks for one: chips without fused attention list none."""


@lru_cache(maxsize=4096)
def is_backward(phases: tuple[Phase, ...]) -> Array:
    """1.0 for ops of the backward pass, 0.0 for forward and recomputed ones; shape (ops,).

    >>> is_backward(("forward", "backward"))
    array([0., 1.])
    """
    return np.array([float(phase == "backward") for phase in phases])


def along(column: Array, other: Num) -> Array:
    """``column`` of shape (ops,) shaped so that it broadcasts against ``other``, (ops,) or (ops, candidates).

    >>> along(np.ones(3), np.ones((3, 5))).shape
    (3, 1)
    """
    return column[:, np.newaxis] if column.ndim < np.ndim(other) else column


def matmul_rate(matmuls: Matmuls, chip: Chip, efficiency: Mapping[str, Num]) -> Array:
    """Dense peak x efficiency of each op's own data type [FLOP/s]; only rows that say fp8 run at the fp8 rate."""
    return along(stack([chip.dense_flop_per_s[word] * efficiency[word] for word in matmuls.dtype]), matmuls.m)


def matmul_flop(matmuls: Matmuls) -> Num:
    """``2 m n k`` per product [FLOP]."""
    return 2.0 * matmuls.m * (matmuls.n * (matmuls.k * matmuls.batch))


def attention_flop_per_score(attentions: Attentions) -> Num:
    """FLOP per score: two products forward (q k', p v), five backward (q k' again, dv, dp, dq, dk), each ``2 head_dim``.

    Dao, arXiv 2307.08691, section 3.1 and the FLOP count of section 4.1 (4 forward, 2.5 times as many backward).
    """
    return along(4.0 + 6.0 * is_backward(attentions.phase), attentions.head_dim) * attentions.head_dim


def attention_flop(attentions: Attentions) -> Num:
    """FLOP of the scores that the mask lets through."""
    return attention_flop_per_score(attentions) * (attentions.q_len * (attentions.kv_len * attentions.seen) * attentions.batch)


def attention_kernels(attentions: Attentions) -> Array:
    """Kernels launched per op, shape (ops,): 1 forward; backward 3 (row sums of output x gradient, the kernel itself, conversion of dq).

    As in the released FlashAttention-2 (arXiv 2307.08691, algorithm 2 names the first two).
    """
    return 1.0 + 2.0 * is_backward(attentions.phase)


def attention_kernel(attentions: Attentions, chip: Chip) -> AttentionKernel:
    """The chip's numbers of the kernel that the ops name; without ops any will do."""
    return chip.kernels.attention[attentions.kernel] if attentions.name else NO_KERNEL


def attention_dtype(chip: Chip) -> str:
    """The data type of fused attention on this chip; on one without 16-bit peaks, which has no such kernels, the first that it lists."""
    return next((word for word in ATTENTION_DTYPES if word in chip.dense_flop_per_s), next(iter(chip.dense_flop_per_s)))


def attention_efficiency(attentions: Attentions, kernel: AttentionKernel) -> Array:
    """The kernel's share of the dense peak at head_dim 128 and long sequences, by direction."""
    backward = is_backward(attentions.phase)
    share = kernel.forward_efficiency + (kernel.backward_efficiency - kernel.forward_efficiency) * backward
    return along(np.asarray(share), attentions.q_len)


def attention_ideal_s(flop: Num, chip: Chip, duration_s: Num) -> Num:
    """How long the matrix units work: the FLOP at the rate they sustain in matrix products, but never longer than the op itself [s]."""
    word = attention_dtype(chip)
    sustained = chip.dense_flop_per_s[word] * chip.kernels.matmul_efficiency[word]
    return minimum(flop / sustained, duration_s)


def memory_s(byte: Num, chip: Chip) -> Num:
    """``byte / (bandwidth x stream_efficiency)`` [s]."""
    return byte / (chip.hbm_byte_per_s * chip.kernels.stream_efficiency)


def stream_s(streams: Streams, byte_s: Num, chip: Chip) -> Num:
    """Slower of bytes and vector FLOP, plus what each kernel costs [s].

    ``max(byte_s, flop / vector peak) + kernels x kernel_s``, the roofline of Williams et al., CACM 52 (2009), with a fixed start.
    """
    return maximum(byte_s, streams.flop / chip.vector_flop_per_s) + streams.kernels * chip.kernels.kernel_s
