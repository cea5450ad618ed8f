"""The cluster: so many chips of one server kind on one fabric."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.system.fabric import Fabric
from foretrain.system.reliability import Reliability
from foretrain.system.server import Server
from foretrain.system.storage import Storage


@record
class Cluster:
    """``num_chips`` of ``server.chip``, wired by ``fabric``."""

    name: str
    num_chips: Annotated[Num, Quantity(integer=True, ge=1, le=1e7)]
    server: Server
    fabric: Fabric
    storage: Storage
    reliability: Reliability
