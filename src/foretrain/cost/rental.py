"""The cost of renting."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.cost.account import Prices
from foretrain.run.phases import Run


def rented_parts(run: Run, prices: Prices) -> Mapping[str, Num]:
    """USD for rented chips: ``chip-seconds x price``, all reserved time included; host, network and power are the landlord's."""
    return {"rental": run.chip_s * prices.rental_usd_per_chip_s}
