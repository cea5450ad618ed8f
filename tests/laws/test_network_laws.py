"""Laws of collectives: nothing at one rank, one formula for scalars and arrays, monotone, never faster than the wire, free of units."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.catalog import loader
from foretrain.network.alphabeta import AlphaBeta
from foretrain.network.bandwidth import busbw
from foretrain.program.program import CollectiveOp, Group
from foretrain.system.fabric import Fabric, Tier

FABRICS: dict[str, Fabric] = {name: loader.load("fabrics", name)[0] for name in loader.ids("fabrics")}
OPS: tuple[CollectiveOp, ...] = get_args(CollectiveOp)
ops = st.sampled_from(OPS)
fabrics = st.sampled_from(sorted(FABRICS))
two_tiers = st.sampled_from(sorted(name for name, fabric in FABRICS.items() if len(fabric.tiers) == 2))
powers = st.integers(0, 11).map(lambda k: 2.0**k)
payloads = st.floats(1.0, 2e10)


def time_s(op: CollectiveOp, size: float, stride: float, payload_byte: float, fabric: Fabric) -> float:
    return float(AlphaBeta().time(op, Group(axis="dp", size=size, stride=stride), payload_byte, fabric))


@given(ops, fabrics, powers, payloads)
def test_one_rank_costs_nothing(op: CollectiveOp, name: str, stride: float, payload_byte: float) -> None:
    assert time_s(op, 1.0, stride, payload_byte, FABRICS[name]) == 0.0


@pytest.mark.parametrize("name", sorted(FABRICS))
@pytest.mark.parametrize("op", OPS)
def test_scalar_equals_array(op: CollectiveOp, name: str) -> None:
    random = np.random.default_rng(7)
    size, stride = (np.exp2(np.asarray(random.integers(0, top, 1000), dtype=np.float64)) for top in (12, 8))
    payload = 10.0 ** random.uniform(0, 10, 1000)
    together = AlphaBeta().time(op, Group(axis="dp", size=size, stride=stride), payload, FABRICS[name])
    single = [time_s(op, *row, FABRICS[name]) for row in zip(size.tolist(), stride.tolist(), payload.tolist(), strict=True)]
    np.testing.assert_allclose(together, single, rtol=1e-12)


@given(ops, fabrics, powers, powers, payloads, payloads)
def test_more_bytes_never_take_less_time(op: CollectiveOp, name: str, size: float, stride: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert time_s(op, size, stride, low, FABRICS[name]) <= time_s(op, size, stride, high, FABRICS[name])


@given(fabrics, powers, powers)
def test_a_large_all_reduce_is_between_two_fifths_and_all_of_its_halves(name: str, size: float, stride: float) -> None:
    """As a ring it is exactly reduce-scatter and all-gather; trees across servers and adding switches save at most three fifths."""
    fabric, payload_byte = FABRICS[name], 1e12
    halves = time_s("reduce_scatter", size, stride, payload_byte, fabric) + time_s("all_gather", size, stride, payload_byte, fabric)
    assert 0.4 * halves <= time_s("all_reduce", size, stride, payload_byte, fabric) <= halves


def ideal(tier: Tier) -> Tier:
    """The same links without any loss or latency."""
    return replace(
        tier, efficiency=1.0, small_efficiency=1.0, hop_s=0.0, small_hop_s=0.0, collective_s=0.0, reduction_s=0.0,
        in_network_reduction=float(tier.in_network_reduction > 0),
    )  # fmt: skip


def wire_bound(op: CollectiveOp, inside: float, outside: float, fabric: Fabric) -> float:
    """The highest bus bandwidth that the links allow [B/s], infinite where a tier is not used.

    Inside: the wire, or with an adding switch 2 (g - 1) / (g + 1) of it for an all-reduce among g chips of a server. Across N servers:
    the NICs of all g members; an all-reduce needs them for 2 S (N - 1) / N only, an all-to-all for S (n - g) / n by one NIC.
    """
    inner, outer = fabric.tiers
    size = inside * outside
    share = (size - 1) / size
    own = {"broadcast": 1.0, "send_recv": 1.0}.get(op, share)
    inner_byte = {"all_reduce": (inside - 1) / inside, "all_to_all": (inside - 1) / size, "dispatch": 1 - 1 / inside}.get(
        op, own * (inside > 1)
    )
    if op == "all_reduce" and inner.in_network_reduction > 0 and inside > 1:
        inner_byte = min(inner_byte, (1 + 1 / inside) / 2)
    outer_byte = {
        "all_reduce": (1 - 1 / outside) / inside,
        "all_to_all": (size - inside) / size,
        "dispatch": 1 - 1 / outside,
        "send_recv": 1.0 * (outside > 1),
    }.get(op, own / inside * (outside > 1))
    bounds = [own * float(link.byte_per_s) / byte for link, byte in ((inner, inner_byte), (outer, outer_byte)) if byte > 0]
    return min(bounds, default=float("inf"))


@given(ops, two_tiers, st.integers(0, 3), st.integers(0, 8), payloads)
def test_nothing_is_faster_than_the_wire(op: CollectiveOp, name: str, inner: int, outer: int, payload_byte: float) -> None:
    known = FABRICS[name]
    inside, outside = min(2.0**inner, float(known.tiers[0].size)), 2.0**outer
    size, stride = inside * outside, (float(known.tiers[0].size) / inside if outside > 1 else 1.0)
    bound = wire_bound(op, inside, outside, known)
    if size > 1:
        real = busbw(op, size, payload_byte, time_s(op, size, stride, payload_byte, known))
        lossless = replace(known, tiers=tuple(ideal(tier) for tier in known.tiers))
        best = busbw(op, size, payload_byte, time_s(op, size, stride, payload_byte, lossless))
        assert real <= best
        assert best <= bound * (1 + 1e-9)


@pytest.mark.parametrize("op", OPS)
def test_without_an_adding_switch_a_server_is_bound_by_its_wire(op: CollectiveOp) -> None:
    fabric = FABRICS["dgx-a100"]
    for size in (2.0, 4.0, 8.0):
        assert busbw(op, size, 1e10, time_s(op, size, 1.0, 1e10, fabric)) <= fabric.tiers[0].byte_per_s


def scaled(tier: Tier, byte: float, second: float) -> Tier:
    """The same tier in other units of data and time."""
    return replace(
        tier, byte_per_s=tier.byte_per_s * byte / second, hop_s=tier.hop_s * second, small_hop_s=tier.small_hop_s * second,
        collective_s=tier.collective_s * second, reduction_s=tier.reduction_s * second,
    )  # fmt: skip


@given(ops, fabrics, powers, powers, payloads, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_units_of_data_and_time_do_not_matter(
    op: CollectiveOp, name: str, size: float, stride: float, payload_byte: float, byte: float, second: float
) -> None:
    fabric = FABRICS[name]
    other = replace(fabric, tiers=tuple(scaled(tier, byte, second) for tier in fabric.tiers))
    expected = second * time_s(op, size, stride, payload_byte, fabric)
    assert time_s(op, size, stride, payload_byte * byte, other) == pytest.approx(expected, rel=1e-9)


@given(two_tiers, st.integers(5, 10))
def test_small_all_reduces_grow_with_the_logarithm_of_the_servers(name: str, doublings: int) -> None:
    """From 32 servers on, twice the servers add two network steps at most: no ring."""
    fabric = FABRICS[name]
    one, two = (time_s("all_reduce", float(fabric.tiers[0].size) * 2**k, 1.0, 1024.0, fabric) for k in (doublings, doublings + 1))
    assert two - one <= 2 * float(fabric.tiers[1].hop_s) + 1e-6
