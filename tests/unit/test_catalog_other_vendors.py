"""AMD, Google, Intel and Amazon chips, their systems, and the sites: data-sheet values, kernels that fit few processors, whole systems."""

from __future__ import annotations

import dataclasses

import pytest

from foretrain.catalog import loader
from foretrain.compute.tiled import Tiled
from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.errors import InputError
from foretrain.network.alphabeta import AlphaBeta
from foretrain.program.program import Group
from foretrain.program.rows import Rows
from foretrain.simulate.open import open_scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.strategy.build import Build
from foretrain.system.chip import Chip

SHEETS = {
    # chip: dense bf16 TFLOP/s, TB/s, GiB, W, matrix processors
    "mi210-pcie-64gb": (181, 1.6384, 64, 300, 104),
    "mi250x-gcd-64gb": (191.5, 1.6384, 64, 280, 110),
    "mi300x-oam-192gb": (1307.4, 5.3, 192, 750, 304),
    "mi325x-oam-256gb": (1307.4, 6.0, 256, 1000, 304),
    "mi350x-oam-288gb": (2307, 8.0, 288, 1000, 256),
    "mi355x-oam-288gb": (2516.6, 8.0, 288, 1400, 256),
    "tpu-v3": (123, 0.9, 32, 262, 2),
    "tpu-v4": (275, 1.2, 32, 192, 2),
    "tpu-v5e": (197, 0.819, 16, 140, 1),
    "tpu-v5p": (459, 2.765, 95, 350, 2),
    "tpu-v6e": (918, 1.638, 32, 250, 1),
    "tpu-v7": (2307, 7.38, 192, 980, 2),
    "gaudi1": (60, 0.9, 32, 400, 1),
    "gaudi2": (432, 2.46, 96, 600, 2),
    "gaudi3": (1835, 3.67, 128, 900, 8),
    "trainium1": (190, 0.82, 32, 200, 2),
    "trainium2": (667, 2.9, 96, 500, 8),
}
SYSTEMS = {
    "mi210-pcie": "rocm-megatron", "frontier": "rocm-megatron", "mi300x-8": "rocm-megatron", "mi325x-8": "rocm-megatron",
    "mi350x-8": "rocm-megatron", "mi355x-8": "rocm-megatron", "azure-nd-mi300x-v5": "rocm-megatron", "tpu-v3-pod": "maxtext",
    "tpu-v4-pod": "maxtext", "tpu-v5e-pod": "maxtext", "tpu-v5p-pod": "maxtext", "tpu-v6e-pod": "maxtext", "tpu-v7-pod": "maxtext",
    "gaudi1-8": "gaudi", "gaudi2-8": "gaudi", "gaudi3-8": "gaudi", "aws-trn1": "neuron", "aws-trn2": "neuron",
    "aws-trn2-ultraserver": "neuron",
}  # fmt: skip
LEAST_EFFICIENCY_AT_8192 = 0.93
"""Share of the stated efficiency that a large square product must keep: waves and starts cost little there."""


def chip(name: str) -> Chip:
    record: Chip = loader.load("chips", name)[0]
    return record


def matmul_s(on: Chip, m: float, n: float, k: float, dtype: str = "bf16") -> float:
    rows = Rows()
    rows.matmul("x", "forward", dtype, m, n, k, 1.0, (m * k + k * n + m * n) * DTYPE_BYTE[dtype])
    return float(Tiled().time(rows.ops(next(iter(on.kernels.attention))), on).matmul_s[0])


def share_of_peak(on: Chip, size: float) -> float:
    return 2 * size**3 / matmul_s(on, size, size, size) / float(on.dense_flop_per_s["bf16"])


@pytest.mark.parametrize("name", SHEETS)
def test_data_sheet_values(name: str) -> None:
    tera_flop, tera_byte, gib, watt, processors = SHEETS[name]
    record = chip(name)
    assert record.dense_flop_per_s["bf16"] == pytest.approx(tera_flop * 1e12)
    assert record.hbm_byte_per_s == pytest.approx(tera_byte * 1e12)
    assert record.hbm_byte == gib * 2**30
    assert record.tdp_w == watt
    assert record.num_sm == processors
    assert 0 < record.idle_w < record.tdp_w


@pytest.mark.parametrize(("name", "fp8"), [("mi300x-oam-192gb", 2614.9), ("mi355x-oam-288gb", 5033), ("tpu-v7", 4614), ("trainium2", 1299)])
def test_eight_bit_peaks_are_dense(name: str, fp8: float) -> None:
    record = chip(name)
    assert record.dense_flop_per_s["fp8"] == pytest.approx(fp8 * 1e12)
    assert record.dense_flop_per_s["fp8"] / record.dense_flop_per_s["bf16"] == pytest.approx(2.0, rel=0.03)


def test_two_dies_share_the_card_of_an_mi250x() -> None:
    die = chip("mi250x-gcd-64gb")
    assert 2 * die.dense_flop_per_s["bf16"] == pytest.approx(383e12)
    assert 2 * die.tdp_w == 560
    assert "both dies" in loader.load("chips", "mi250x-gcd-64gb")[1]["tdp_w"].note


