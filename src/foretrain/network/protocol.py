"""The question this room answers: how long does a collective take alone on the fabric?"""

from __future__ import annotations

from typing import Protocol

from foretrain.core.numeric import Num
from foretrain.program.program import ANYWHERE, CollectiveOp, Draw, Group
from foretrain.system.fabric import Fabric


class CollectiveModel(Protocol):
    """Seconds of one collective with nothing else on its links."""

    def time(self, op: CollectiveOp, group: Group, payload_byte: Num, fabric: Fabric, draw: Draw = ANYWHERE) -> Num:
        """Seconds [s] of one call of ``op`` over ``group``.

        Parameters
        ----------
        payload_byte
            Bytes as nccl-tests count them: per rank for all_reduce, broadcast and send_recv, the gathered total for all_gather, the
            input for reduce_scatter, bytes sent by one rank (its own share included) for all_to_all, a rank's tokens once for dispatch.
        draw
            For dispatch: where a token goes.
        """
        ...
