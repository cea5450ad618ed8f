"""The catalogue against the data sheets: figures that everyone knows, and no peak with sparsity taken for a dense one."""

from __future__ import annotations

import math

import pytest

from foretrain.catalog import loader
from foretrain.core.constants import GB, GIB
from foretrain.core.errors import InputError
from foretrain.simulate.open import open_scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.system.chip import Chip

SHEETS = {  # chip: (16-bit dense TFLOP/s, memory bandwidth in GB/s, board power in W, memory in GB as sold)
    "p100-sxm2-16gb": (21.2, 732, 300, 16),
    "v100-sxm2-16gb": (125, 900, 300, 16),
    "v100-sxm2-32gb": (125, 900, 300, 32),
    "v100-pcie-32gb": (112, 900, 250, 32),
    "v100s-pcie-32gb": (130, 1134, 250, 32),
    "t4-16gb": (65, 320, 70, 16),
    "a10-24gb": (125, 600, 150, 24),
    "a30-24gb": (165, 933, 165, 24),
    "a40-48gb": (149.7, 696, 300, 48),
    "a100-sxm4-40gb": (312, 1555, 400, 40),
    "a100-sxm4-80gb": (312, 2039, 400, 80),
    "a100-pcie-40gb": (312, 1555, 250, 40),
    "a100-pcie-80gb": (312, 1935, 300, 80),
    "l4-24gb": (121, 300, 72, 24),
    "l40s-48gb": (362, 864, 350, 48),
    "rtx-a5000-24gb": (111, 768, 230, 24),
    "rtx-3090-24gb": (71, 936, 350, 24),
    "rtx-4090-24gb": (165, 1008, 450, 24),
    "h100-sxm5-80gb": (989.4, 3350, 700, 80),
    "h100-pcie-80gb": (756, 2000, 350, 80),
    "h100-nvl-94gb": (835, 3900, 400, 94),
    "h800-sxm5-80gb": (989.4, 3350, 700, 80),
    "h20-96gb": (148, 4000, 400, 96),
    "h200-sxm-141gb": (989.4, 4800, 700, 141),
    "h200-nvl-141gb": (835, 4800, 600, 141),
    "b200-sxm-180gb": (2250, 7700, 1000, 180),
    "b300-sxm-270gb": (2250, 7700, 1100, 270),
    "gb200-186gb": (2500, 8000, 1200, 186),
    "gb300-278gb": (2500, 8000, 1400, 278),
}
SPARSE_TFLOP_PER_S = {
    "a10-24gb": {"fp16": 250, "tf32": 125},
    "a30-24gb": {"fp16": 330, "tf32": 165},
    "a40-48gb": {"fp16": 299.4, "tf32": 149.6},
    "a100-sxm4-80gb": {"fp16": 624, "tf32": 312},
    "a100-pcie-80gb": {"fp16": 624, "tf32": 312},
    "rtx-a5000-24gb": {"fp16": 222.2},
    "rtx-3090-24gb": {"fp16": 142},
    "rtx-4090-24gb": {"fp16": 330.3, "fp8": 660.6},
    "l4-24gb": {"fp16": 242, "fp8": 485, "tf32": 120},
    "l40s-48gb": {"fp16": 733, "fp8": 1466, "tf32": 366},
    "h100-sxm5-80gb": {"fp16": 1979, "fp8": 3958, "tf32": 989},
    "h100-pcie-80gb": {"fp16": 1513, "fp8": 3026, "tf32": 756},
    "h100-nvl-94gb": {"fp16": 1671, "fp8": 3341, "tf32": 835},
    "h200-sxm-141gb": {"fp16": 1979, "fp8": 3958, "tf32": 989},
    "h20-96gb": {"fp16": 296, "fp8": 592},
    "b200-sxm-180gb": {"fp16": 4500, "fp8": 9000, "tf32": 2250},
    "b300-sxm-270gb": {"fp16": 4500, "fp8": 9000, "fp4": 18000},
    "gb200-186gb": {"fp16": 5000, "fp8": 10000, "fp4": 20000},
    "gb300-278gb": {"fp16": 5000, "fp8": 10000, "fp4": 20000},
}
"""What the sheets print with 2:4 sparsity (or, for GeForce, with sums in fp16)."""
WITHOUT_BF16 = {"k80-12gb", "m60-8gb", "p100-sxm2-16gb", "p100-pcie-16gb", "t4-16gb"}


NVIDIA_CHIPS = [name for name in loader.ids("chips") if loader.raw("chips", name)["name"].startswith("NVIDIA")]
NVIDIA_SYSTEMS = [
    name for name in loader.ids("systems") if loader.raw("servers", loader.raw("systems", name)["server"])["chip"] in NVIDIA_CHIPS
]


def chip(name: str) -> Chip:
    record: Chip = loader.load("chips", name)[0]
    return record


@pytest.mark.parametrize("name", SHEETS)
def test_chips_say_what_their_data_sheets_say(name: str) -> None:
    peak, bandwidth, power, sold = SHEETS[name]
    found = chip(name)
    assert found.dense_flop_per_s["fp16"] == pytest.approx(peak * 1e12, rel=2e-3)
    assert found.hbm_byte_per_s == pytest.approx(bandwidth * GB, rel=2e-3)
    assert found.tdp_w == power
    assert 0.92 * sold * GIB < found.hbm_byte <= sold * GIB  # drivers count in GiB; error correction may take a sixteenth
    assert found.hbm_byte - found.reserved_byte > 0.9 * sold * GIB


