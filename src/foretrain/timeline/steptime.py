"""The seconds of one optimizer step."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.core.record import record


@record
class StepTime:
    """One optimizer step as seen from the busiest pipeline stage.

    ``parts_s`` sum to ``step_s``: matmul, attention, memory_bound, recompute, host, tp_exposed, cp_exposed, ep_exposed, pp_exposed,
    dp_exposed, bubble, optimizer, offload. ``hidden_s``: communication that runs under compute, by axis; not part of the step.
    ``matrix_s``, ``memory_s``, ``link_s``: mean seconds per chip and step during which the matrix units, the memory
    and the links are busy; they overlap each other and drive the power model. ``bubble_fraction``: idle over useful pipeline time.
    """

    step_s: Num
    parts_s: Mapping[str, Num]
    hidden_s: Mapping[str, Num]
    matrix_s: Num
    memory_s: Num
    link_s: Num
    bubble_fraction: Num
