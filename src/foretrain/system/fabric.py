"""The fabric: tiers of links from the inside (NVLink) to the outside (the cluster network)."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.system.chip import Fraction


@record
class Tier:
    """``size`` chips are inside one unit of this tier; the outermost tier's size bounds the cluster.

    ``byte_per_s`` is the wire rate per chip and per direction; ``efficiency`` the share of it that large collectives
    reach; ``hop_s`` one step of a ring or tree with a large-message protocol, ``small_hop_s`` with a low-latency one, which moves
    data at ``small_efficiency`` of the wire; ``collective_s`` the fixed cost of starting one collective that uses this tier.
    ``in_network_reduction``: share of the wire that an all-reduce by the tier's own switches reaches (NVLink SHARP; read on the innermost
    tier only), 0 where they cannot add; ``reduction_s`` one pass through such a switch.
    """

    name: str
    size: Annotated[Num, Quantity(integer=True, ge=1)]
    byte_per_s: Annotated[Num, Quantity("B/s", gt=0)]
    efficiency: Fraction
    hop_s: Annotated[Num, Quantity("s", ge=0)]
    small_hop_s: Annotated[Num, Quantity("s", ge=0)]
    small_efficiency: Fraction
    collective_s: Annotated[Num, Quantity("s", ge=0)]
    in_network_reduction: Annotated[Num, Quantity(ge=0, le=1)] = 0.0
    reduction_s: Annotated[Num, Quantity("s", ge=0)] = 0.0


@record
class Fabric:
    """``tiers`` from inside to outside. ``switch_w`` is the outer network's power per chip.

    ``topology`` names the wiring for the reader; the collective models use only the tiers. On a ``torus`` the inner tier is the slice, its
    ``byte_per_s`` the sum over the links of a chip in one direction: right for a group that lies along all axes, too fast by up to
    the number of axes for one that lies along a single axis. In a ``full mesh with rails`` (every chip of a server wired to every other)
    it is the sum over the links to all peers, too fast for a group of fewer chips than the server holds.
    """

    name: str
    topology: Literal["rail-optimised fat tree", "fat tree", "full mesh with rails", "torus", "dragonfly"]
    tiers: tuple[Tier, ...]
    switch_w: Annotated[Num, Quantity("W", ge=0)]
