"""The server: chips, host, conversion losses, price and embodied carbon of one chassis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from foretrain.core.errors import InputError, Problem
from foretrain.core.numeric import Num, minimum
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.system.chip import Chip, Fraction
from foretrain.system.memory import UNSTATED, MemoryTier, TierName


@record
class Server:
    """``host_idle_w`` and ``host_busy_w``: everything in the chassis but the chips (CPU, DRAM, NICs, switches, fans), DC side.

    ``host_link_byte_per_s``: chip to host memory, per chip and direction; ``host_memory_byte_per_s``: host memory bandwidth per chip.
    ``host_link_efficiency`` is the share of the link that large copies reach, ``host_latency_s`` the start of a copy,
    ``host_memory_byte`` the DRAM of the whole server and ``host_flop_per_s`` the 32-bit vector rate of its CPUs per chip; a capacity or
    rate that is not given never limits a plan. ``remote`` and ``nvme`` are further memory, where the server has it.
    ``psu_efficiency`` is DC out over AC in. ``embodied_kg`` lists cradle-to-gate parts of one server by
    name (board with all chips, rest of the server), all on the same boundary.
    """

    name: str
    chip: Chip
    num_chips: Annotated[Num, Quantity(integer=True, ge=1)]
    rated_w: Annotated[Num, Quantity("W", gt=0)]
    host_idle_w: Annotated[Num, Quantity("W", ge=0)]
    host_busy_w: Annotated[Num, Quantity("W", ge=0)]
    host_link_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    host_memory_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    psu_efficiency: Fraction
    purchase_usd: Annotated[Num, Quantity("USD", gt=0)]
    embodied_boundary: str
    embodied_kg: Mapping[str, Annotated[Num, Quantity("kg", ge=0)]]
    host_link_efficiency: Fraction = 1.0
    host_latency_s: Annotated[Num, Quantity("s", ge=0)] = 0.0
    host_memory_byte: Annotated[Num, Quantity("B", gt=0)] = UNSTATED
    host_flop_per_s: Annotated[Num, Quantity("FLOP/s", gt=0)] = UNSTATED
    remote: MemoryTier | None = None
    nvme: MemoryTier | None = None


def host_tier(server: Server) -> MemoryTier:
    """The server's DRAM as its chips see it: ``min(link x link efficiency, memory bandwidth per chip)`` in each direction."""
    slower = minimum(server.host_link_byte_per_s * server.host_link_efficiency, server.host_memory_byte_per_s)
    return MemoryTier(
        capacity_byte=server.host_memory_byte, read_byte_per_s=slower, write_byte_per_s=slower, latency_s=server.host_latency_s
    )


def tier(server: Server, name: TierName) -> MemoryTier:
    """The tier ``name`` of ``server``.

    Raises
    ------
    InputError
        Where the server has no such memory, naming those that it has.
    """
    tiers = {"host": host_tier(server), "remote": server.remote, "nvme": server.nvme}
    found = tiers[name]
    if found is None:
        has = tuple(key for key, value in tiers.items() if value is not None)
        message = f"{server.name} has no such memory; give it as system.server.{name}"
        raise InputError([Problem(field="strategy.offload_tier", value=name, message=message, allowed=", ".join(has), nearest=has[-1:])])
    return found
