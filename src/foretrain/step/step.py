"""The step as a reader asks for it: seconds, memory, utilisation."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.timeline.steptime import StepTime


@record
class Memory:
    """Memory of the worst rank. ``parts_byte`` sum to ``peak_byte`` (allocated by the framework at ``peak_moment``).

    ``reserved_byte`` adds the allocator's fragmentation, ``device_byte`` context and communicators too; it is compared with
    ``capacity_byte``. ``stages`` has one row per stage kind: name, peak_byte, params.
    """

    peak_byte: Num
    reserved_byte: Num
    device_byte: Num
    capacity_byte: Num
    worst_stage: Num
    peak_moment: str
    parts_byte: Mapping[str, Num]
    stages: Mapping[str, Num]
    stage_params: Mapping[str, Num]


@record
class Step:
    """``mfu``: model FLOP over dense peak; ``hfu``: executed FLOP over dense peak, both in the stated convention."""

    time: StepTime
    memory: Memory
    mfu: Num
    hfu: Num
    token_per_s: Num
    token_per_s_per_chip: Num
    model_flop_per_s_per_chip: Num
