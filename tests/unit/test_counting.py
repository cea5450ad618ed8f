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

# Elements of the published checkpoints: sums over the parameters of the public classes of Hugging Face Transformers 5.24 (and the
# buffers that balance routers) made from the published configurations; images also by torchvision's table of weights. DBRX and T5 v1.1,
# which that version does not build as published, by hand from their own code's matrices. BERT without the two classes of its
# next-sentence head. The gpt3 and Megatron models go by the closed form of arXiv 2104.04473, equation 2, below.
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
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "gemma-3-27b": 27_009_346_304,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-72b": 72_706_203_648,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "phi-2": 2_779_683_840,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama-2-13b": 13_015_864_320,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "smollm-1.7b": 1_711_376_384,
    "smollm2-135m": 134_515_008,
    "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "falcon-180b": 178_557_088_768,
    "mpt-7b": 6_649_286_656,
    "mpt-30b": 29_957_200_896,
    "pythia-160m": 162_322_944,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "starcoder2-3b": 3_030_371_328,
    "starcoder2-7b": 7_173_923_840,
    "starcoder2-15b": 15_957_889_024,
    "command-r-35b": 34_980_831_232,
    "command-r-plus-104b": 103_810_674_688,
    "nemotron-4-340b": 341_029_195_776,
    "glm-4-9b": 9_400_279_040,
    "granite-3.1-8b": 8_170_848_256,
    "stablelm-3b": 2_795_443_200,
    "gpt-j-6b": 6_050_882_784,
    "gpt2-xl": 1_557_611_200,
    "opt-13b": 12_853_473_280,
    "opt-175b": 174_604_468_224,
    "bloom-7b1": 7_069_016_064,
    "bert-base": 110_104_890,
    "bert-large": 336_224_058,
    "roberta-base": 124_697_433,
    "roberta-large": 355_412_057,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-v1.1-xxl": 11_135_332_352,
    "bart-large": 406_291_456,
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "vit-h-14": 632_045_800,
}

