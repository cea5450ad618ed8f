"""The file system that checkpoints are written to."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Storage:
    """``write_byte_per_s`` and ``read_byte_per_s`` of the whole file system, and what one server can move at most."""

    name: str
    write_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    read_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    server_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
