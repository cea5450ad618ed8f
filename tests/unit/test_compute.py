"""Op times against hand arithmetic, and the reading of published timings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from foretrain.catalog.loader import load
from foretrain.compute.roofline import Roofline
from foretrain.compute.tiled import Tiled, blocks
from foretrain.program.rows import Rows
from foretrain.system.chip import AttentionKernel, Chip, Kernels, Tile
from foretrain.validate.kernels import evaluate, fit, load_membership, load_timings, sort_timings, with_value

CHIP = Chip(
    name="round numbers",
    dense_flop_per_s={"bf16": 100e12, "fp8": 200e12},
    vector_flop_per_s=10e12,
    num_sm=100,
    hbm_byte=80e9,
    hbm_byte_per_s=2e12,
    l2_byte=40e6,
    tdp_w=400.0,
    idle_w=50.0,
    reserved_byte=0.0,
    kernels=Kernels(
        measured_on="nothing",
        matmul_efficiency={"bf16": 0.8, "fp8": 0.5},
        stream_efficiency=0.5,
        kernel_s=1e-6,
        wave_s=2e-6,
        tiles=(Tile(m=128, n=256, efficiency=1.0),),
        attention={
            "flash2": AttentionKernel(forward_efficiency=0.5, backward_efficiency=0.25, q_tile=128, ramp_len=100.0, softmax_head_dim=32.0)
        },
    ),
)


def test_one_full_wave_of_tiles() -> None:
    rows = Rows()
    rows.matmul("x", "forward", "bf16", 1280.0, 2560.0, 4096.0, 1.0, 0.0)
    # 10 x 10 tiles on 100 processors, each with 0.8e12 FLOP/s
    assert Tiled().time(rows.ops("flash2"), CHIP).matmul_s[0] == pytest.approx(2 * 128 * 256 * 4096 / 0.8e12 + 2e-6 + 1e-6)


def test_a_tile_too_many_costs_a_wave_or_a_split() -> None:
    rows = Rows()
    for k in (256.0, 65536.0):
        rows.matmul("x", "forward", "bf16", 1280.0, 2561.0, k, 1.0, 0.0)
    times = Tiled().time(rows.ops("flash2"), CHIP).matmul_s - 1e-6
    tile_s = 2 * 128 * 256 * np.array([256.0, 65536.0]) / 0.8e12 + 2e-6
    partial_s = 100 * 128 * 256 * 8 / 1e12
    assert times[0] == pytest.approx(2 * tile_s[0])
    assert times[1] == pytest.approx(1.1 * tile_s[1] + 2e-6 + partial_s)


def test_each_row_runs_at_the_rate_of_its_type() -> None:
    rows = Rows()
    for dtype in ("bf16", "fp8"):
        rows.matmul("x", "forward", dtype, 1280.0, 2560.0, 8192.0, 1.0, 0.0)
    ideal_s = Tiled().time(rows.ops("flash2"), CHIP).matmul_ideal_s
    assert ideal_s == pytest.approx(2 * 1280 * 2560 * 8192 / np.array([80e12, 100e12]))


def test_attention_by_hand() -> None:
    rows = Rows()
    rows.attention("a", "forward", 1024.0, 1024.0, 128.0, 1000.0, 0.5, 0.0)
    rows.attention("a", "backward", 1024.0, 1024.0, 64.0, 1000.0, 1.0, 0.0)
    times = Tiled().time(rows.ops("flash2"), CHIP)
    waves = 8 * 1000 / 100 + 0.5
    causal = waves * (512 + 64 + 100) * 4 * 128 * 128 / (1e12 * 0.5) + 1e-6
    # at head_dim 64: (1 + 32 / 64) / (1 + 32 / 128) = 1.2 times as long per product
    full = waves * (1024 + 100) * 10 * 64 * 1.2 * 128 / (1e12 * 0.25) + 3e-6
    assert times.attention_s == pytest.approx([causal, full])
    assert times.attention_kernels.tolist() == [1.0, 3.0]


def test_few_heads_wait_for_the_longest_block() -> None:
    rows = Rows()
    rows.attention("a", "forward", 1024.0, 1024.0, 128.0, 1.0, 0.5, 0.0)
    assert Tiled().time(rows.ops("flash2"), CHIP).attention_s[0] == pytest.approx((1024 + 100) * 4 * 128 * 128 / (1e12 * 0.5) + 1e-6)


def test_bytes_are_a_floor() -> None:
    rows = Rows()
    rows.matmul("x", "forward", "bf16", 1.0, 8192.0, 8192.0, 1.0, 1e9)
    rows.attention("a", "forward", 128.0, 128.0, 128.0, 1.0, 1.0, 1e9)
    rows.stream("s", "forward", 1e9, flop=1.0, kernels=3.0)
    rows.stream("v", "forward", 1.0, flop=1e12)
    times = Tiled().time(rows.ops("flash2"), CHIP)
    assert times.matmul_s[0] == pytest.approx(1e-3 + 1e-6)
    assert times.attention_s[0] == pytest.approx(1e-3 + 1e-6)
    assert times.stream_s == pytest.approx([1e-3 + 3e-6, 0.1 + 1e-6])


def test_empty_tables() -> None:
    for model in (Tiled(), Roofline()):
        times = model.time(Rows().ops("flash2"), CHIP)
        assert all(np.shape(getattr(times, field.name)) == (0,) for field in dataclasses.fields(times))


def test_blocks_are_whole() -> None:
    sizes = np.arange(1.0, 5000.0)
    for tile in (108.0, 128.0, 132.0):
        assert np.array_equal(blocks(sizes, tile), -(-sizes // tile))


def test_layer_of_gpt3_on_four_a100() -> None:
    """LLMCompass (Zhang et al., ISCA 2024) timed GPT-3's layer at batch 8, 2,048 tokens, tensor parallel 4; products within 11 %."""
    chip, _ = load("chips", "a100-sxm4-80gb")
    shapes = [(16384, 9216, 12288, 1), (2048, 2048, 128, 192), (2048, 128, 2048, 192), (16384, 12288, 3072, 1), (16384, 12288, 12288, 1)]
    measured_s = np.array([13721.8, 1881.12, 1183.15, 4540.32, 17464.3]) * 1e-6
    rows = Rows()
    for m, n, k, batch in shapes:
        rows.matmul("x", "forward", "fp16", float(m), float(n), float(k), float(batch), 2.0 * batch * (m * k + k * n + m * n))
    assert Tiled().time(rows.ops("flash2"), chip).matmul_s == pytest.approx(measured_s, rel=0.11)


