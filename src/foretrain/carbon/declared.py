"""Embodied carbon as its maker or an assessor declares it."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.system.server import Server


@record
class Declared:
    """The figures that the server's data carry, from product carbon footprints or life-cycle assessments.

    Published values for one H100 differ by a factor of 39 between bare die and whole device, so the figures are only as good as
    their common boundary, which stands beside them.
    """

    def kg(self, server: Server) -> Mapping[str, Num]:
        """kg CO2e by component of one server."""
        return server.embodied_kg
