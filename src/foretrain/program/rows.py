"""Collects ops one by one and stacks them into tables."""

from __future__ import annotations

import numpy as np

from foretrain.core.numeric import Num, stack
from foretrain.program.op import Attentions, Matmuls, Ops, Phase, Streams

Row = tuple[Num, ...]


def _columns(rows: list[Row], width: int) -> list[Num]:
    """Rows of ``width`` numbers as ``width`` stacked columns that broadcast with one another.

    All plain numbers give shape (rows,); as soon as one is an array over candidates, columns without one get shape (rows, 1). No rows
    give columns of first axis 0.
    """
    if not rows:
        return [np.zeros(0)] * width
    columns = [stack([row[column] for row in rows]) for column in range(width)]
    if all(column.ndim == 1 for column in columns):
        return list(columns)
    return [column if column.ndim > 1 else column[:, np.newaxis] for column in columns]


class Rows:
    """Rows of the three op tables while a block is being written down; without ``backward`` only those of the forward pass are kept."""

    __slots__ = ("_attention", "_attention_key", "_backward", "_matmul", "_matmul_key", "_stream", "_stream_key")

    def __init__(self, *, backward: bool = True) -> None:
        self._backward = backward
        self._matmul: list[Row] = []
        self._matmul_key: list[tuple[str, Phase, str]] = []
        self._attention: list[Row] = []
        self._attention_key: list[tuple[str, Phase]] = []
        self._stream: list[Row] = []
        self._stream_key: list[tuple[str, Phase]] = []

    def matmul(self, name: str, phase: Phase, dtype: str, m: Num, n: Num, k: Num, batch: Num, byte: Num, kernels: Num = 1.0) -> None:
        """Add ``batch`` GEMMs of m x n x k."""
        if phase != "forward" and not self._backward:
            return
        self._matmul_key.append((name, phase, dtype))
        self._matmul.append((m, n, k, batch, byte, kernels))

    def attention(self, name: str, phase: Phase, q_len: Num, kv_len: Num, head_dim: Num, batch: Num, seen: Num, byte: Num) -> None:
        """Add a fused attention kernel over ``batch`` heads."""
        if phase != "forward" and not self._backward:
            return
        self._attention_key.append((name, phase))
        self._attention.append((q_len, kv_len, head_dim, batch, seen, byte))

    def stream(self, name: str, phase: Phase, byte: Num, *, flop: Num = 0.0, kernels: Num = 1.0) -> None:
        """Add a memory-bound kernel that moves ``byte``."""
        if phase != "forward" and not self._backward:
            return
        self._stream_key.append((name, phase))
        self._stream.append((byte, flop, kernels))

    def ops(self, attention_kernel: str) -> Ops:
        """The finished tables."""
        m, n, k, batch, byte, launched = _columns(self._matmul, 6)
        q_len, kv_len, head_dim, heads, seen, attention_byte = _columns(self._attention, 6)
        stream_byte, flop, kernels = _columns(self._stream, 3)
        return Ops(
            matmuls=Matmuls(
                name=tuple(key[0] for key in self._matmul_key),
                phase=tuple(key[1] for key in self._matmul_key),
                dtype=tuple(key[2] for key in self._matmul_key),
                m=m, n=n, k=k, batch=batch, byte=byte, kernels=launched,
            ),
            attentions=Attentions(
                name=tuple(key[0] for key in self._attention_key),
                phase=tuple(key[1] for key in self._attention_key),
                kernel=attention_kernel,
                q_len=q_len, kv_len=kv_len, head_dim=head_dim, batch=heads, seen=seen, byte=attention_byte,
            ),
            streams=Streams(
                name=tuple(key[0] for key in self._stream_key),
                phase=tuple(key[1] for key in self._stream_key),
                byte=stream_byte, flop=flop, kernels=kernels,
            ),
        )  # fmt: skip
