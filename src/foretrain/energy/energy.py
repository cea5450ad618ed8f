"""From the phases of a run to joules at the facility's meter."""

from __future__ import annotations

from foretrain.core.numeric import Num, clip, maximum
from foretrain.core.terms import total
from foretrain.energy.account import Energy
from foretrain.energy.protocol import PowerModel
from foretrain.run.phases import Run
from foretrain.system.cluster import Cluster
from foretrain.system.server import Server
from foretrain.system.site import Site


def host_power(chip_w: Num, server: Server) -> Num:
    """DC watts of everything in a server but the chips, per chip, while its chips draw ``chip_w`` [W] each.

    ``(idle + (busy - idle) load) / chips`` with ``load = (chip_w - chip idle) / (chip tdp - chip idle)`` in [0, 1]: fans, CPU and
    voltage regulators follow the chips. A job on part of a server is charged its chips' share of the host.
    """
    chip = server.chip
    # A watt keeps the ratio defined for a chip that draws the same at rest and at work.
    load = clip((chip_w - chip.idle_w) / maximum(chip.tdp_w - chip.idle_w, 1.0), 0.0, 1.0)
    return (server.host_idle_w + (server.host_busy_w - server.host_idle_w) * load) / server.num_chips


def account_energy(run: Run, cluster: Cluster, site: Site, power: PowerModel) -> Energy:
    """Energy of ``run``; idle phases count, and nothing is counted per process or rank.

    ::

        IT    = (chips + host) / psu_efficiency + network + storage        (AC side)
        total = IT x PUE

    Chips and host are DC; the network's switches and optics and the file system's servers are AC. The file system draws
    ``capacity_byte_per_chip x w_per_byte`` for every chip, busy or not. PUE enters here and nowhere else. The parts are
    chips, host, network, storage, conversion (what the power supplies lose) and facility (cooling and distribution).
    """
    server, network_w = cluster.server, cluster.fabric.switch_w
    storage_w = cluster.storage.capacity_byte_per_chip * cluster.storage.w_per_byte
    chips_j: Num = 0.0
    host_j: Num = 0.0
    network_j: Num = 0.0
    storage_j: Num = 0.0
    peak_w: Num = 0.0
    for phase in run.phases:
        chip_w = power.watts(server.chip, phase.busy)
        host_w = host_power(chip_w, server)
        chip_s = phase.num_chips * phase.duration_s
        chips_j = chips_j + chip_s * chip_w
        host_j = host_j + chip_s * host_w
        network_j = network_j + chip_s * network_w
        storage_j = storage_j + chip_s * storage_w
        drawn_w = (chip_w + host_w) / server.psu_efficiency + network_w + storage_w
        peak_w = maximum(peak_w, phase.num_chips * drawn_w * site.pue)
    it_parts_j = {
        "chips": chips_j,
        "host": host_j,
        "network": network_j,
        "storage": storage_j,
        "conversion": (chips_j + host_j) * (1.0 / server.psu_efficiency - 1.0),
    }
    it_j = total(it_parts_j)
    parts_j = {**it_parts_j, "facility": it_j * (site.pue - 1.0)}
    return Energy(total_j=total(parts_j), it_j=it_j, parts_j=parts_j, mean_w_per_chip=it_j / run.chip_s, peak_w=peak_w)
