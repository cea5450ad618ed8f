"""Questions that users asked in public, with their right answers; one test each. The ids name the case in the project's case list."""

from __future__ import annotations

import dataclasses

import pytest

from foretrain.core.constants import GB, GIB, MIB, SECOND_PER_DAY
from foretrain.core.errors import InputError, NotFoundError
from foretrain.core.terms import total
from foretrain.program.layers import local_shapes
from foretrain.program.lower import lower
from foretrain.program.memory import layer_activations, model_states, zero3_states_estimate
from foretrain.simulate.open import open_scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.step.fits import verdict
from foretrain.strategy import rules
from foretrain.strategy.layout import split_layers
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import BY_NAME, causal_share, matmul_parameters, num_parameters, packing_efficiency
from foretrain.workload.model import Model
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe, Workload

BF16 = Recipe(seq_len=1, global_batch_size=1, tokens=1, precision=PRESETS["bf16"])
FULL_ATTENTION = "megatron"
"""Matrices with the head but no embedding look-up, and the whole score matrix."""


def model_of(name: str) -> Model:
    return open_scenario(name, "dgx-h100", 8, {"tp": 1, "pp": 1, "zero": 1, "recompute": "none", "microbatch_size": 1}).workload.model


def step_flop(name: str, convention: str, seq_len: float, sequences: float) -> float:
    return float(BY_NAME[convention](model_of(name), seq_len, ()) * seq_len * sequences)


@pytest.mark.parametrize(("zero", "dp", "byte"), [(0, 8, 18.0), (1, 1, 18.0), (1, 8, 7.5), (1, 64, 6.1875)])
def test_o_mem_01_bytes_per_parameter(zero: int, dp: int, byte: float) -> None:
    states = model_states(1.0e9, BF16, zero=zero, shards=float(dp))
    assert total(states) / 1e9 == pytest.approx(byte, rel=1e-3)
    assert list(states) == ["weights", "gradients", "master", "moments"]


def test_o_mem_02_states_estimate_is_not_the_need() -> None:
    both, optimizer, none = frozenset({"optimizer", "params"}), frozenset({"optimizer"}), frozenset[str]()
    for offload, gib in ((both, 0.488), (optimizer, 3.657), (none, 29.007)):
        assert zero3_states_estimate(6.805e9, 131e6, 4, offload) / GIB == pytest.approx(gib, rel=0.01)
    scenario = open_scenario(
        "llama-2-7b", "dgx-a100", 4, {"tp": 1, "pp": 1, "zero": 3, "microbatch_size": 1, "global_batch_size": 4, "recompute": "none"}
    )
    memory = simulate_scenario(scenario).step.memory
    assert memory.device_byte > 5 * zero3_states_estimate(6.805e9, 131e6, 4, both)
    assert {"activations", "gathered", "logits"} <= set(memory.parts_byte)


def test_o_mem_02_the_peak_shows_live_parameters_and_activations_beside_no_states() -> None:
    """All states outside: what is left are gathered weights up to DeepSpeed's default of 1e9, activations, logits, buffers and the context.

    Measured were 14.7 GB after the start, 19.9 GB after the first forward pass and 21.3 GB later, on 4 GPUs, for a batch that is not told.
    """
    plan = {"tp": 1, "pp": 1, "dp": 4, "zero": 3, "microbatch_size": 1, "global_batch_size": 4, "seq_len": 2048, "recompute": "none"}
    words = ["optimizer_offload=1", "parameter_offload=1", "offload_master=true", "live_params=1e9"]
    scenario = open_scenario("llama-2-7b", "dgx-a100", 4, plan, [f"strategy.{word}" for word in words])
    memory = simulate_scenario(scenario).step.memory
    assert memory.parts_byte["weights"] == memory.parts_byte["master"] == memory.parts_byte["moments"] == 0
    assert memory.parts_byte["gathered"] > 2e9
    assert memory.device_byte > 5 * zero3_states_estimate(6.805e9, 131e6, 4, frozenset({"optimizer", "params"}))


