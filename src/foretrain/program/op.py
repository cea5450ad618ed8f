"""Tables of operations: structs of arrays whose first axis is the op and whose further axes are candidates."""

from __future__ import annotations

from typing import Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record

Phase = Literal["forward", "recompute", "backward"]


@record
class Matmuls:
    """GEMMs: ``batch`` independent products C[m, n] = A[m, k] B[k, n], each 2 m n k FLOP.

    Shapes of ``m``, ``n``, ``k``, ``batch``, ``byte``: (ops,) or (ops, candidates). ``dtype`` names the peak used by each op;
    ``byte`` is what all products move to and from memory when each operand is touched once; ``kernels`` are launched for them.
    """

    name: tuple[str, ...]
    phase: tuple[Phase, ...]
    dtype: tuple[str, ...]
    m: Num
    n: Num
    k: Num
    batch: Num
    byte: Num
    kernels: Num


@record
class Attentions:
    """Fused attention kernels over ``batch`` (sequences x heads) independent heads.

    ``q_len`` x ``kv_len`` is the full score matrix of the rank, ``seen`` the share of it the mask lets through (1/2 for causal,
    less with a window); ``head_dim`` in elements. Forward does 4, backward 10 q_len kv_len head_dim FLOP per head (times ``seen``),
    ``kernel`` names the implementation. Shapes as in ``Matmuls``; backward includes the recomputation of the scores.
    """

    name: tuple[str, ...]
    phase: tuple[Phase, ...]
    kernel: str
    q_len: Num
    kv_len: Num
    head_dim: Num
    batch: Num
    seen: Num
    byte: Num


@record
class Streams:
    """Memory-bound kernels: ``byte`` moved to and from memory, ``flop`` on the vector units, ``kernels`` launched."""

    name: tuple[str, ...]
    phase: tuple[Phase, ...]
    byte: Num
    flop: Num
    kernels: Num


@record
class Ops:
    """All ops of a block. An empty table has no names and arrays of first axis 0."""

    matmuls: Matmuls
    attentions: Attentions
    streams: Streams