@pytest.mark.parametrize("name", SPARSE_TFLOP_PER_S)
def test_no_peak_is_one_with_sparsity(name: str) -> None:
    for dtype, sparse in SPARSE_TFLOP_PER_S[name].items():
        assert chip(name).dense_flop_per_s[dtype] < 0.8 * sparse * 1e12


@pytest.mark.parametrize("name", NVIDIA_CHIPS)
def test_narrower_numbers_are_never_slower(name: str) -> None:
    peaks = chip(name).dense_flop_per_s
    for narrow, wide in (("fp4", "fp8"), ("fp8", "fp16"), ("fp8", "bf16"), ("fp16", "fp32"), ("bf16", "tf32"), ("tf32", "fp32")):
        assert peaks.get(narrow, math.inf) >= peaks.get(wide, 0.0)


@pytest.mark.parametrize("name", sorted(WITHOUT_BF16 | {item for item in loader.ids("chips") if item.startswith("v100")}))
def test_chips_before_ampere_lack_bf16_and_its_fused_attention(name: str) -> None:
    assert "bf16" not in chip(name).dense_flop_per_s
    assert not chip(name).kernels.attention


def test_half_boards_are_half_boards() -> None:
    assert chip("k80-12gb").dense_flop_per_s["fp32"] == pytest.approx(8.74e12 / 2, rel=2e-3)
    assert chip("m60-8gb").dense_flop_per_s["fp32"] == pytest.approx(9.65e12 / 2, rel=2e-3)
    assert chip("k80-12gb").tdp_w == chip("m60-8gb").tdp_w == 150


def test_every_chip_is_part_of_a_system() -> None:
    servers = {loader.raw("systems", name)["server"] for name in loader.ids("systems")}
    assert {loader.raw("servers", server)["chip"] for server in servers} == set(loader.ids("chips"))


@pytest.mark.parametrize("name", NVIDIA_SYSTEMS)
def test_inner_tiers_hold_whole_servers(name: str) -> None:
    cluster, _ = loader.load_system(name, 1)
    inner, outer = cluster.fabric.tiers[0], cluster.fabric.tiers[-1]
    assert inner.size % cluster.server.num_chips == 0
    assert inner.byte_per_s * inner.efficiency >= outer.byte_per_s * outer.efficiency
    assert cluster.server.rated_w >= 0.9 * cluster.server.num_chips * cluster.server.chip.tdp_w


@pytest.mark.parametrize(
    ("name", "inner", "outer"),
    [
        ("dgx-1-v100", 150e9, 50e9 / 8),
        ("dgx-2-v100", 150e9, 50e9 / 8),
        ("aws-p3dn", 150e9, 100e9 / 8 / 8),
        ("aws-p4d", 300e9, 400e9 / 8 / 8),
        ("aws-p5", 450e9, 3200e9 / 8 / 8),
        ("azure-nd-a100-v4", 300e9, 200e9 / 8),
        ("gcp-a3-mega", 450e9, 200e9 / 8),
        ("hgx-h800", 200e9, 400e9 / 8),
        ("gb200-nvl72", 900e9, 400e9 / 8),
        ("dgx-b300", 900e9, 800e9 / 8),
        ("pcie-rtx-4090", 31.5e9, 25e9 / 8 / 8),
    ],
)
def test_links_are_per_chip_and_direction(name: str, inner: float, outer: float) -> None:
    tiers = loader.load_system(name, 1)[0].fabric.tiers
    assert [tier.byte_per_s for tier in tiers] == [pytest.approx(inner), pytest.approx(outer)]


@pytest.mark.parametrize(
    ("name", "precision"),
    [("aws-p2-16xlarge", "fp32"), ("dgx-1-v100", "fp16"), ("pcie-t4", "fp16"), ("workstation-rtx-4090", "bf16"), ("gb200-nvl72", "bf16")],
)
def test_small_and_large_systems_train_gpt2(name: str, precision: str) -> None:
    result = simulate_scenario(open_scenario("gpt2-124m", name, options={"precision": precision}))
    assert 0.05 < float(result.step.mfu) < 0.8


def test_a_rack_talks_by_nvlink_beyond_its_trays() -> None:
    options = {"precision": "bf16", "tp": 8, "pp": 1, "dp": 9}
    result = simulate_scenario(open_scenario("gpt3-175b", "gb200-nvl72", chips=72, options=options))
    assert float(result.step.mfu) > 0.1


def test_what_an_old_chip_lacks_is_said() -> None:
    notes = {note.field: note for note in open_scenario("gpt2-124m", "dgx-1-v100", options={"stack": "megatron-core"}).assumptions}
    assert notes["recipe.precision"].value == "fp16"
    assert "no fused attention" in notes["strategy.flash_attention"].reason
    with pytest.raises(InputError) as caught:
        open_scenario("gpt2-124m", "dgx-1-v100", options={"precision": "bf16"})
    assert "fp16" in caught.value.problems[0].allowed
    with pytest.raises(InputError) as caught:
        open_scenario("gpt2-124m", "dgx-1-v100", overrides=["strategy.flash_attention=true"])
    (problem,) = caught.value.problems
    assert problem.field == "strategy.build.attention_kernel"
    assert "flash_attention=false" in problem.allowed
