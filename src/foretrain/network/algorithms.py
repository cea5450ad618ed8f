"""What each algorithm asks of the wires: steps in sequence and bytes per chip, tier by tier.

An algorithm knows no seconds. It says how many messages follow one another on each tier, and how many bytes one chip sends on it when
the group's traffic is spread over the links of all members (one NIC per chip, rail-optimised). ``alphabeta`` turns both into time.

Symbols: S payload [bytes], n ranks, c_k branches at tier k (``placement.place``), m_k = c_0 ... c_k members inside a unit of tier k,
m_-1 = 1. Where c_k = 1 the group does not use tier k and its steps and bytes are 0, so a group of one rank costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from foretrain.core.numeric import Num, log2, maximum, minimum
from foretrain.program.program import CollectiveOp, Draw

Branches = tuple[Num, ...]


class Traffic(NamedTuple):
    """Steps in sequence [1] and bytes sent by one chip [B] at each tier, inside to outside."""

    steps: tuple[Num, ...]
    byte: tuple[Num, ...]


Algorithm = Callable[[Num, Branches], Traffic]
Reduction = Literal["chips", "switch"]
"""Who adds the numbers up inside the innermost tier: the chips, or the switch between them."""


def uses(branches: Num) -> Num:
    """1 when a group branches at a tier, 0 when it does not: ``min(c - 1, 1)``.

    >>> uses(1.0), uses(8.0)
    (0.0, 1.0)
    """
    return minimum(branches - 1.0, 1.0)


def _ring(rounds: float, wire_byte: Num, branches: Branches) -> Traffic:
    """``rounds`` times round a ring that visits every unit once, each chip passing on ``wire_byte``.

    Of the n - 1 steps on the way of a chunk, n / m_(k-1) - n / m_k use tier k, as NCCL's tuner counts them (NVIDIA/nccl,
    src/graph/tuning.cc). A unit's traffic to its neighbour shares the links of its members: ``wire_byte / m_(k-1)`` per chip.
    """
    left: Num = 1.0
    for branch in branches:
        left = left * branch
    inside: Num = 1.0
    steps: list[Num] = []
    byte: list[Num] = []
    for branch in branches:
        further = left / branch
        steps.append(rounds * (left - further))
        byte.append(wire_byte * uses(branch) / inside)
        inside, left = inside * branch, further
    return Traffic(tuple(steps), tuple(byte))


def _share(branches: Branches) -> Num:
    """(n - 1) / n of n ranks: the part of a payload that is not a rank's own."""
    size: Num = 1.0
    for branch in branches:
        size = size * branch
    return 1.0 - 1.0 / size


def ring_all_reduce(payload_byte: Num, branches: Branches) -> Traffic:
    """Reduce-scatter and all-gather round one ring: 2 (n - 1) steps, 2 S (n - 1) / n bytes per chip.

    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J. Parallel Distrib. Comput. 69 (2009):
    the fewest bytes possible without help from the network.

    >>> ring_all_reduce(8.0, (4.0, 1.0))
    Traffic(steps=(6.0, 0.0), byte=(12.0, 0.0))
    """
    return _ring(2.0, 2.0 * payload_byte * _share(branches), branches)


def ring_half(payload_byte: Num, branches: Branches) -> Traffic:
    """All-gather of S in total, or reduce-scatter of an input of S: once round the ring, n - 1 steps, S (n - 1) / n bytes per chip."""
    return _ring(1.0, payload_byte * _share(branches), branches)


def ring_broadcast(payload_byte: Num, branches: Branches) -> Traffic:
    """A pipelined chain: n - 1 steps, S bytes per chip."""
    return _ring(1.0, payload_byte, branches)


def tree_all_reduce(payload_byte: Num, branches: Branches) -> Traffic:
    """Reduce-scatter inside, double binary trees across, all-gather inside; chunks are pipelined through all three.

    Steps 2 (c_0 - 1) inside and 2 log2(c_k) outside, bytes 2 S (c_k - 1) / c_k / m_(k-1) per chip: on two servers about half as many
    bytes pass the NICs as in a flat ring, and steps grow with the logarithm of the servers. Two complementary trees keep both directions
    of every link busy (Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
    Computing 35 (2009)); steps as in NCCL's tuner.

    >>> tree_all_reduce(8.0, (8.0, 2.0)).byte
    (14.0, 1.0)
    """
    inner = branches[0]
    steps, byte = _trees(payload_byte, branches)
    return Traffic((2.0 * (inner - 1.0), *steps), (2.0 * payload_byte * (1.0 - 1.0 / inner), *byte))


def switch_all_reduce(payload_byte: Num, branches: Branches) -> Traffic:
    """All-reduce by the switch inside the innermost tier (NVLink SHARP), double binary trees across; pipelined.

    Every chip reads its S / c_0 share from all members through the adding switch and multicasts the sum: it sends S for the reads and
    S / c_0 for its sum, S (1 + 1 / c_0) bytes in place of the ring's 2 S (c_0 - 1) / c_0, in 2 steps whatever c_0 is. Hence the bus
    bandwidth of nccl-tests can reach 2 (n - 1) / (n + 1) times the wire. Own count from what ``multimem.ld_reduce`` and ``multimem.st``
    do (PTX ISA 8.1); it predicts how the bandwidth measured on 5 to 8 H200 grows with their number to within about 2 %.

    >>> switch_all_reduce(8.0, (8.0, 1.0)).byte
    (9.0, 0.0)
    """
    inner = branches[0]
    used = uses(inner)
    steps, byte = _trees(payload_byte, branches)
    return Traffic((2.0 * used, *steps), (payload_byte * (1.0 + 1.0 / inner) * used, *byte))


