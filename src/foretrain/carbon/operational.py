"""Carbon of the electricity."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.energy.account import Energy


def operational_parts(energy: Energy, kg_per_j: Num) -> Mapping[str, Num]:
    """kg CO2e by part of the energy bill: ``energy at the meter x carbon intensity``, with ``kg_per_j`` in kg/J.

    GHG Protocol Scope 2: the location-based figure takes the grid's mean, the market-based one the contracts' factor; the two are
    never added. A yearly mean intensity: right for a job that runs around the clock for weeks, not for one that follows the sun.
    """
    return {name: joule * kg_per_j for name, joule in energy.parts_j.items()}
