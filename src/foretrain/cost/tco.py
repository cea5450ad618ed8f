"""The cost of owning: annuities of what was bought, opex, and electricity."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.constants import SECOND_PER_YEAR
from foretrain.core.numeric import Num
from foretrain.cost.account import Prices
from foretrain.cost.finance import capital_recovery
from foretrain.energy.account import Energy
from foretrain.run.phases import Run
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site


def yearly_cost_per_chip(cluster: Cluster, prices: Prices) -> dict[str, Num]:
    """USD per chip and year of an owned cluster, before electricity, whether it works or not.

    One annuity per class of goods (Hamilton, Overall Data Center Costs, 2010): servers at their purchase price; the network as a
    share of that price; the facility per watt of IT that it must be able to feed, ``rated_w`` of the server and the network's switches.
    Opex is a share of the purchase of servers and network.
    """
    server = cluster.server
    server_usd = server.purchase_usd / server.num_chips
    network_usd = prices.network_usd_fraction * server_usd
    facility_usd = prices.facility_usd_per_w * (server.rated_w / server.num_chips + cluster.fabric.switch_w)

    def per_year(capital_usd: Num, life_s: Num) -> Num:
        return capital_usd * capital_recovery(prices.discount_rate_per_year, life_s / SECOND_PER_YEAR)

    return {
        "servers": per_year(server_usd, prices.server_life_s),
        "network": per_year(network_usd, prices.network_life_s),
        "facility": per_year(facility_usd, prices.facility_life_s),
        "opex": prices.opex_fraction_per_year * (server_usd + network_usd),
    }


def owned_parts(run: Run, energy: Energy, cluster: Cluster, prices: Prices, site: Site) -> Mapping[str, Num]:
    """USD by part that a job costs on an owned cluster.

    ``chip-years / utilisation x yearly cost per chip``: the time that nobody uses is charged to the jobs in proportion. The
    electricity is the job's own, at the meter, ``total_j x price``; what an idle cluster burns is not in it.
    """
    chip_year = run.chip_s / SECOND_PER_YEAR / prices.utilisation
    yearly = yearly_cost_per_chip(cluster, prices)
    return {**{name: chip_year * usd for name, usd in yearly.items()}, "electricity": energy.total_j * site.electricity_usd_per_j}
