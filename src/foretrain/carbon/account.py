"""The carbon bill's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Amortisation:
    """How embodied carbon is shared over a server's life: ``life_s`` and the ``utilisation`` of it that is used by jobs."""

    life_s: Annotated[Num, Quantity("s", gt=0)]
    utilisation: Annotated[Num, Quantity(gt=0, le=1)]
    accounting: Literal["location", "market"] = "location"


@record
class Carbon:
    """``total_kg`` = operational (by the chosen accounting) + embodied; the other accounting stands beside it, never added.

    ``parts_kg`` sum to ``total_kg``. ``embodied_boundary`` names what the embodied figure includes. ``water_l``: on-site water.
    """

    total_kg: Num
    operational_location_kg: Num
    operational_market_kg: Num
    embodied_kg: Num
    embodied_boundary: str
    parts_kg: Mapping[str, Num]
    water_l: Num
