"""Waist 3: what the chips of a job do, for how long. No ops and no parallelism here."""

from __future__ import annotations

from typing import Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record

Purpose = Literal["steps", "input", "overhead", "evaluation", "checkpoint", "lost", "restart"]


@record
class Busy:
    """Shares of a phase during which parts of a chip work, each in [0, 1]; they may overlap.

    ``matrix``: matrix units at their sustained rate; ``memory``: HBM; ``links``: NVLink and network.
    """

    matrix: Num = 0.0
    memory: Num = 0.0
    links: Num = 0.0


@record
class Phase:
    """``duration_s`` wall-clock seconds in total over the run that ``num_chips`` spend on ``purpose``; ``input`` is waiting for data."""

    purpose: Purpose
    duration_s: Num
    num_chips: Num
    busy: Busy


@record
class Run:
    """A whole job.

    ``wall_s``: calendar time, the sum of the phases. ``goodput``: seconds of productive steps over ``wall_s``.
    ``checkpoint_interval_s``: time between checkpoints (Young-Daly); ``num_failures``: expected interruptions.
    """

    num_chips: Num
    num_steps: Num
    phases: tuple[Phase, ...]
    wall_s: Num
    goodput: Num
    checkpoint_interval_s: Num
    num_failures: Num

    @property
    def chip_s(self) -> Num:
        """Chip-seconds that are reserved, and paid, for the job."""
        return self.num_chips * self.wall_s
