"""The question this room answers: how long do ops take on one chip?"""

from __future__ import annotations

from typing import Protocol

from foretrain.program.op import Ops
from foretrain.system.chip import Chip
from foretrain.timeline.optime import OpTime


class ComputeModel(Protocol):
    """Seconds of ops that have the chip for themselves."""

    def time(self, ops: Ops, chip: Chip) -> OpTime:
        """Seconds of every op of the three tables, in their order; shapes (ops,) or (ops, candidates)."""
        ...