# All and active parameters of the main model (without modules of multi-token prediction), embeddings included; what the source says.
MIXTURES = {
    "mixtral-8x7b": (46_702_792_704, 12_879_925_248),  # 46.7 B, 12.9 B active: mistral.ai/news/mixtral-of-experts
    "mixtral-8x22b": (140_620_634_112, 39_152_031_744),  # 141 B, 39 B active: mistral.ai/news/mixtral-8x22b
    "dbrx-132b": (131_596_523_520, 36_469_708_800),  # 132 B, 36 B active: Databricks, Introducing DBRX
    "qwen1.5-moe-a2.7b": (14_315_784_192, 2_689_173_504),  # 14.3 B, 2.7 B active: model card
    "qwen2-57b-a14b": (57_408_658_944, 14_249_270_784),  # 57 B, 14 B active: arXiv 2407.10671, table 1
    "qwen3-30b-a3b": (30_532_122_624, 3_353_032_704),  # 30.5 B, 3.3 B active: model card
    "qwen3-235b-a22b": (235_093_634_560, 22_190_763_520),  # 235 B, 22 B active: model card
    "deepseek-v2": (235_741_434_880, 21_375_800_320),  # 236 B, 21 B active: arXiv 2405.04434
    "deepseek-v2-lite": (15_706_484_224, 2_661_150_208),  # 15.7 B, 2.4 B active without embedding: arXiv 2405.04434, appendix B
    "deepseek-v3": (671_026_419_200, 37_552_297_472),  # 671 B, 37 B active, of the main model: arXiv 2412.19437
    "kimi-k2": (1_026_408_232_448, 32_861_500_928),  # 1 T, 32 B active: model card
    "gpt-oss-20b": (20_914_757_184, 4_187_440_704),  # 20.91 B, 3.61 B active without embedding: arXiv 2508.10925, table 1
    "gpt-oss-120b": (116_829_156_672, 5_711_982_912),  # 116.83 B, 5.13 B active without embedding: arXiv 2508.10925, table 1
    "glm-4.5": (352_797_829_024, 33_632_266_144),  # 355 B with MTP but without tables, 32 B active: arXiv 2508.06471, table 1
    "glm-4.5-air": (106_852_251_264, 13_424_129_664),  # 106 B, 12 B active: arXiv 2508.06471, table 1
    "llama-4-scout": (107_769_861_120, 17_172_894_720),  # 109 B with the vision tower, 17 B active: model card
    "llama-4-maverick": (400_711_848_960, 17_184_691_200),  # 400 B with the vision tower, 17 B active: model card
    "olmoe-1b-7b": (6_919_161_856, 1_282_017_280),  # 6.9 B, 1.3 B active: arXiv 2409.02060
    "phi-3.5-moe": (41_873_153_344, 6_640_999_744),  # 42 B, 6.6 B active: model card
    "minimax-m2": (228_689_764_864, 11_030_553_088),  # 230 B, 10 B active: model card
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


@pytest.mark.parametrize(("name", "expected"), MIXTURES.items())
def test_mixtures_have_their_published_parameters_and_active_ones(name: str, expected: tuple[int, int]) -> None:
    main = model(name, mtp_layers=0)
    assert (counting.num_parameters(main), counting.num_active_parameters(main)) == expected


def test_published_figures_that_leave_out_tables() -> None:
    for name, billion in (("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)):
        active = counting.num_active_parameters(model(name)) - counting.table_parameters(model(name))
        assert active / 1e9 == pytest.approx(billion, abs=0.005)
    glm = model("glm-4.5")
    assert (counting.num_parameters(glm) - 2 * counting.table_parameters(glm)) / 1e9 == pytest.approx(355, abs=0.5)
    nemotron = model("nemotron-4-340b")  # arXiv 2406.11704, table 1: 9.4 B of embeddings and 331.6 B of the rest
    assert 2 * counting.table_parameters(nemotron) / 1e9 == pytest.approx(9.4, abs=0.05)
    assert (counting.num_parameters(nemotron) - 2 * counting.table_parameters(nemotron)) / 1e9 == pytest.approx(331.6, abs=0.05)


def test_a_module_of_multi_token_prediction_is_a_layer_and_a_projection() -> None:
    deepseek = model("deepseek-v3")
    extra = counting.num_parameters(deepseek) - MIXTURES["deepseek-v3"][0]
    assert extra == counting.layer_parameters(deepseek, counting.kind_counts(deepseek)[-2][0]) + 2 * 7168**2 + 3 * 7168


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
    layers = 0
    for kind, count in counting.kind_counts(m):
        parts = counting.layer_parts(m, kind)
        assert parts.qkv + parts.output + parts.mlp + parts.experts + parts.replicated == parts.total == counting.layer_parameters(m, kind)
        layers += count * parts.total
        held = layer_held(m, RECIPE, Strategy(), kind)
        assert held.params + held.experts == parts.total
        if m.num_kv_heads % 2 == 0:
            cut = (parts.qkv + parts.output + parts.mlp) / 2 + parts.replicated
            assert layer_held(m, RECIPE, Strategy(tp=2), kind).params == cut
    ends = counting.embedding_parameters(m) + counting.head_parameters(m) + counting.final_norm_parameters(m)
    assert layers + ends == counting.num_parameters(m)
    held_ends = ends_held(m, RECIPE, Strategy(), embedding=True, head=True)
    assert held_ends.params == ends


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


def megatron_lm(m: Model, seq_len: int) -> float:
    """FLOP per token of a training step as Megatron-LM's ``num_floating_point_operations`` counts (megatron/training/training.py).

    Two operations per multiply-add, and three passes of that (forward, gradients of inputs, of weights); scores and context over the
    whole matrix, which newer versions halve. Every tower of layers: attention, the MLP or the experts a token is routed to beside the
    shared one; the modules of multi-token prediction with their projection and norms, and the logits of each.
    """
    h, heads, passes = m.hidden_size, m.num_heads, 3 * 2
    if m.latent is None:
        queries = heads * m.head_dim
        groups = m.num_kv_heads / heads
        attention = queries * h * (1 + groups) * 2 + 2 * queries * seq_len
    else:
        latent, key = m.latent, m.latent.nope_head_dim + m.latent.rope_head_dim
        query = latent.q_rank * (h + heads * key + 1) if latent.q_rank else h * heads * key
        pairs = latent.kv_rank * (h + heads * (latent.nope_head_dim + latent.value_head_dim) + 1) + h * latent.rope_head_dim
        output = heads * latent.value_head_dim * h
        attention = query + pairs + output + seq_len * heads * (key + latent.value_head_dim)
    matrices = 3 if m.gated_mlp else 2
    experts = m.experts
    sparse, expert_width = 0, 0
    if experts is not None:
        sparse = len(
            [layer for layer in range(experts.first_layer, m.num_layers) if (layer - experts.first_layer + 1) % experts.every == 0]
        )
        expert_width = experts.experts_per_token * experts.ffn_size + experts.shared_ffn_size
    dense = m.num_layers - sparse
    extra = m.mtp_layers
    mlp = matrices * h * (dense * m.ffn_size + (sparse + extra) * expert_width)
    logits = (extra + 1) * m.vocab_size * h
    return passes * ((m.num_layers + extra) * attention + mlp + logits + extra * (3 * h + 2 * h * h))


@pytest.mark.parametrize("name", [
    "gpt3-175b", "megatron-1t", "llama-2-7b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-32b", "nemotron-4-340b", "mixtral-8x7b",
    "mixtral-8x22b", "dbrx-132b", "qwen2-57b-a14b", "qwen3-235b-a22b", "olmoe-1b-7b", "llama-4-maverick", "deepseek-v2", "deepseek-v2-lite",
    "deepseek-v3", "kimi-k2", "glm-4.5",
])  # fmt: skip
@pytest.mark.parametrize("seq_len", [2048, 4096, 32768])
def test_megatron_is_what_megatron_lm_counts(name: str, seq_len: int) -> None:
    m = model(name)
    exact = m.latent is None and m.mtp_layers == 0
    assert counting.megatron(m, seq_len) == pytest.approx(megatron_lm(m, seq_len), rel=1e-12 if exact else 1e-3)


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