def test_o_mem_12_optimizer_offload() -> None:
    """Measured were 47.2 GB, 3.8 GB saved per quarter and 15.3 GB in all, 1.9 to 4.2 times the step time, linear.

    The source names no batch: this is the smallest that fills the pipeline, where the update on the CPUs weighs most.
    """
    plan = {
        "tp": 2, "pp": 2, "ep": 4, "zero": 1, "recompute": "full", "microbatch_size": 1, "global_batch_size": 8, "seq_len": 4096,
        "schedule": "1f1b", "vpp": 1,
    }  # fmt: skip
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    steps = [
        simulate_scenario(open_scenario("qwen3-30b-a3b", "dgx-h100", 16, plan, [f"strategy.optimizer_offload={share}"])).step
        for share in shares
    ]
    saved_gb = [float(steps[0].memory.peak_byte - step.memory.peak_byte) / GB for step in steps]
    seconds = [float(step.time.step_s) for step in steps]
    assert float(steps[0].memory.peak_byte) / GB == pytest.approx(47.2, rel=0.10)
    assert saved_gb[-1] == pytest.approx(15.3, rel=0.05)
    assert saved_gb[2] / saved_gb[-1] == pytest.approx(0.5, rel=0.05)
    assert 2.5 < seconds[-1] / seconds[0] < 6.0
    assert seconds == sorted(seconds)
    parts = steps[-1].time.parts_s
    assert parts["host_optimizer"] > 5 * parts["offload"], "CPU work, not the link"


def test_o_mem_03_gpt2_small_to_the_byte() -> None:
    model = dataclasses.replace(model_of("gpt2-124m"), vocab_size=50304)
    assert num_parameters(model) == 124_475_904
    recipe = dataclasses.replace(BF16, precision=dataclasses.replace(PRESETS["bf16"], grads="bf16"))
    for dp, moment in ((1, 474.84), (2, 237.42), (8, 59.35)):
        states = model_states(float(num_parameters(model)), recipe, zero=1, shards=float(dp))
        assert states["weights"] / MIB == pytest.approx(237.42, rel=0.002)
        assert states["gradients"] / MIB == pytest.approx(237.42, rel=0.002)
        assert states["moments"] / 2 / MIB == pytest.approx(moment, rel=0.002)


@pytest.mark.parametrize(("grads", "gb"), [("bf16", 107.2), ("fp32", 120.6)])
def test_o_mem_04_mixed_precision_is_not_four_times_the_model(grads: str, gb: float) -> None:
    recipe = dataclasses.replace(BF16, precision=dataclasses.replace(PRESETS["bf16"], grads=grads))  # type: ignore[arg-type]
    assert total(model_states(6.7e9, recipe, zero=0, shards=1.0)) / GB == pytest.approx(gb, rel=0.01)
    scenario = open_scenario(
        "llama-2-7b",
        "dgx-a100",
        1,
        {"tp": 1, "pp": 1, "zero": 0, "microbatch_size": 1, "global_batch_size": 1},
        [f"recipe.precision.grads={grads}"],
    )
    assert verdict(simulate_scenario(scenario).step.memory).status == "oom"


@pytest.mark.parametrize(("flash", "gib", "status"), [(False, 20.04, "oom"), (True, 5.98, "fits")])
def test_o_mem_08_the_attention_score_term(flash: bool, gib: float, status: str) -> None:
    scenario = open_scenario(
        "gpt2-774m", "dgx-a100", 1,
        {"tp": 1, "pp": 1, "zero": 0, "microbatch_size": 4, "global_batch_size": 4, "recompute": "none", "precision": "fp16",
         "stack": "megatron-2021", "seq_len": 1024},
        [f"strategy.flash_attention={str(flash).lower()}", "model.vocab_size=50304", "system.chip.hbm_byte=31.74 GiB",
         "system.chip.reserved_byte=0 GiB"],
    )  # fmt: skip
    model, recipe = scenario.workload.model, scenario.workload.recipe
    local = local_shapes(model, recipe, scenario.strategy)
    layers = model.num_layers * layer_activations(model, recipe, scenario.strategy, local)
    assert layers / GIB == pytest.approx(gib, rel=0.10)
    assert verdict(simulate_scenario(scenario).step.memory).status == status


