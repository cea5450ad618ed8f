"""The analytical answer: start-up cost per step, bytes over the slowest link, the best algorithm and protocol."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from foretrain.core.numeric import Num, maximum, minimum
from foretrain.core.record import record
from foretrain.network.algorithms import BY_OP, Reduction, Traffic, routed_dispatch, uses
from foretrain.network.placement import place
from foretrain.program.program import ANYWHERE, CollectiveOp, Draw, Group
from foretrain.system.fabric import Fabric, Tier

SMALLEST_SHARE = 1e-12
"""Stands for a rate of zero where a tier's switches cannot add: such an algorithm takes years and is never the fastest."""

Link = tuple[Num, Num]
"""Seconds per step and bytes per second of one chip at one tier."""


@record
class AlphaBeta:
    """``t = sum_k collective_s_k + min over algorithms and protocols of (sum_k steps_k hop_k + max_k byte_k / rate_k)``.

    The linear model (Hockney, The communication challenge for MPP, Parallel Computing 20 (1994)) applied tier by tier. Chunks are
    pipelined, so the tier with the most seconds of bytes sets the pace, while the steps of all tiers add up. Two protocols stand for
    NCCL's: one that is cheap per step and slow per byte (``small_hop_s``, ``small_efficiency``), one for large messages (``hop_s``,
    ``efficiency``); an all-reduce inside the switch has its own pair (``reduction_s``, ``in_network_reduction``). Like NCCL's tuner the
    model takes the fastest combination.

    Valid for one collective alone on its links, ranks that arrive together, full bisection bandwidth, 1 KiB to 16 GiB. A tier that the
    group does not use costs nothing, so a group of one rank takes 0 s.
    """

    def time(self, op: CollectiveOp, group: Group, payload_byte: Num, fabric: Fabric, draw: Draw = ANYWHERE) -> Num:
        """Seconds of one call; ``payload_byte`` as in ``CollectiveModel.time``; scalar or (candidates,)."""
        branches = place(group, fabric)
        tiers = fabric.tiers
        large = [(tier.hop_s, tier.byte_per_s * tier.efficiency) for tier in tiers]
        small = [(tier.small_hop_s, tier.byte_per_s * tier.small_efficiency) for tier in tiers]
        links: Mapping[Reduction, tuple[list[Link], ...]] = {"chips": (large, small), "switch": ([_switch(tiers[0]), *large[1:]],)}
        if op == "dispatch":
            traffics: list[tuple[Reduction, Traffic]] = [("chips", routed_dispatch(payload_byte, branches, draw))]
        else:
            traffics = [(reduction, algorithm(payload_byte, branches)) for reduction, algorithm in BY_OP[op]]
        seconds = [_seconds(traffic, link) for reduction, traffic in traffics for link in links[reduction]]
        start_s: Num = 0.0
        for tier, branch in zip(tiers, branches, strict=True):
            start_s = start_s + tier.collective_s * uses(branch)
        return start_s + reduce(minimum, seconds)


def _switch(tier: Tier) -> Link:
    """Seconds per pass and bytes per second of an all-reduce inside the tier's switches."""
    return tier.reduction_s, tier.byte_per_s * maximum(tier.in_network_reduction, SMALLEST_SHARE)


def _seconds(traffic: Traffic, links: list[Link]) -> Num:
    """Steps one after another, bytes on all tiers at once."""
    latency_s: Num = 0.0
    wire_s: Num = 0.0
    for steps, byte, (hop_s, byte_per_s) in zip(traffic.steps, traffic.byte, links, strict=True):
        latency_s = latency_s + steps * hop_s
        wire_s = maximum(wire_s, byte / byte_per_s)
    return latency_s + wire_s
