"""How do stages interleave?"""

from __future__ import annotations

from typing import Protocol

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.program.program import Program
from foretrain.schedule.overlap import PhaseTime
from foretrain.timeline.steptime import StepTime


@record
class Times:
    """Seconds of everything a schedule arranges.

    ``blocks`` has the three passes of every block of the program, ``transfer_s`` one pipeline transfer, ``once_s`` the optimizer's work,
    ``once_memory_s`` its memory-busy part, ``gather_s`` and ``reduce_s`` the once-per-step collectives that may hide under the first
    forward
    and the last backward pass, ``bare_s`` those that may not. ``host_optimizer_s`` is the optimizer's work on the host, ``offload_s``
    the transfers for the update that nothing hides.
    """

    blocks: tuple[tuple[PhaseTime, ...], ...]
    transfer_s: Num
    once_s: Num
    once_memory_s: Num
    gather_s: Num
    reduce_s: Num
    bare_s: Num
    host_optimizer_s: Num
    offload_s: Num


class ScheduleModel(Protocol):
    """Arranges the passes of all stages and microbatches into a step."""

    def step_time(self, program: Program, times: Times) -> StepTime:
        """Seconds of one step [s], parts adding up."""
        ...
