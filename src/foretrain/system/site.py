"""The site: where the cluster stands."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Site:
    """``pue``: facility over IT energy. ``location_kg_per_j`` and ``market_kg_per_j``: grid mean and contract-based carbon intensity; their
    ``intensity_definition`` says which emissions are counted. ``electricity_usd_per_j``: price at the meter. ``wue_l_per_j``: litres
    of on-site water
    per joule of IT energy."""

    name: str
    pue: Annotated[Num, Quantity(ge=1, le=5)]
    location_kg_per_j: Annotated[Num, Quantity("kg/J", ge=0)]
    market_kg_per_j: Annotated[Num, Quantity("kg/J", ge=0)]
    intensity_definition: str
    electricity_usd_per_j: Annotated[Num, Quantity("USD/J", ge=0)]
    wue_l_per_j: Annotated[Num, Quantity("l/J", ge=0)]
