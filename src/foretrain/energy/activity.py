"""Power from activity: idle power plus a share of what lies between idle and TDP."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num, minimum
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.run.phases import Busy
from foretrain.system.chip import Chip

Weight = Annotated[Num, Quantity(ge=0, le=1)]


@record
class Activity:
    """``P = min(idle + (tdp - idle) (matrix u_matrix + memory u_memory + links u_links), tdp)``.

    Each weight is the power of one part of the chip at work without pause, over ``tdp - idle``; ``u`` are the busy shares of the phase.
    The form is that of utilisation-based node models (Newkirk et al., arXiv 2506.14551, who find a mean error of 11 % for theirs against 27
    to 37 % for TDP-based ones). Valid for data-centre accelerators at their default power limit; the clip acts on the mean of
    a phase, so short peaks are not seen. Weights, all derived from published figures and none fitted to a training run:

    ======  =====  ===========  ============================================================================================
    weight  value  low - high   why (kind: estimate)
    ======  =====  ===========  ============================================================================================
    matrix  0.95   0.85 - 1.00  A long matmul holds a chip at its power limit: published best rates lie at 78 to 87 % of the peak
                                because the clock gives way (ml-engineering, maximum achievable matmul FLOPS). Its memory
                                is busy for about a tenth of the time (8192 cubed on H100: 0.40 GB in 1.4 ms), so
                                ``matrix = 1 - 0.1 memory``.
    memory  0.55   0.16 - 1.00  Energy per bit times bandwidth. HBM alone takes 3.9 pJ/bit on A100 and 3.7 on H100 (64 and 99 W: 0.18 and
                                0.16 of the span); the whole path from DRAM to L2 was put at 21.1 pJ/bit for an older process
                                (344 and 565 W: 1.00 and 0.90). The value is the middle of the two bounds. Memory-bound
                                decoding on H200 draws up to 300 W of 700 W (arXiv 2605.11999), inside the range.
    links   0.20   0.02 - 0.35  NVLink 4 moves 7.2 Tbit/s in both directions at 1.3 to 6.5 pJ/bit (9 to 47 W: 0.02 to 0.08); every byte is
                                also read and written in HBM, at up to 1.35 TB/s of 3.35 (0.40 of the memory weight: 0.22). The middle.
    ======  =====  ===========  ============================================================================================
    """

    matrix: Weight = 0.95
    memory: Weight = 0.55
    links: Weight = 0.20

    def watts(self, chip: Chip, busy: Busy) -> Num:
        """Mean watts of one chip, between ``chip.idle_w`` and ``chip.tdp_w``."""
        activity = self.matrix * busy.matrix + self.memory * busy.memory + self.links * busy.links
        return chip.idle_w + (chip.tdp_w - chip.idle_w) * minimum(activity, 1.0)