@pytest.mark.parametrize(
    ("seq_len", "convention", "tflop"),
    [(8192, FULL_ATTENTION, 1721.22), (8192, "causal", 1510.11), (129024, FULL_ATTENTION, 125194.40), (129024, "causal", 72826.86)],
)
def test_o_flop_01_causal_attention_counted_once(seq_len: int, convention: str, tflop: float) -> None:
    assert step_flop("llama-2-7b", convention, float(seq_len), 4.0) / 1e12 == pytest.approx(tflop, rel=5e-4)


@pytest.mark.parametrize(
    ("name", "tokens_per_s", "tflop_per_s"),
    [("llama-3-8b", 14451, 744), ("llama-3.1-70b", 1602, 719), ("llama-3.1-405b", 292, 737), ("llama-3.1-405b", 813, 2053)],
)
def test_o_flop_02_tokens_to_flop_per_s(name: str, tokens_per_s: float, tflop_per_s: float) -> None:
    assert step_flop(name, "causal", 8192.0, 1 / 8192) * tokens_per_s / 1e12 == pytest.approx(tflop_per_s, rel=0.003)


def test_o_flop_03_head_dim_is_not_hidden_over_heads() -> None:
    # The active part of Qwen3-235B-A22B as a dense model: 8 experts of 1,536 columns a token, and its router as part of the head's work.
    active = Model(
        name="active", num_layers=94, hidden_size=4096, num_heads=64, num_kv_heads=4, head_dim=128, ffn_size=8 * 1536,
        vocab_size=151936, qk_norm="head"
    )  # fmt: skip
    router = 94 * 4096 * 128
    flop = {d: float(BY_NAME["causal"](dataclasses.replace(active, head_dim=d), 196608.0, ()) + 6 * router) * 196608 for d in (128, 64)}
    assert flop[128] / 1e15 == pytest.approx(204.2, rel=0.01)
    assert flop[128] / flop[64] == pytest.approx(1.842, rel=0.005)


def test_o_flop_04_packed_documents() -> None:
    assert causal_share(4096.0, document_lens=(1024,) * 4) / causal_share(4096.0) == pytest.approx(0.25, rel=0.001)
    model = model_of("llama-3-8b")
    linear = 6.0 * matmul_parameters(model)
    packed, whole = (float(BY_NAME["causal"](model, 4096.0, lens)) for lens in ((1024,) * 4, (4096,)))
    assert (packed - linear) / (whole - linear) == pytest.approx(0.25, rel=0.001)
    assert packing_efficiency(4096.0, (1000, 1000, 1000)) == pytest.approx(0.732, rel=0.005)
    scenario = open_scenario("llama-3-8b", "dgx-h100", 8, {"tp": 1, "seq_len": 4096}, ["recipe.document_lens=[1024, 1024, 1024, 1024]"])
    unpacked = open_scenario("llama-3-8b", "dgx-h100", 8, {"tp": 1, "seq_len": 4096})
    both = [simulate_scenario(case).step.time.parts_s for case in (scenario, unpacked)]
    assert both[0]["attention"] < both[1]["attention"]


@pytest.mark.parametrize(("convention", "low", "high"), [(FULL_ATTENTION, 0.44, 0.465), ("causal", 0.41, 0.43)])
def test_o_flop_05_dense_peak(convention: str, low: float, high: float) -> None:
    scenario = open_scenario("llama-2-7b", "dgx-h100", 8, {"tp": 1})
    peak = scenario.cluster.server.chip.dense_flop_per_s["bf16"]
    assert peak / 1e12 == pytest.approx(989.4, rel=0.002)
    assert low <= step_flop("llama-2-7b", convention, 4096.0, 1 / 4096) * 9600 / peak <= high


