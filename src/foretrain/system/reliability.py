"""How often a job is interrupted and what that costs."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Reliability:
    """``failure_per_chip_s``: unplanned interruptions per chip and second; ``restart_s``: from the failure to the first useful
    step (detection, rescheduling, loading the checkpoint excluded); ``step_overhead_s``: host work per step outside the step time (logging,
    data, evaluation hooks); ``evaluation_fraction``: evaluation time over step time."""

    failure_per_chip_s: Annotated[Num, Quantity("1/s", ge=0)]
    restart_s: Annotated[Num, Quantity("s", ge=0)]
    step_overhead_s: Annotated[Num, Quantity("s", ge=0)]
    evaluation_fraction: Annotated[Num, Quantity(ge=0, le=1)]
