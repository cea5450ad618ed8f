"""The memory record of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from foretrain.core.numeric import Num
from foretrain.core.record import record


@record
class Memory:
    """Memory of the worst rank. ``parts_byte`` sum to ``peak_byte``, what the framework has allocated at ``peak_moment``.

    ``reserved_byte`` adds the allocator's fragmentation; ``device_byte`` also ``context_byte`` and ``communicator_byte`` and is
    compared with ``capacity_byte``. ``worst_stage`` is the index of the pipeline stage. ``stages`` and ``stage_params`` have one row
    per stage kind. ``tier_byte`` is what the ranks of one server keep in each memory beyond the chips, ``tier_capacity_byte`` what that
    memory holds.
    """

    peak_byte: Num
    reserved_byte: Num
    device_byte: Num
    context_byte: Num
    communicator_byte: Num
    capacity_byte: Num
    worst_stage: Num
    peak_moment: str
    parts_byte: Mapping[str, Num]
    stages: Mapping[str, Num]
    stage_params: Mapping[str, Num]
    tier_byte: Mapping[str, Num] = field(default_factory=dict)
    tier_capacity_byte: Mapping[str, Num] = field(default_factory=dict)