def test_o_flop_06_unknown_device_is_never_guessed() -> None:
    with pytest.raises(NotFoundError) as error:
        open_scenario("llama-3.1-8b", "NVIDIA FOO9000", 8)
    problem = error.value.problems[0]
    assert problem.field == "system"
    assert "dgx-h100" in problem.allowed
    b200 = open_scenario("llama-3.1-8b", "dgx-b200", 8, {"tp": 1}).cluster.server.chip.dense_flop_per_s["bf16"]
    assert 275.6e12 / b200 == pytest.approx(0.1225, rel=0.005)


@pytest.mark.parametrize(
    ("params", "layers", "hidden", "tokens_per_s", "recompute", "mfu", "hfu"),
    [(64862437376, 80, 8192, 1039, True, 0.4257, 0.5676), (6658859008, 32, 4096, 10643, False, 0.4644, 0.4644)],
)
def test_o_flop_07_mfu_and_hfu(params: int, layers: int, hidden: int, tokens_per_s: float, recompute: bool, mfu: float, hfu: float) -> None:
    model_flop = (6 * params + 12 * layers * hidden * 2048) * tokens_per_s
    assert model_flop / 989.4e12 == pytest.approx(mfu, rel=0.005)
    assert model_flop * (4 / 3 if recompute else 1) / 989.4e12 == pytest.approx(hfu, rel=0.005)
    options = {"tp": 1, "recompute": "full" if recompute else "none", "seq_len": 2048}
    step = simulate_scenario(open_scenario("llama-2-7b", "dgx-h100", 64, options)).step
    assert step.hfu / step.mfu == pytest.approx(4 / 3 if recompute else 1.0, rel=1e-12)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_o_rep_01_tokens_per_second_with_accumulation(accumulation: int) -> None:
    options = {"tp": 1, "pp": 1, "zero": 3, "seq_len": 2048, "microbatch_size": 16, "global_batch_size": 8 * 16 * accumulation}
    step = simulate_scenario(open_scenario("llama-3-8b", "dgx-h100", 8, options)).step
    assert step.token_per_s_per_chip * 8 * step.time.step_s == pytest.approx(8 * 16 * accumulation * 2048, rel=1e-9)


@pytest.mark.parametrize(("overhead_s", "days"), [(0.0, 2.042), (7.24, 10.03)])
def test_o_rep_02_the_log_and_the_calendar(overhead_s: float, days: float) -> None:
    from foretrain.run.run import num_steps, simulate_run

    scenario = open_scenario(
        "llama-3.1-8b", "dgx-h100", 8, {"tp": 1, "seq_len": 2048, "global_batch_size": 512, "tokens": 100e9},
        ["system.reliability.failure_per_chip_s=0 1/h", f"system.reliability.step_overhead_s={overhead_s} s",
         "system.reliability.evaluation_fraction=0"],
    )  # fmt: skip
    assert scenario.num_steps == pytest.approx(95367, rel=5e-4)
    assert num_steps(100e9, 512 * 2048.0) == scenario.num_steps
    step = simulate_scenario(scenario).step
    timed = dataclasses.replace(step, time=dataclasses.replace(step.time, step_s=1.85))
    run = simulate_run(timed, scenario.num_steps, 0.0, scenario.cluster)
    assert run.wall_s / SECOND_PER_DAY == pytest.approx(days, rel=0.01)
    assert {"steps", "input", "overhead", "evaluation", "checkpoint", "lost", "restart"} == {phase.purpose for phase in run.phases}


def test_o_pipe_03_an_error_one_can_read() -> None:
    options = {"tp": 1, "pp": 6, "vpp": 2, "schedule": "interleaved", "dp": 1, "microbatch_size": 1, "global_batch_size": 3}
    with pytest.raises(InputError) as error:
        open_scenario("megatron-7.5b", "dgx-a100", 6, options)
    by_field = {problem.field: problem for problem in error.value.problems}
    assert by_field["strategy.num_microbatches"].nearest == (6, 12)
    assert "strategy.pp" in by_field
    options = {"tp": 1, "pp": 4, "dp": 1, "schedule": "1f1b", "microbatch_size": 1, "global_batch_size": 3}
    scenario = open_scenario("megatron-1.7b", "dgx-a100", 4, options)
    assert any("bubble" in warning and "50%" in warning for warning in scenario.warnings)