def test_timings_are_read_sorted_and_judged(tmp_path: Path) -> None:
    first = tmp_path / "first.csv"
    first.write_text(
        "id,device,op,m,n,k,batch,seq_len,num_heads,head_dim,causal,direction,dtype,time_us,tflops,bandwidth_gbps,library\n"
        "mamf-1,A100-SXM4-80GB,gemm,4096,4096,4096,,,,,,,bf16,600,,,\n"
        "flashattn-1,A100-SXM4-80GB,attention,,,,8,2048,16,128,1,fwd+bwd,fp16,,155,,FlashAttention-2\n"
        "llmcompass-0172,A100-SXM4-80GB,transformer_layer_q_mul_k,,,,,,,,,fwd,fp16,1881.1,,,\n"
        "llmcompass-0150,A100-SXM4-80GB,gelu,536870912,,,,,,,,,fp16,1375.4,,1561.3,\n"
        "other-1,A100-SXM4-80GB,conv,1,,,,,,,,,fp16,5,,,\n",
        encoding="utf-8",
    )
    second = tmp_path / "second.csv"
    second.write_text(
        "source,device,op,dtype,m,k,n,elements,tokens,shape_params,measured_us\n"
        "microsoft/vidur:data/profiling/compute/a100/Qwen/x,A100-SXM4-80GB,gemm:mlp_up_proj,fp16,4096,8192,49152,,4096,tp=1,14091.5\n"
        "microsoft/vidur:data/profiling/compute/a100/Qwen/x,A100-SXM4-80GB,add,fp16,,,,33554432,4096,tp=1,112\n"
        "somewhere,A100-SXM4-80GB,conv2d,fp32,,,,8;16,,,3\n",
        encoding="utf-8",
    )
    membership = load_membership()
    timings = load_timings(first, membership) + load_timings(second, membership)
    assert [timing.kind for timing in timings] == ["gemm", "attention", "gemm", "stream", "gemm", "stream"]
    series = sort_timings(timings, membership)
    chip, _ = load("chips", "a100-sxm4-80gb")
    by_name = {one.name: evaluate(one, chip, Tiled()) for one in series}
    assert set(by_name) == {"LLMCompass (GPT-3 layer)", "Vidur", "MAMF", "LLMCompass GELU", "Vidur add", "FlashAttention-2"}
    assert all(found.n == 1 and found.mean < 0.25 for found in by_name.values())


def test_a_fit_finds_the_constants_that_made_the_timings(tmp_path: Path) -> None:
    chip, _ = load("chips", "a100-sxm4-80gb")
    truth = dataclasses.replace(chip, kernels=with_value(with_value(chip.kernels, "matmul_efficiency.fp16", 0.6), "wave_s", 3e-6))
    rows = Rows()
    shapes = [(float(m), float(n), float(k)) for m in (1024, 4096) for n in (1024, 3072, 8192) for k in (512, 4096)]
    for m, n, k in shapes:
        rows.matmul("x", "forward", "fp16", m, n, k, 1.0, 2 * (m * k + k * n + m * n))
    seconds = Tiled().time(rows.ops("flash2"), truth).matmul_s
    table = tmp_path / "made.csv"
    lines = [f"s,A100,gemm,fp16,{m},{k},{n},,,,{s * 1e6!r}" for (m, n, k), s in zip(shapes, seconds.tolist(), strict=True)]
    table.write_text("source,device,op,dtype,m,k,n,elements,tokens,shape_params,measured_us\n" + "\n".join(lines), encoding="utf-8")
    entry = {"name": "made", "kind": "gemm", "source": "s", "device": "A100", "chip": "NVIDIA A100", "role": "fit"}
    found = fit(sort_timings(load_timings(table), [entry]), chip, {("matmul_efficiency.fp16",): 0.9, ("wave_s",): 1e-6}, tries=400)
    assert found.kernels.matmul_efficiency["fp16"] == pytest.approx(0.6, rel=5e-3)
    assert found.kernels.wave_s == pytest.approx(3e-6, rel=5e-2)
