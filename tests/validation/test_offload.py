"""Transfers over a second memory tier against Calculon's.

Isaev et al., SC23, doi 10.1145/3581784.3607102; github.com/calculon-ai/calculon at commit caa4b11. Its README's example, Megatron 1T
(``examples/3072_t4_p64_d12_mbs4_full.json`` on ``systems/a100_80g.json``), was run there with all three offload options on, and 32 stages
instead of 64, because it refuses to offload with fewer than three layers a stage; and GPT-3 175B on tp 8, dp 8. The second tier is the
one of that system file: 32 GB/s at an efficiency of 0.95, full duplex in the forward pass.

Why figures differ:

* Weights and optimizer states: by biases and norms that Calculon leaves out, less than 0.1 %.
* Activations: by two options. With sequence parallelism Calculon keeps the gathered inputs of the products (``seq_par_ag_redo`` off) or
  gathers them again; and it keeps the input of GeLU or not (``fused_activation``). Here, as in Korthikanti et al., they are gathered again
  and the input of GeLU is kept: with these choices the bytes are the same to the last one. With the example's own the difference is 8 %.
* Calculon moves optimizer states and weights in the backward pass of every microbatch and adds their times up; the states can only change
  once per step, so here they move once, at the update.
* Calculon's cover leaves out the time that compute spends on its own memory, because that memory is busy with it; here the link's
  share of the memory bandwidth (1 to 3 %) is neglected.
"""

from __future__ import annotations

import pytest

from foretrain.catalog.loader import load
from foretrain.core.record import record
from foretrain.program.layers import local_shapes
from foretrain.program.memory import kept_activations
from foretrain.program.offload import block_offload, optimizer_offload
from foretrain.program.program import OffloadTransfer
from foretrain.program.sharding import layer_held
from foretrain.strategy.strategy import Strategy
from foretrain.system.memory import MemoryTier, transfer_s
from foretrain.workload.model import LayerKind
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe

SECOND_TIER = MemoryTier(capacity_byte=512 * 2**30, read_byte_per_s=0.95 * 32e9, write_byte_per_s=0.95 * 32e9)


@record
class Printed:
    """What Calculon printed for one layer of one rank: seconds per pass over its second tier."""

    model: str
    tp: float
    dp: float
    microbatch_size: float
    weights_s: float
    optimizer_s: float
    activations_s: float
    activations_same_options_s: float


EXAMPLES = {
    "Megatron 1T, tp 4, pp 32, dp 12": Printed(
        model="megatron-1t", tp=4.0, dp=12.0, microbatch_size=4.0, weights_s=0.12935410526315788, optimizer_s=0.06467705263157894,
        activations_s=0.18281094736842105, activations_same_options_s=0.1690138947368421,
    ),
    "GPT-3 175B, tp 8, dp 8": Printed(
        model="gpt3-175b", tp=8.0, dp=8.0, microbatch_size=1.0, weights_s=453083136 / 30.4e9, optimizer_s=339812352 / 30.4e9,
        activations_s=434110464 / 30.4e9, activations_same_options_s=358612992 / 30.4e9,
    ),
}  # fmt: skip


def seconds(printed: Printed) -> dict[str, float]:
    """Our transfer times of one layer for the same description."""
    model, _ = load("models", printed.model)
    recipe = Recipe(seq_len=2048, global_batch_size=3072, tokens=1, dropout=True, precision=PRESETS["fp16"])
    plan = Strategy(
        tp=printed.tp, dp=printed.dp, microbatch_size=printed.microbatch_size, num_microbatches=64, sequence_parallel=True,
        flash_attention=False, zero=1, parameter_offload=1.0, optimizer_offload=1.0, activation_offload="layer", offload_update="chip",
    )  # fmt: skip
    params = layer_held(model, recipe, plan, LayerKind())
    forward, backward = block_offload(params, kept_activations(model, recipe, plan, local_shapes(model, recipe, plan)), recipe, plan)
    update = optimizer_offload(params, recipe, plan)

    def alone(read: float, write: float) -> float:
        return float(transfer_s(SECOND_TIER, read, write))

    return {
        "weights": alone(float(forward.read_byte), 0.0),
        "activations": alone(0.0, float(forward.write_byte)),
        "optimizer": alone(float(update.read_byte), 0.0),
        "forward": whole(forward),
        "backward": whole(backward),
    }


def whole(move: OffloadTransfer) -> float:
    return float(transfer_s(SECOND_TIER, move.read_byte, move.write_byte))


@pytest.mark.parametrize("name", EXAMPLES)
def test_weights_and_states_take_as_long_as_calculon_says(name: str) -> None:
    printed, ours = EXAMPLES[name], seconds(EXAMPLES[name])
    for part, theirs in (("weights", printed.weights_s), ("optimizer", printed.optimizer_s), ("activations", printed.activations_s)):
        print(f"{name}: {part} {ours[part]:.5f} s, Calculon {theirs:.5f} s, {ours[part] / theirs - 1:+.1%}")
    assert ours["weights"] == pytest.approx(printed.weights_s, rel=1e-3)
    assert ours["optimizer"] == pytest.approx(printed.optimizer_s, rel=1e-3)


@pytest.mark.parametrize("name", EXAMPLES)
def test_activations_are_the_same_with_the_same_options(name: str) -> None:
    assert seconds(EXAMPLES[name])["activations"] == pytest.approx(EXAMPLES[name].activations_same_options_s, rel=1e-9)


def test_the_readme_example_is_within_a_tenth() -> None:
    """All three offloads of the example, with the example's own options; its backward pass less the states that it moves in each."""
    printed, ours = EXAMPLES["Megatron 1T, tp 4, pp 32, dp 12"], seconds(EXAMPLES["Megatron 1T, tp 4, pp 32, dp 12"])
    calculon_forward_s, calculon_backward_s = 0.18281094736842105, 0.37684210526315787
    assert ours["activations"] == pytest.approx(printed.activations_s, rel=0.1)
    assert ours["forward"] == pytest.approx(calculon_forward_s, rel=0.1)
    assert ours["backward"] == pytest.approx(calculon_backward_s - printed.optimizer_s, rel=0.1)
    assert ours["backward"] + ours["optimizer"] == pytest.approx(calculon_backward_s, rel=0.1)


def test_gathered_copies_are_the_known_gap() -> None:
    """At tp 8 the gathered inputs that Calculon keeps by default make its activations a fifth larger: outside a tenth, and kept in view."""
    printed, ours = EXAMPLES["GPT-3 175B, tp 8, dp 8"], seconds(EXAMPLES["GPT-3 175B, tp 8, dp 8"])
    assert ours["activations"] / printed.activations_s == pytest.approx(0.826, rel=0.01)