def test_o_pipe_04_rounds_of_the_flexible_schedule() -> None:
    assert [rules.rounds(4, m) for m in (10, 3)] == [2, 1]
    options = {"tp": 1, "pp": 4, "vpp": 2, "dp": 1, "schedule": "interleaved", "microbatch_size": 1, "recompute": "full"}
    for m in (10, 3):
        torch = {**options, "global_batch_size": m, "stack": "pytorch-fsdp"}
        assert open_scenario("llama-3.1-8b", "dgx-h100", 4, torch).strategy.num_microbatches == m
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 4, {**options, "global_batch_size": 10, "stack": "megatron-core"})
    assert "strategy.num_microbatches" in {problem.field for problem in error.value.problems}


@pytest.mark.parametrize(("heads", "kv_heads", "valid"), [(16, 2, "1, 2"), (40, 10, "1, 2, 5, 10")])
def test_o_val_01_more_tensor_ranks_than_key_value_heads(heads: int, kv_heads: int, valid: str) -> None:
    overrides = [f"model.num_heads={heads}", f"model.num_kv_heads={kv_heads}"]
    options = {"tp": 4, "pp": 1, "dp": 1, "microbatch_size": 1, "global_batch_size": 1}
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 4, options, overrides)
    problem = next(p for p in error.value.problems if "num_kv_heads" in p.message)
    assert problem.field == "strategy.tp"
    assert problem.allowed == f"one of {valid}"
    if heads % 4 == 0 and 4 % kv_heads == 0:
        whole = open_scenario("llama-3.1-8b", "dgx-h100", 4, options, [*overrides, "strategy.kv_replication=true"])
        assert lower(whole.workload, whole.strategy).stages[0].params > num_parameters(whole.workload.model) / 4
    open_scenario("llama-3.1-70b", "dgx-h100", 8, {"tp": 8, "pp": 1})


def test_o_val_02_no_layer_is_lost() -> None:
    assert sum(split_layers(30, 4)) == 30
    model = Model(
        name="30 layers", num_layers=30, hidden_size=2048, num_heads=16, num_kv_heads=16, head_dim=128, ffn_size=8192,
        vocab_size=50304, gated_mlp=False
    )  # fmt: skip
    recipe = Recipe(seq_len=2048, global_batch_size=8, tokens=1e9)
    program = lower(Workload(model=model, recipe=recipe), Strategy(pp=4, num_microbatches=8))
    layers = sum(kind.count * sum(repeat for block, repeat in kind.repeats if block == 0) for kind in program.stages)
    assert layers == 30
    scenario = open_scenario("megatron-3.6b", "dgx-a100", 8, {"tp": 2, "pp": 4, "dp": 1})
    assert any("stage_layers" in note.field for note in scenario.assumptions)


def test_o_val_03_a_global_batch_that_cannot_be_formed() -> None:
    options = {"tp": 1, "pp": 1, "dp": 8, "microbatch_size": 4, "global_batch_size": 100}
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 8, options)
    by_field = {problem.field: problem for problem in error.value.problems}
    assert {"recipe.global_batch_size", "strategy.dp", "strategy.microbatch_size"} <= set(by_field)
    assert by_field["recipe.global_batch_size"].nearest == (96, 128)
    fine = {**options, "microbatch_size": 2, "global_batch_size": 2048, "recompute": "full"}
    ramp = ["recipe.batch_ramp={start: 192, step: 16, end: 2048, tokens: 10000000000}"]
    plain = open_scenario("llama-3.1-8b", "dgx-h100", 8, fine)
    assert open_scenario("llama-3.1-8b", "dgx-h100", 8, fine, ramp).num_steps > plain.num_steps
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 8, fine, [ramp[0].replace("192", "200")])
    assert "recipe.batch_ramp" in {problem.field for problem in error.value.problems}


