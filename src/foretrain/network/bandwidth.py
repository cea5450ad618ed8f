"""Algorithm and bus bandwidth, as nccl-tests report them."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.program.program import CollectiveOp


def algbw(payload_byte: Num, time_s: Num) -> Num:
    """Algorithm bandwidth [B/s] as nccl-tests define it (doc/PERFORMANCE.md): payload over time.

    >>> algbw(8.0, 2.0)
    4.0
    """
    return payload_byte / time_s


def busbw(op: CollectiveOp, size: Num, payload_byte: Num, time_s: Num) -> Num:
    """Bus bandwidth [B/s] as nccl-tests define it (doc/PERFORMANCE.md): what every rank's link would carry with a ring.

    ``algbw`` times 2 (n - 1) / n for all_reduce, (n - 1) / n for all_gather, reduce_scatter and all_to_all, 1 for broadcast and send_recv.

    >>> busbw("all_reduce", 8, 8.0, 2.0)
    7.0
    """
    exchanged = _EXCHANGED.get(op)
    return algbw(payload_byte, time_s) * (1.0 if exchanged is None else exchanged * (size - 1.0) / size)


_EXCHANGED: Mapping[CollectiveOp, float] = {
    "all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "dispatch": 1.0,
}  # fmt: skip
"""How often all but a rank's own part of the payload passes its link."""
