"""Parameter counts of published checkpoints and FLOP figures, each on its own definition."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.catalog.loader import ids, load, model_record, raw
from foretrain.program.sharding import ends_held, layer_held
from foretrain.strategy.strategy import Strategy
from foretrain.workload import counting
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe

# Elements of the published checkpoints; gpt3 and Megatron models by the closed form of arXiv 2104.04473, equation 2, below.
PARAMETERS = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "mistral-7b": 7_241_732_096,
    "gpt2-124m": 124_439_808,
    "gpt2-774m": 774_030_080,
    "bloom-176b": 176_247_271_424,
    "gpt-neox-20b": 20_554_567_680,
    "opt-125m": 125_239_296,
}


RECIPE = Recipe(seq_len=1, global_batch_size=1, tokens=1)


def model(name: str, **changes: object) -> Model:
    loaded = load("models", name)[0]
    fields = {field: getattr(loaded, field) for field in loaded.__dataclass_fields__}
    return Model(**{**fields, **changes})


@pytest.mark.parametrize(("name", "expected"), PARAMETERS.items())
def test_published_parameter_counts_are_exact(name: str, expected: int) -> None:
    count = counting.num_parameters(model(name))
    assert isinstance(count, int)
    assert count == expected


def test_gpt2_with_a_padded_vocabulary() -> None:
    assert counting.num_parameters(model("gpt2-124m", vocab_size=50304)) == 124_475_904


@pytest.mark.parametrize("name", [name for name in ids("models") if name.startswith("megatron-") or name == "gpt3-175b"])
def test_megatron_models_follow_the_papers_closed_form(name: str) -> None:
    m = model(name)
    h, layers, s, vocab = m.hidden_size, m.num_layers, m.num_positions, m.vocab_size
    paper = 12 * layers * h**2 * (1 + 13 / (12 * h) + (vocab + s) / (12 * layers * h))
    assert counting.num_parameters(m) == pytest.approx(paper + 2 * h, rel=1e-12)  # the paper leaves out the final norm


@pytest.mark.parametrize("name", [name for name in ids("models") if model_record(raw("models", name)["model"]) is Model])
def test_the_parts_add_up_and_agree_with_the_parameters_of_one_rank(name: str) -> None:
    m = model(name)
    parts = counting.layer_parts(m)
    assert parts.qkv + parts.output + parts.mlp + parts.replicated == parts.total == counting.layer_parameters(m)
    ends = counting.embedding_parameters(m) + counting.head_parameters(m) + counting.final_norm_parameters(m)
    assert m.num_layers * parts.total + ends == counting.num_parameters(m)
    assert layer_held(m, RECIPE, Strategy(), counting.DENSE).total == parts.total
    assert ends_held(m, RECIPE, Strategy(), embedding=True, head=True).total == ends
    if m.num_kv_heads % 2 == 0:
        cut = (parts.qkv + parts.output + parts.mlp) / 2 + parts.replicated
        assert layer_held(m, RECIPE, Strategy(tp=2), counting.DENSE).total == cut


def test_largest_layer_is_deepspeeds_largest_module() -> None:
    assert counting.largest_layer_parameters(model("llama-2-7b")) == 32000 * 4096


@pytest.mark.parametrize(("convention", "seq_len", "step_tflop"), [
    ("full", 8192, 1721.22), ("causal", 8192, 1510.11), ("full", 129024, 125194.40), ("causal", 129024, 72826.86),
])  # fmt: skip
def test_attention_in_full_and_causal(convention: str, seq_len: int, step_tflop: float) -> None:
    recipe = Recipe(seq_len=seq_len, global_batch_size=4, tokens=1, flop_convention=convention)  # type: ignore[arg-type]
    flop = counting.model_flop(model("llama-2-7b"), recipe, 4)
    assert flop / 1e12 == pytest.approx(step_tflop, rel=5e-4)


@pytest.mark.parametrize(("name", "token_per_s", "tflop_per_s"), [
    ("llama-3-8b", 14451, 744), ("llama-3.1-70b", 1602, 719), ("llama-3.1-405b", 292, 737), ("llama-3.1-405b", 813, 2053),
])  # fmt: skip
def test_causal_is_how_vendors_turn_tokens_into_flop(name: str, token_per_s: float, tflop_per_s: float) -> None:
    assert counting.causal(model(name), 8192) * token_per_s / 1e12 == pytest.approx(tflop_per_s, rel=3e-3)


def test_megatron_is_the_papers_formula() -> None:
    for name in ("gpt3-175b", "megatron-1.7b", "megatron-1t"):
        m, s = model(name), 2048
        layers, h, vocab = m.num_layers, m.hidden_size, m.vocab_size
        paper = 72 * layers * h**2 * (1 + s / (6 * h) + vocab / (12 * layers * h))
        assert counting.BY_NAME["megatron"](m, s, ()) == pytest.approx(paper, rel=1e-14)


def test_palm_and_six_n_on_their_own_definition() -> None:
    m = model("llama-2-7b")
    assert counting.six_n(m, 4096) == 6 * 6_738_415_616
    assert counting.palm(m, 4096) == 6 * 6_738_415_616 + 12 * 32 * 32 * 128 * 4096


def test_every_convention_has_a_meaning_and_takes_arrays() -> None:
    assert set(counting.BY_NAME) == set(counting.MEANING)
    m, lengths = model("mistral-7b"), np.array([1024.0, 4096.0, 65536.0])
    for convention in counting.BY_NAME.values():
        together = convention(m, lengths, ())
        one_by_one = [convention(m, float(length), ()) for length in lengths]
        assert together == pytest.approx(one_by_one, rel=1e-12)


def test_windows_count_the_area_they_let_through() -> None:
    assert counting.causal_share(8192.0, window=4096) == 0.375  # 4096 x (8192 - 2048) of 8192^2
    assert counting.causal_share(2048.0, window=4096) == 0.5
    with_window, without = model("mistral-7b"), model("mistral-7b", windows=(0,))
    assert counting.causal(with_window, 4096) == counting.causal(without, 4096)
    assert counting.causal(with_window, 32768) < counting.causal(without, 32768)


def test_a_pattern_of_windows_is_averaged_over_the_layers() -> None:
    m = model("mistral-7b", windows=(1024, 0), num_layers=3)
    expected = (2 * counting.causal_share(8192.0, window=1024) + 0.5) / 3
    assert counting.mean_causal_share(m, 8192.0) == pytest.approx(expected, rel=1e-15)


def test_packed_documents_sum_their_squares() -> None:
    m = model("llama-3-8b")
    attention = [counting.causal(m, 4096.0, docs) - 6 * counting.matmul_parameters(m) for docs in ((1024,) * 4, (4096,))]
    assert attention[0] / attention[1] == pytest.approx(0.25, rel=1e-9)