@pytest.mark.parametrize("other", ["pp", "recompute"])
def test_o_val_04_activation_offload_excludes_pipelines_and_recomputation(other: str) -> None:
    options = {"tp": 1, "pp": 2 if other == "pp" else 1, "recompute": "full" if other == "recompute" else "none", "microbatch_size": 1}
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 8, options, ["strategy.activation_offload=layer"])
    assert {"strategy.activation_offload", f"strategy.{other}"} <= {problem.field for problem in error.value.problems}


def test_o_val_04_optimizer_offload_works_with_a_pipeline() -> None:
    options = {"tp": 1, "pp": 2, "vpp": 1, "dp": 4, "schedule": "1f1b", "recompute": "none", "microbatch_size": 1, "zero": 1}
    kept = simulate_scenario(open_scenario("llama-3.1-8b", "dgx-h100", 8, options)).step
    moved = simulate_scenario(open_scenario("llama-3.1-8b", "dgx-h100", 8, options, ["strategy.optimizer_offload=1.0"])).step
    for stage, params in kept.memory.stage_params.items():
        saved = kept.memory.stages[stage] - moved.memory.stages[stage]
        assert saved == pytest.approx(params * 8 / 4, rel=1e-9), "Megatron Core moves the moments and keeps the master copy"
    assert moved.time.step_s > kept.time.step_s


def test_o_sim_03_seconds_and_parts() -> None:
    options = {"tp": 2, "pp": 2, "dp": 4, "microbatch_size": 1, "global_batch_size": 64, "seq_len": 4096, "tokens": 1e12}
    scenario = open_scenario("llama-3-8b", "dgx-h100", 16, options)
    result = simulate_scenario(scenario)
    assert total(result.step.time.parts_s) == pytest.approx(result.step.time.step_s, rel=1e-9)
    run = result.bill.run
    steps = next(phase for phase in run.phases if phase.purpose == "steps")
    assert steps.duration_s == pytest.approx(scenario.num_steps * result.step.time.step_s, rel=1e-9)
    assert sum(phase.duration_s for phase in run.phases) == pytest.approx(run.wall_s, rel=1e-9)


@pytest.mark.parametrize(("tp", "pp", "dp", "static", "peak"), [(8, 1, 1, 25.92, 28.29), (2, 1, 4, 51.84, 60.68), (1, 2, 4, 51.84, 66.55)])
def test_o_mem_06_measured_peaks_on_b200(tp: int, pp: int, dp: int, static: float, peak: float) -> None:
    def memory(microbatches: int) -> dict[str, float]:
        options = {
            "tp": tp, "pp": pp, "dp": dp, "vpp": 1, "zero": 1, "schedule": "1f1b", "recompute": "none", "seq_len": 4096,
            "microbatch_size": 1, "global_batch_size": microbatches * dp,
        }  # fmt: skip
        step = simulate_scenario(open_scenario("llama-3.1-70b", "dgx-b200", 8, options, ["model.num_layers=12"])).step
        states = sum(float(step.memory.parts_byte[part]) for part in ("weights", "gradients", "master", "moments"))
        return {"static": states / GIB, "peak": float(step.memory.peak_byte) / GIB}

    four = memory(4)
    assert four["static"] == pytest.approx(static, rel=0.01)
    assert four["peak"] == pytest.approx(peak, rel=0.05)
    assert memory(32)["peak"] == four["peak"]


def test_o_mem_10_verdict_from_the_heaviest_stage() -> None:
    options = {
        "tp": 1,
        "pp": 4,
        "dp": 1,
        "vpp": 1,
        "schedule": "1f1b",
        "microbatch_size": 1,
        "global_batch_size": 8,
        "zero": 0,
        "recompute": "none",
    }
    overrides = ["model.num_layers=8", "model.vocab_size=1024", "strategy.stage_layers=[1, 2, 2, 3]"]
    memory = simulate_scenario(open_scenario("llama-3-8b", "dgx-h100", 4, options, overrides)).step.memory
    assert memory.worst_stage == 3
    assert memory.peak_byte == max(memory.stages.values())
