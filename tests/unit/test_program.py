"""The lowered program: FLOP, bytes, collectives and memory against closed forms from the literature."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from foretrain.program.layers import local_shapes
from foretrain.program.lower import lower
from foretrain.program.memory import in_flight, kept_activations, layer_activations
from foretrain.program.op import Ops
from foretrain.program.program import Program
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import attention_matrix_parameters, full_attention_flop, matmul_parameters, mlp_matrix_parameters
from foretrain.workload.model import Model
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe, Workload

S, B = 2048.0, 2.0
GPT = Model(
    name="gpt",
    num_layers=96,
    hidden_size=12288,
    num_heads=96,
    num_kv_heads=96,
    head_dim=128,
    ffn_size=49152,
    vocab_size=51200,
    gated_mlp=False,
    norm="layernorm",
    position="learned",
    num_positions=2048,
    qkv_bias=True,
    attention_output_bias=True,
    mlp_bias=True,
    tied_embeddings=True,
)
LLAMA = Model(name="llama", num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, ffn_size=14336, vocab_size=128256)
RECIPE = Recipe(seq_len=S, global_batch_size=64, tokens=1e9, precision=PRESETS["fp16"], dropout=True)


def matmul_flop(ops: Ops, phase: str) -> float:
    table = ops.matmuls
    flop = 2.0 * table.m * table.n * table.k * table.batch
    return float(np.sum(flop[[p == phase for p in table.phase]]))


def program(model: Model = GPT, **plan: object) -> Program:
    return lower(Workload(model=model, recipe=RECIPE), Strategy(microbatch_size=B, **plan))  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [GPT, LLAMA])
@pytest.mark.parametrize("tp", [1, 8])
def test_matmul_flop_are_two_per_parameter_and_token(model: Model, tp: int) -> None:
    layer, _, head = program(model, tp=tp).blocks
    per_layer = 2.0 * (attention_matrix_parameters(model) + mlp_matrix_parameters(model)) * S * B / tp
    assert matmul_flop(layer.ops, "forward") == pytest.approx(per_layer, rel=1e-12)
    assert matmul_flop(layer.ops, "backward") == pytest.approx(2 * per_layer, rel=1e-12)
    assert matmul_flop(layer.ops, "recompute") == 0
    assert matmul_flop(head.ops, "forward") == pytest.approx(2.0 * model.vocab_size * model.hidden_size * S * B / tp, rel=1e-12)


def test_program_flop_add_up_to_the_convention() -> None:
    blocks = program(flash_attention=False).blocks
    layers = sum(matmul_flop(blocks[0].ops, phase) for phase in ("forward", "backward")) * GPT.num_layers
    head = sum(matmul_flop(blocks[2].ops, phase) for phase in ("forward", "backward"))
    expected = (6.0 * matmul_parameters(GPT) + full_attention_flop(GPT, S)) * S * B
    assert layers + head == pytest.approx(expected, rel=1e-12)


def test_full_recomputation_repeats_the_forward_pass() -> None:
    layer = program(recompute="full", flash_attention=False).blocks[0]
    assert matmul_flop(layer.ops, "recompute") == matmul_flop(layer.ops, "forward")
    streams = layer.ops.streams
    byte = {phase: float(np.sum(streams.byte[[p == phase for p in streams.phase]])) for phase in ("forward", "recompute")}
    assert byte["recompute"] == pytest.approx(byte["forward"], rel=1e-12)


def test_selective_recomputation_repeats_only_the_attention_core() -> None:
    layer = program(recompute="selective", flash_attention=False, sequence_parallel=True, tp=8).blocks[0]
    names = {name for name, phase in zip(layer.ops.matmuls.name, layer.ops.matmuls.phase, strict=True) if phase == "recompute"}
    assert names == {"scores", "context"}


@pytest.mark.parametrize(
    ("tp", "sequence_parallel", "recompute", "per_sbh"),
    [
        (1, False, "none", 34 + 5 * 96 * 2048 / 12288),
        (8, False, "none", 10 + 24 / 8 + 5 * 96 * 2048 / 12288 / 8),
        (8, True, "none", (34 + 5 * 96 * 2048 / 12288) / 8),
        (8, True, "selective", 34 / 8),
        (8, False, "full", 2.0),
    ],
)
def test_activations_are_those_of_korthikanti(tp: int, sequence_parallel: bool, recompute: str, per_sbh: float) -> None:
    """Equations 1, 2 and 4, Table 2 of arXiv 2205.05198, in bytes over s b h."""
    strategy = Strategy(
        tp=tp, sequence_parallel=sequence_parallel, recompute=recompute, flash_attention=False, microbatch_size=B  # type: ignore[arg-type]
    )  # fmt: skip
    local = local_shapes(GPT, RECIPE, strategy)
    assert kept_activations(GPT, RECIPE, strategy, local) / (S * B * GPT.hidden_size) == pytest.approx(per_sbh, rel=1e-12)
    assert layer_activations(GPT, RECIPE, strategy, local) >= kept_activations(GPT, RECIPE, strategy, local)


def test_microbatches_in_flight() -> None:
    gpipe = Strategy(pp=4, schedule="gpipe", num_microbatches=16)
    assert in_flight(gpipe, 0) == in_flight(gpipe, 3) == 16
    one = dataclasses.replace(gpipe, schedule="1f1b")
    assert [in_flight(one, stage) for stage in range(4)] == [4, 3, 2, 1]
    assert in_flight(dataclasses.replace(one, num_microbatches=2), 0) == 2


def test_more_microbatches_than_stages_do_not_move_the_peak() -> None:
    peaks = [sum(program(pp=4, num_microbatches=m).stages[0].memory_byte.values()) for m in (4, 8, 32)]
    assert peaks[0] == peaks[1] == peaks[2]


def test_the_heaviest_stage_is_not_the_average() -> None:
    model = dataclasses.replace(LLAMA, num_layers=8)
    stages = program(model, pp=4, stage_layers=(1, 2, 2, 3)).stages
    layers = [sum(repeat for block, repeat in kind.repeats if block == 0) for kind in stages]
    assert layers == [1, 2, 3]
    assert [kind.count for kind in stages] == [1, 2, 1]


def test_parameters_of_all_ranks_are_those_of_the_model() -> None:
    """Matrices are cut; norms, and biases after row-parallel layers, are held by every tensor-parallel rank."""
    stages = program(LLAMA, tp=8, pp=4).stages
    held = 8 * sum(kind.count * kind.params for kind in stages)
    copies = 7 * (LLAMA.num_layers * 2 + 1) * LLAMA.hidden_size
    from foretrain.workload.counting import num_parameters

    assert held == num_parameters(LLAMA) + copies


@pytest.mark.parametrize(("sequence_parallel", "forward", "backward"), [(False, 2, 2), (True, 4, 6)])
def test_tensor_parallel_collectives_of_a_layer(sequence_parallel: bool, forward: int, backward: int) -> None:
    calls = [c for c in program(tp=8, sequence_parallel=sequence_parallel).blocks[0].collectives if c.group.axis == "tp"]
    counts = {phase: sum(c.count for c in calls if c.phase == phase) for phase in ("forward", "backward")}
    assert counts == {"forward": forward, "backward": backward}
    payload = S * B * GPT.hidden_size * 2
    assert {c.payload_byte for c in calls} == {payload}


def test_windows_make_blocks_of_their_own_and_less_attention() -> None:
    model = dataclasses.replace(LLAMA, windows=(512, 0))
    blocks = program(model).blocks
    assert [b.name for b in blocks] == ["layer (window 512)", "layer", "embedding", "head"]
    assert float(blocks[0].ops.attentions.seen[0]) < float(blocks[1].ops.attentions.seen[0])


def test_zero_stages_move_what_their_paper_says() -> None:
    def traffic(zero: int) -> list[tuple[str, float]]:
        result = program(LLAMA, dp=8, zero=zero)
        once = [(c.op, float(c.count)) for c in result.step_collectives if c.group.axis == "dp" and c.group.size > 1]
        layer = [(c.op, float(c.count)) for c in result.blocks[0].collectives if c.group.axis == "dp"]
        return once + layer

    assert traffic(0) == [("all_reduce", 1)]
    assert traffic(1) == [("reduce_scatter", 1), ("all_gather", 1)]
    assert traffic(2) == [("all_gather", 1), ("reduce_scatter", 1)]
    assert traffic(3) == [("all_gather", 1), ("all_gather", 1), ("reduce_scatter", 1)]


def test_tied_embeddings_are_reduced_over_the_ends_of_the_pipeline() -> None:
    calls = {c.name: c for c in program(tp=8, pp=8).step_collectives}
    tied = calls["tied embedding"]
    assert (tied.group.size, tied.group.stride) == (2, 8 * 7)
    assert tied.payload_byte == GPT.vocab_size / 8 * GPT.hidden_size * 4
    assert {c.name: c for c in program(tp=8).step_collectives}["tied embedding"].group.size == 1
