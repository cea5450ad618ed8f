"""Collectives: placement, what each algorithm asks of the wires, seconds by hand, published timings read and fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foretrain.catalog import loader
from foretrain.network.algorithms import neighbour_send, pairwise_all_to_all, ring_all_reduce, ring_half, tree_all_reduce
from foretrain.network.alphabeta import AlphaBeta
from foretrain.network.bandwidth import algbw, busbw
from foretrain.network.placement import place
from foretrain.program.program import CollectiveOp, Group
from foretrain.system.fabric import Fabric, Tier
from foretrain.validate.collectives import Series, fit, load_membership, load_timings, log_error, sort_timings, spread

US = 1e-6


def tier(size: int, byte_per_s: float, hop_s: float, switch: float = 0.0) -> Tier:
    return Tier(
        name="tier",
        size=size,
        byte_per_s=byte_per_s,
        efficiency=0.8,
        hop_s=hop_s,
        small_hop_s=hop_s / 4,
        small_efficiency=0.25,
        collective_s=10 * US,
        in_network_reduction=switch,
        reduction_s=20 * US,
    )


def fabric(switch: float = 0.0) -> Fabric:
    tiers = (tier(8, 400e9, 4 * US, switch), tier(1_000_000, 50e9, 16 * US))
    return Fabric(name="test", topology="rail-optimised fat tree", tiers=tiers, switch_w=0.0)


def group(size: float, stride: float = 1.0) -> Group:
    return Group(axis="dp", size=size, stride=stride)


def seconds(op: CollectiveOp, size: float, payload_byte: float, stride: float = 1.0, switch: float = 0.0) -> float:
    return float(AlphaBeta().time(op, group(size, stride), payload_byte, fabric(switch)))


@pytest.mark.parametrize(
    ("size", "stride", "branches"),
    [(8, 1, (8, 1)), (16, 1, (8, 2)), (64, 8, (1, 64)), (4, 4, (2, 2)), (2, 64, (1, 2)), (1, 0, (1, 1)), (2, 2, (2, 1))],
)
def test_a_group_is_placed_by_its_size_and_stride(size: int, stride: int, branches: tuple[int, int]) -> None:
    assert place(group(size, stride), fabric()) == branches


def test_placement_goes_through_any_number_of_tiers() -> None:
    inner, outer = fabric().tiers
    three = replace(fabric(), tiers=(inner, replace(outer, size=32), outer))
    assert place(group(128, 1), three) == (8, 4, 4)
    assert place(group(8, 16), three) == (1, 2, 4)


def test_a_flat_ring_crosses_every_boundary_once() -> None:
    traffic = ring_all_reduce(32.0, (8.0, 2.0))
    assert traffic.steps == (28.0, 2.0)
    assert traffic.byte == (60.0, 7.5)
    assert ring_half(32.0, (8.0, 2.0)).byte == (30.0, 3.75)


def test_a_tree_across_servers_halves_the_bytes_on_the_nics_of_two() -> None:
    traffic = tree_all_reduce(32.0, (8.0, 2.0))
    assert traffic.byte == (56.0, 4.0)
    assert traffic.steps == (14.0, 2.0)


def test_all_to_all_uses_the_own_nic_only() -> None:
    assert pairwise_all_to_all(16.0, (8.0, 2.0)).byte == (7.0, 8.0)
    assert neighbour_send(16.0, (1.0, 2.0)).byte == (0.0, 16.0)


def test_a_large_ring_all_reduce_by_hand() -> None:
    assert seconds("all_reduce", 8, 8e8) == pytest.approx(10 * US + 14 * 4 * US + 2 * 7 / 8 * 8e8 / (400e9 * 0.8))


def test_a_small_ring_all_reduce_uses_the_low_latency_protocol() -> None:
    assert seconds("all_reduce", 8, 8e3) == pytest.approx(10 * US + 14 * 1 * US + 2 * 7 / 8 * 8e3 / (400e9 * 0.25))


def test_a_switch_that_adds_beats_the_ring_on_eight_chips() -> None:
    by_hand = 10 * US + 2 * 20 * US + 9 / 8 * 8e9 / (400e9 * 0.7)
    assert seconds("all_reduce", 8, 8e9, switch=0.7) == pytest.approx(by_hand)
    assert seconds("all_reduce", 8, 8e9, switch=0.7) < seconds("all_reduce", 8, 8e9)
    assert seconds("all_gather", 8, 8e9, switch=0.7) == seconds("all_gather", 8, 8e9)


def test_one_rank_per_server_has_one_nic() -> None:
    expected = 10 * US + 63 * 16 * US + 63 / 64 * 64e9 / (50e9 * 0.8)
    assert seconds("all_gather", 64, 64e9, stride=8) == pytest.approx(expected)


def test_sending_to_a_neighbour_on_another_server() -> None:
    assert seconds("send_recv", 2, 1e8, stride=64) == pytest.approx(10 * US + 16 * US + 1e8 / (50e9 * 0.8))


def test_small_messages_to_2048_ranks_do_not_go_round_a_ring() -> None:
    ring_latency_s = (2 * (2048 - 256) * 1 + 2 * 255 * 4) * US
    by_hand = 2 * 10 * US + (2 * 7 * 1 + 2 * 8 * 4) * US
    assert seconds("all_reduce", 2048, 1.0) == pytest.approx(by_hand, rel=1e-3)
    assert seconds("all_reduce", 2048, 1.0) < ring_latency_s / 20


def test_bandwidths_are_those_of_nccl_tests() -> None:
    assert algbw(1e9, 0.5) == 2e9
    assert busbw("all_reduce", 16, 17179869184, 44870.6e-6) == pytest.approx(717.89e9, rel=1e-3)
    assert busbw("all_gather", 8, 17179869184, 22357e-6) == pytest.approx(672.38e9, rel=1e-3)
    assert busbw("send_recv", 8, 1e9, 0.5) == busbw("broadcast", 8, 1e9, 0.5) == 2e9


@pytest.mark.parametrize(
    ("name", "op", "ranks", "payload_byte", "measured_s"),
    [
        ("dgx-a100", "all_reduce", 8, 8589934592, 63896e-6),
        ("dgx-a100", "all_gather", 8, 8589934592, 33646e-6),
        ("dgx-h100", "all_reduce", 8, 17179869184, 62648e-6),
        ("dgx-h100", "all_reduce", 16, 17179869184, 69338e-6),
        ("dgx-b200", "all_reduce", 8, 17179869184, 35667.8e-6),
        ("dgx-b200", "all_gather", 16, 17179869184, 52287.3e-6),
    ],
)
def test_catalogue_fabrics_reach_published_plateaus(name: str, op: CollectiveOp, ranks: int, payload_byte: int, measured_s: float) -> None:
    known: Fabric = loader.load("fabrics", name)[0]
    assert float(AlphaBeta().time(op, group(ranks), payload_byte, known)) == pytest.approx(measured_s, rel=0.12)


FIRST_LAYOUT = """id,collective,bytes,num_ranks,ranks_per_node,accelerator,algorithm,time_us,busbw_gbps
vultr-1,all_reduce,1048576,8,8,B200-SXM,,30,
vultr-2,all_gather,17179869184,16,8,B200-SXM,,,308.03
stas-3,all_reduce,8589934592,8,8,B200-SXM,Ring (NVLS off),22035.2,
vultr-4,all_reduce,512,8,8,B200-SXM,,30,
vultr-5,ib_write_bw,4096,2,1,B200-SXM,,30,
vultr-6,all_reduce,4096,,8,B200-SXM,,30,
"""
SECOND_LAYOUT = """source,device,op,bytes,num_devices,devices_per_node,measured_us
VIA-Research/vTrain:trace/x,A100-SXM4,all_reduce,1048576,4,4,51.0
"""


def read(folder: Path) -> list[Series]:
    (folder / "first.csv").write_text(FIRST_LAYOUT)
    (folder / "second.csv").write_text(SECOND_LAYOUT)
    return sort_timings(load_timings(folder / "first.csv") + load_timings(folder / "second.csv"), load_membership())


def test_both_layouts_are_read_and_sorted(tmp_path: Path) -> None:
    found = {(one.name, one.op, one.size, one.tier, one.role): one for one in read(tmp_path)}
    assert set(found) == {
        ("vTrain", "all_reduce", 4, 0, "fit"),
        ("Vultr", "all_reduce", 8, 0, "fit"),
        ("Vultr", "all_gather", 16, 1, "fit"),
        ("ml-engineering", "all_reduce", 8, 0, "fit"),
    }
    gathered = found["Vultr", "all_gather", 16, 1, "fit"]
    assert gathered.measured_s[0] == pytest.approx(52.287e-3, rel=1e-3)
    assert found["ml-engineering", "all_reduce", 8, 0, "fit"].switch_off


def test_no_timing_both_fits_and_judges() -> None:
    seen = set()
    for entry in load_membership():
        assert entry["role"] in ("fit", "test", "elsewhere")
        assert entry["fabric"] in loader.ids("fabrics")
        for op in entry["ops"]:
            for size in entry["sizes"]:
                key = (entry["source"], entry["chip"], op, size, entry["servers"])
                assert entry["role"] == "test" or key not in seen or entry.get("switch_off")
                seen.add(key)


def made(truth: Fabric, op: CollectiveOp, size: int) -> Series:
    payload = 2.0 ** np.arange(10.0, 33.0)
    time_s = AlphaBeta().time(op, group(size), payload, truth)
    return Series(
        name="made", fabric="made", role="fit", op=op, size=size, per_server=size, switch_off=False, payload_byte=payload,
        measured_s=np.asarray(time_s),
    )  # fmt: skip


def test_a_fit_finds_the_constants_that_made_the_timings() -> None:
    truth = fabric()
    series = [made(truth, "all_reduce", 2), made(truth, "all_reduce", 8), made(truth, "all_gather", 8)]
    fields = ("efficiency", "hop_s", "collective_s")
    start = {"made": replace(truth, tiers=(replace(truth.tiers[0], efficiency=0.6, hop_s=2e-6, collective_s=5e-6), truth.tiers[1]))}
    found = fit(series, start, 0, fields, starts=2, tries=400)
    assert max(log_error(one, found["made"], AlphaBeta()) for one in series) < 0.01
    assert found["made"].tiers[0].efficiency == pytest.approx(0.8, rel=0.02)
    off = {"made": replace(truth, tiers=(replace(truth.tiers[0], efficiency=0.79), truth.tiers[1]))}
    low, high = spread(series, off, 0, "efficiency")
    assert low <= 0.79 <= high
