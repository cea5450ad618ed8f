"""The question: what did making this server emit?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from foretrain.core.numeric import Num
from foretrain.system.server import Server


class EmbodiedModel(Protocol):
    """Answers with the embodied carbon of one server, by component."""

    def kg(self, server: Server) -> Mapping[str, Num]:
        """kg CO2e by component of one whole ``server``, all on the boundary ``server.embodied_boundary``."""
        ...
