"""The file system that checkpoints are written to and data come from."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Storage:
    """``write_byte_per_s`` and ``read_byte_per_s`` of the whole file system, and what one server can move at most.

    ``capacity_byte_per_chip``: raw capacity that is kept for every chip it serves; ``w_per_byte``: power at the plug of the storage
    servers over their capacity; ``embodied_kg_per_byte``: cradle-to-gate carbon of drives and storage servers over their capacity, on the
    boundary ``embodied_boundary``. All 0 where the storage is left out of the bill.
    """

    name: str
    write_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    read_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    server_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    capacity_byte_per_chip: Annotated[Num, Quantity("B", ge=0)] = 0.0
    w_per_byte: Annotated[Num, Quantity("W/B", ge=0)] = 0.0
    embodied_boundary: str = ""
    embodied_kg_per_byte: Annotated[Num, Quantity("kg/B", ge=0)] = 0.0