def _trees(payload_byte: Num, branches: Branches) -> tuple[tuple[Num, ...], tuple[Num, ...]]:
    """Steps and bytes of all-reducing over double binary trees at the outer tiers, the payload cut over the members inside."""
    inside = branches[0]
    steps: list[Num] = []
    byte: list[Num] = []
    for branch in branches[1:]:
        steps.append(2.0 * log2(branch))
        byte.append(2.0 * payload_byte * (1.0 - 1.0 / branch) / inside)
        inside = inside * branch
    return tuple(steps), tuple(byte)


def pairwise_all_to_all(payload_byte: Num, branches: Branches) -> Traffic:
    """Every rank sends S / n to each of the others: m_k - m_(k-1) messages of them over tier k, through the chip's own link.

    >>> pairwise_all_to_all(16.0, (8.0, 2.0))
    Traffic(steps=(7.0, 8.0), byte=(7.0, 8.0))
    """
    size: Num = 1.0
    for branch in branches:
        size = size * branch
    inside: Num = 1.0
    steps: list[Num] = []
    for branch in branches:
        further = inside * branch
        steps.append(further - inside)
        inside = further
    return Traffic(tuple(steps), tuple(payload_byte / size * step for step in steps))


def missed(total: Num, held: Num, drawn: int) -> Num:
    """Probability that ``drawn`` of ``total`` things, none twice, leave out a place that holds ``held`` of them.

    ``prod_i max(0, 1 - held / (total - i))``, the hypergeometric distribution at zero (Feller, An Introduction to Probability Theory,
    volume 1, section II.6).

    >>> missed(8, 4, 4), missed(4, 1, 4)
    (0.014285714285714285, 0.0)
    """
    chance: Num = 1.0
    for index in range(drawn):
        chance = chance * maximum(1.0 - held / (total - index), 0.0)
    return chance


def distinct(places: Num, draw: Draw) -> Num:
    """Of ``places`` that the things of ``draw`` are spread over evenly, how many a token meets on average.

    Groups are drawn first, then as many things in each: with ``q`` places to a group, ``p = min(places, groups)``,
    ``p (1 - missed groups) q (1 - missed things of the group)``.

    >>> distinct(1.0, Draw(total=256, drawn=8)), round(distinct(4.0, Draw(total=256, drawn=8)), 2)
    (1.0, 3.61)
    >>> round(distinct(2.0, Draw(total=256, drawn=8, groups=8, groups_drawn=4)), 2)
    1.97
    """
    units = minimum(places, 1.0 * draw.groups)
    inside = places / units
    per_group = draw.total / draw.groups
    met = units * (1.0 - missed(draw.groups, draw.groups / units, draw.groups_drawn))
    return met * inside * (1.0 - missed(per_group, per_group / inside, draw.drawn // draw.groups_drawn))


def routed_dispatch(payload_byte: Num, branches: Branches, draw: Draw) -> Traffic:
    """Tokens to the ranks of their experts, over each link once: to every unit that holds any, and inside it on to every rank that does.

    The two hops of DeepSeek-V3's dispatch (arXiv 2412.19437, section 3.2.2). A payload of tokens S meets ``d_k`` units of tier k on
    average (``distinct``) and sends S d_k (c_k - 1) / c_k there. One copy to one rank is the all-to-all's traffic on one tier.

    >>> routed_dispatch(8.0, (8.0, 1.0), Draw(total=8))
    Traffic(steps=(7.0, 0.0), byte=(7.0, 0.0))
    """
    places: Num = 1.0
    byte: list[Num] = []
    for branch in reversed(branches):
        places = places * branch
        byte.append(payload_byte * distinct(places, draw) * (1.0 - 1.0 / branch))
    return Traffic(tuple(branch - 1.0 for branch in branches), tuple(reversed(byte)))


def neighbour_send(payload_byte: Num, branches: Branches) -> Traffic:
    """Every rank sends S to the next one and receives S: one step; the pair that crosses a tier uses one chip's link there."""
    used = tuple(uses(branch) for branch in branches)
    return Traffic(used, tuple(payload_byte * one for one in used))


BY_OP: Mapping[CollectiveOp, tuple[tuple[Reduction, Algorithm], ...]] = {
    "all_reduce": (("chips", ring_all_reduce), ("chips", tree_all_reduce), ("switch", switch_all_reduce)),
    "all_gather": (("chips", ring_half),),
    "reduce_scatter": (("chips", ring_half),),
    "broadcast": (("chips", ring_broadcast),),
    "all_to_all": (("chips", pairwise_all_to_all),),
    "send_recv": (("chips", neighbour_send),),
}
"""The algorithms of every operation but ``dispatch``, whose traffic (``routed_dispatch``) depends on more than its payload."""
