"""The question: how many watts does a chip draw while it is busy like this?"""

from __future__ import annotations

from typing import Protocol

from foretrain.core.numeric import Num
from foretrain.run.phases import Busy
from foretrain.system.chip import Chip


class PowerModel(Protocol):
    """Answers with the mean power of one chip over a phase."""

    def watts(self, chip: Chip, busy: Busy) -> Num:
        """Mean watts [W] of one ``chip`` (board with memory, DC side) at the shares ``busy``; never above ``chip.tdp_w``."""
        ...
