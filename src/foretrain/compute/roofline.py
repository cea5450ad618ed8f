"""The coarse answer: FLOP or bytes, whichever takes longer."""

from __future__ import annotations

from typing import final

from foretrain.compute import work
from foretrain.core.numeric import maximum
from foretrain.core.record import record
from foretrain.program.op import Ops
from foretrain.system.chip import Chip
from foretrain.timeline.optime import OpTime


@final
@record
class Roofline:
    """``max(FLOP / (peak x efficiency), byte / (bandwidth x efficiency)) + kernels x kernel_s``.

    Williams et al., CACM 52 (2009), with sustained instead of peak rates. It knows no tiles: right for products of thousands in every
    dimension and for sequences of many thousands, too fast for small ones.
    """

    def time(self, ops: Ops, chip: Chip) -> OpTime:
        """Seconds of every op, as in ``ComputeModel.time``."""
        kernels, matmuls, attentions, streams = chip.kernels, ops.matmuls, ops.attentions, ops.streams
        matmul_ideal_s = work.matmul_flop(matmuls) / work.matmul_rate(matmuls, chip, kernels.matmul_efficiency)
        matmul_memory_s = work.memory_s(matmuls.byte, chip)
        flop = work.attention_flop(attentions)
        share = work.attention_efficiency(attentions, work.attention_kernel(attentions, chip))
        rate = chip.dense_flop_per_s[work.attention_dtype(chip)] * share
        attention_memory_s = work.memory_s(attentions.byte, chip)
        launches = work.attention_kernels(attentions)
        attention_s = maximum(flop / rate, attention_memory_s) + work.along(launches, flop) * kernels.kernel_s
        stream_memory_s = work.memory_s(streams.byte, chip)
        return OpTime(
            matmul_s=maximum(matmul_ideal_s, matmul_memory_s) + kernels.kernel_s,
            matmul_ideal_s=matmul_ideal_s,
            matmul_memory_s=matmul_memory_s,
            attention_s=attention_s,
            attention_ideal_s=work.attention_ideal_s(flop, chip, attention_s),
            attention_memory_s=attention_memory_s,
            attention_kernels=launches,
            stream_s=work.stream_s(streams, stream_memory_s, chip),
            stream_memory_s=stream_memory_s,
        )
