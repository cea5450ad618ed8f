"""Seconds of ops on one chip."""

from __future__ import annotations

from foretrain.core.numeric import Num
from foretrain.core.record import record


@record
class OpTime:
    """Seconds per op, in the order of the op tables; shapes (ops,) or (ops, candidates).

    ``*_s`` are durations on the device without host limits; ``matmul_ideal_s`` and ``attention_ideal_s`` the same FLOP at
    the sustained matrix rate (how long the matrix units really work); ``*_memory_s`` the bytes at the sustained bandwidth;
    ``matmul_kernels`` etc. the number of kernels the host has to launch per op.
    """

    matmul_s: Num
    matmul_ideal_s: Num
    matmul_memory_s: Num
    attention_s: Num
    attention_ideal_s: Num
    attention_memory_s: Num
    attention_kernels: Num
    stream_s: Num
    stream_memory_s: Num
