"""The server: chips, host, conversion losses, price and embodied carbon of one chassis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.system.chip import Chip, Fraction


@record
class Server:
    """``host_idle_w`` and ``host_busy_w``: everything in the chassis but the chips (CPU, DRAM, NICs, switches, fans), DC side.

    ``host_link_byte_per_s``: chip to host memory, per chip and direction; ``host_memory_byte_per_s``: host memory bandwidth per chip.
    ``psu_efficiency`` is DC out over AC in. ``embodied_kg`` lists cradle-to-gate parts of one server by
    name (board with all chips, rest of the server), all on the same boundary.
    """

    name: str
    chip: Chip
    num_chips: Annotated[Num, Quantity(integer=True, ge=1)]
    rated_w: Annotated[Num, Quantity("W", gt=0)]
    host_idle_w: Annotated[Num, Quantity("W", ge=0)]
    host_busy_w: Annotated[Num, Quantity("W", ge=0)]
    host_link_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    host_memory_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    psu_efficiency: Fraction
    purchase_usd: Annotated[Num, Quantity("USD", gt=0)]
    embodied_boundary: str
    embodied_kg: Mapping[str, Annotated[Num, Quantity("kg", ge=0)]]
