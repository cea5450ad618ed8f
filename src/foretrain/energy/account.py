"""The energy bill's record."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.core.record import record


@record
class Energy:
    """``parts_j`` sum to ``total_j`` at the facility's meter: chips, host, network, storage, conversion, facility.

    ``it_j`` is what enters the IT equipment (AC side, before PUE). ``mean_w_per_chip``: IT power over chips and wall time;
    ``peak_w``: facility power during steps.
    """

    total_j: Num
    it_j: Num
    parts_j: Mapping[str, Num]
    mean_w_per_chip: Num
    peak_w: Num
