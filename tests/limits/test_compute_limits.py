"""Where the coarse model is exact, the fine one agrees with it."""

from __future__ import annotations

import dataclasses

import pytest

from foretrain.catalog.loader import load
from foretrain.compute.roofline import Roofline
from foretrain.compute.tiled import Tiled
from foretrain.program.op import Ops
from foretrain.program.rows import Rows

CHIPS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb")


def product(m: float, n: float, k: float) -> Ops:
    rows = Rows()
    rows.matmul("x", "forward", "bf16", m, n, k, 1.0, 2 * (m * k + k * n + m * n))
    return rows.ops("flash2")


@pytest.mark.parametrize("name", CHIPS)
def test_huge_aligned_products_are_at_the_roofline(name: str) -> None:
    chip, _ = load("chips", name)
    ops = product(65536.0, 65536.0, 65536.0)
    assert Tiled().time(ops, chip).matmul_s == pytest.approx(Roofline().time(ops, chip).matmul_s, rel=0.02)


@pytest.mark.parametrize("name", CHIPS)
def test_without_edges_whole_waves_are_the_roofline(name: str) -> None:
    chip, _ = load("chips", name)
    smooth = dataclasses.replace(chip, kernels=dataclasses.replace(chip.kernels, wave_s=0.0))
    tile = chip.kernels.tiles[0]
    ops = product(tile.m * chip.num_sm, tile.n * 8.0, 8192.0)
    assert Tiled().time(ops, smooth).matmul_s == pytest.approx(Roofline().time(ops, smooth).matmul_s, rel=1e-12)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_long_sequences_reach_the_kernels_rate(phase: str, name: str) -> None:
    chip, _ = load("chips", name)
    rows = Rows()
    rows.attention("a", phase, 1048576.0, 1048576.0, 128.0, 16.0, 0.5, 0.0)  # type: ignore[arg-type]
    ops = rows.ops("cudnn")
    assert Tiled().time(ops, chip).attention_s == pytest.approx(Roofline().time(ops, chip).attention_s, rel=0.02)


@pytest.mark.parametrize("name", CHIPS)
def test_streams_are_the_roofline(name: str) -> None:
    chip, _ = load("chips", name)
    rows = Rows()
    rows.stream("s", "forward", 1e9, flop=1e6, kernels=2.0)
    ops = rows.ops("flash2")
    assert Tiled().time(ops, chip).stream_s == Roofline().time(ops, chip).stream_s
