"""Both bills side by side, and the one that was asked for."""

from __future__ import annotations

from foretrain.core.constants import SECOND_PER_HOUR
from foretrain.core.terms import total
from foretrain.cost.account import Cost, Prices
from foretrain.cost.rental import rented_parts
from foretrain.cost.tco import owned_parts
from foretrain.energy.account import Energy
from foretrain.run.phases import Run
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site


def account_cost(run: Run, energy: Energy, cluster: Cluster, prices: Prices, site: Site) -> Cost:
    """Dollars of ``run`` as rented and as owned; ``prices.tenure`` chooses which of them is the total and gives the parts."""
    bills = {
        "rented": rented_parts(run, prices),
        "owned": owned_parts(run, energy, cluster, prices, site),
    }
    parts_usd = bills[prices.tenure]
    total_usd = total(parts_usd)
    return Cost(
        total_usd=total_usd,
        parts_usd=parts_usd,
        rented_usd=total(bills["rented"]),
        owned_usd=total(bills["owned"]),
        usd_per_chip_hour=total_usd / (run.chip_s / SECOND_PER_HOUR),
    )
