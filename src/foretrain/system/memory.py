"""Memory beyond the chip's own, level by level: host DRAM, a remote pool, NVMe drives."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from foretrain.core.numeric import Num, maximum, positive
from foretrain.core.record import record
from foretrain.core.units import Quantity

TierName = Literal["host", "remote", "nvme"]
TIERS: tuple[TierName, ...] = ("host", "remote", "nvme")
"""From near to far; the chip's own HBM comes before all of them."""

UNSTATED = math.inf
"""Capacity or rate of a part that the data do not give: it is then never what limits a plan."""


@record
class MemoryTier:
    """One level of memory of a server that its chips reach over a link.

    ``capacity_byte`` is the whole server's. ``read_byte_per_s`` (to the chip) and ``write_byte_per_s`` (from it) are what every chip
    has while all chips of the server move data in that direction; the two directions do not slow each other down. ``latency_s`` passes
    before the first byte of a transfer.
    """

    capacity_byte: Annotated[Num, Quantity("B", gt=0)]
    read_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    write_byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    latency_s: Annotated[Num, Quantity("s", ge=0)] = 0.0


def transfer_s(tier: MemoryTier, read_byte: Num, write_byte: Num) -> Num:
    """Seconds for one transfer in each direction between a chip and ``tier``, both at once.

    ``max(latency + read / read rate, latency + write / write rate)``, a direction without bytes counting nothing. The bandwidth model of
    ZeRO-Infinity (Rajbhandari et al., arXiv 2104.07857, section 4) with a start. Valid for transfers of pinned memory in
    large pieces; small ones (below about 1 MB) do not reach the rates.

    >>> tier = MemoryTier(capacity_byte=1e12, read_byte_per_s=50e9, write_byte_per_s=25e9, latency_s=1e-5)
    >>> transfer_s(tier, 50e9, 50e9), transfer_s(tier, 0.0, 0.0)
    (2.00001, 0.0)
    """
    return maximum(
        positive(read_byte) * tier.latency_s + read_byte / tier.read_byte_per_s,
        positive(write_byte) * tier.latency_s + write_byte / tier.write_byte_per_s,
    )
