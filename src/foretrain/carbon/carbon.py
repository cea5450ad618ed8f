"""From joules and chip-seconds to kilograms and litres."""

from __future__ import annotations

from foretrain.carbon.account import Amortisation, Carbon
from foretrain.carbon.footprint import embodied_parts, storage_kg
from foretrain.carbon.operational import operational_parts
from foretrain.carbon.protocol import EmbodiedModel
from foretrain.core.terms import total
from foretrain.energy.account import Energy
from foretrain.run.phases import Run
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site


def account_carbon(run: Run, energy: Energy, cluster: Cluster, site: Site, embodied: EmbodiedModel, amortisation: Amortisation) -> Carbon:
    """Operational and embodied carbon of ``run``, and its on-site water.

    ``total = energy x intensity + chip-seconds x (server kg / chips per server + storage kg per chip) / (life x utilisation)``, with the
    intensity that ``amortisation.accounting`` names; both operational figures are given. Embodied carbon is that of the servers on their
    declared boundary and of the file system's share: network and building are in it only where that boundary says so. ``water_l = IT
    energy x wue``, cooling on site only.
    """
    server = cluster.server
    operational = {
        "location": operational_parts(energy, site.location_kg_per_j),
        "market": operational_parts(energy, site.market_kg_per_j),
    }
    making = {
        **embodied_parts(embodied.kg(server), run.chip_s / server.num_chips, amortisation),
        "storage": storage_kg(cluster.storage, run.chip_s, amortisation),
    }
    parts_kg = {
        **{f"operational_{name}": kg for name, kg in operational[amortisation.accounting].items()},
        **{f"embodied_{name}": kg for name, kg in making.items()},
    }
    return Carbon(
        total_kg=total(parts_kg),
        operational_location_kg=total(operational["location"]),
        operational_market_kg=total(operational["market"]),
        embodied_kg=total(making),
        embodied_boundary="; ".join(filter(None, (server.embodied_boundary, cluster.storage.embodied_boundary))),
        parts_kg=parts_kg,
        water_l=energy.it_j * site.wue_l_per_j,
    )