@pytest.mark.parametrize("name", SHEETS)
def test_large_products_reach_the_stated_efficiency_and_small_ones_fall_off(name: str) -> None:
    record = chip(name)
    stated = float(record.kernels.matmul_efficiency["bf16"])
    shares = [share_of_peak(record, size) for size in (512.0, 1024.0, 2048.0, 4096.0, 8192.0)]
    assert shares == sorted(shares)
    assert LEAST_EFFICIENCY_AT_8192 * stated <= shares[-1] <= stated
    assert shares[0] < 0.7 * stated


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_us"),
    [
        (32, 12288, 12288, 549.3),
        (256, 12288, 12288, 769.9),
        (1024, 12288, 12288, 2717.3),
        (8192, 2048, 2048, 582.2),
        (8192, 8192, 8192, 9415.0),
    ],
)
def test_mi210_meets_published_products(m: int, n: int, k: int, measured_us: float) -> None:
    """The timings that the constants were set by: how far the model's shape can follow them, no test of its prediction."""
    assert matmul_s(chip("mi210-pcie-64gb"), m, n, k, "fp16") * 1e6 == pytest.approx(measured_us, rel=0.2)


@pytest.mark.parametrize(
    ("size", "measured_us"), [(128, 1.619), (512, 2.555), (1024, 6.14), (2048, 25.291), (4096, 153.9), (16384, 9257.8)]
)
def test_one_core_of_tpu_v7_meets_published_products(size: int, measured_us: float) -> None:
    """As above, the timings behind the constants."""
    whole = chip("tpu-v7")
    core = dataclasses.replace(
        whole, num_sm=1, hbm_byte_per_s=whole.hbm_byte_per_s / 2, dense_flop_per_s={"bf16": whole.dense_flop_per_s["bf16"] / 2}
    )
    assert matmul_s(core, size, size, size) * 1e6 == pytest.approx(measured_us, rel=0.25)


@pytest.mark.parametrize(
    ("ranks", "mebibyte", "busbw"), [(8, 4096, 312.9e9), (16, 8, 66.8e9), (16, 64, 193.5e9), (16, 512, 322.8e9), (16, 8192, 341.5e9)]
)
def test_mi300x_meets_published_all_reduces(ranks: int, mebibyte: int, busbw: float) -> None:
    """Only the large ones set a constant. A pair of chips is left out: it has one of the seven links, the model gives it all."""
    fabric, _ = loader.load("fabrics", "mi300x-8")
    payload_byte = float(mebibyte * 2**20)
    seconds = AlphaBeta().time("all_reduce", Group(axis="dp", size=float(ranks), stride=1.0), payload_byte, fabric)
    assert 2 * (ranks - 1) / ranks * payload_byte / float(seconds) == pytest.approx(busbw, rel=0.25)


def test_every_chip_is_reachable_from_a_system() -> None:
    reached = {loader.raw("servers", loader.raw("systems", name)["server"])["chip"] for name in SYSTEMS}
    assert reached == set(SHEETS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_are_whole(name: str) -> None:
    cluster, passports = loader.load_system(name, 64)
    names = loader.raw("systems", name)
    sizes = [float(tier.size) for tier in cluster.fabric.tiers]
    rates = [float(tier.byte_per_s) for tier in cluster.fabric.tiers]
    assert names["stack"] == SYSTEMS[name]
    assert len(sizes) >= 2
    assert sizes == sorted(sizes)
    assert rates == sorted(rates, reverse=True)
    word = loader.raw("stacks", names["stack"])["build"].get("attention_kernel", Build().attention_kernel)
    assert word in cluster.server.chip.kernels.attention
    chips_w = cluster.server.num_chips * cluster.server.chip.tdp_w
    assert cluster.server.host_idle_w <= cluster.server.host_busy_w < cluster.server.rated_w
    assert chips_w < cluster.server.rated_w < 2 * chips_w
    assert passports


@pytest.mark.parametrize("name", ["frontier", "mi300x-8", "tpu-v5p-pod", "gaudi2-8", "aws-trn2"])
def test_a_model_of_eight_billion_trains_on_each_family(name: str) -> None:
    result = simulate_scenario(open_scenario("llama-3.1-8b", name, chips=64))
    assert 0.2 < float(result.step.mfu) < 0.8


def test_a_kernel_that_the_chip_lacks_is_refused_by_name() -> None:
    with pytest.raises(InputError) as caught:
        open_scenario("llama-3.1-8b", "tpu-v5p-pod", 8, overrides=["strategy.build.attention_kernel=cudnn"])
    (problem,) = caught.value.problems
    assert problem.field == "strategy.build.attention_kernel"
    assert (problem.value, problem.allowed, problem.nearest) == ("cudnn", "splash", ("splash",))


def test_a_stack_takes_the_kernel_that_the_chip_has_and_says_so() -> None:
    scenario = open_scenario("llama-3.1-8b", "tpu-v5p-pod", chips=8, options={"stack": "megatron-core"})
    assert scenario.strategy.build.attention_kernel == "splash"
    assert "strategy.build.attention_kernel" in {note.field for note in scenario.assumptions}


def test_tpus_have_no_half_precision_of_their_own() -> None:
    assert "fp16" not in chip("tpu-v5p").dense_flop_per_s


def test_sites_are_ordered_as_their_grids() -> None:
    intensity = {name: float(loader.load("sites", name)[0].location_kg_per_j) for name in loader.ids("sites")}
    assert (
        intensity["norway"] < intensity["sweden"] < intensity["france"] < intensity["us-average"] < intensity["poland"] < intensity["india"]
    )
    assert intensity["us-washington"] < intensity["us-oregon"] < intensity["us-iowa"] < intensity["us-ohio"]
    assert intensity["quebec"] == min(intensity.values())
    assert len(intensity) >= 16


@pytest.mark.parametrize("name", loader.ids("sites"))
def test_a_site_without_a_contract_has_the_grid_mean_as_market_intensity(name: str) -> None:
    site, passports = loader.load("sites", name)
    assert site.market_kg_per_j == site.location_kg_per_j
    assert "contract" in passports["market_kg_per_j"].note
    assert 1.0 <= site.pue <= 1.6
