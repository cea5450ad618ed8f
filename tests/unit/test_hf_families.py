"""Hugging Face configs beyond dense decoders: experts, latent attention, encoders, images, text parts, adapters."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from foretrain.catalog.loader import ids, load
from foretrain.core.errors import InputError
from foretrain.formats.hf import is_adapter, read, read_adapter
from foretrain.workload.counting import num_active_parameters, num_parameters
from foretrain.workload.model import Experts, LatentAttention, Model, layer_kinds
from tests.configs import CONFIGS, UNTIED, bert, decoder

NATIVE = {
    "vocab_size": 102400, "dim": 2048, "inter_dim": 10944, "moe_inter_dim": 1408, "n_layers": 27, "n_dense_layers": 1, "n_heads": 16,
    "n_routed_experts": 64, "n_shared_experts": 2, "n_activated_experts": 6, "q_lora_rank": 0, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip


def write(folder: Path, document: dict[str, Any], name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def refused(folder: Path, document: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(write(folder, document))
    return [problem.field for problem in caught.value.problems]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_catalogue_says_what_the_published_config_says(tmp_path: Path, name: str) -> None:
    entry = load("models", name)[0]
    assert dataclasses.replace(read(write(tmp_path, CONFIGS[name]))[0], name=entry.name) == entry


def test_every_catalogue_model_has_a_config_or_a_paper() -> None:
    described = [name for name in ids("models") if name not in CONFIGS and isinstance(load("models", name)[0], Model)]
    assert all(name.startswith(("megatron-", "gpt3-")) for name in described)


def test_deepseeks_experts_and_latent_attention(tmp_path: Path) -> None:
    model, inferred = read(write(tmp_path, CONFIGS["deepseek-v3"]))
    assert model.experts == Experts(
        num_experts=256,
        experts_per_token=8,
        ffn_size=2048,
        shared_ffn_size=2048,
        first_layer=3,
        router_bias=True,
        num_groups=8,
        groups_per_token=4,
    )
    assert model.latent == LatentAttention(kv_rank=512, q_rank=1536, nope_head_dim=128, rope_head_dim=64, value_head_dim=128)
    assert model.mtp_layers == 1
    assert inferred == ()
    assert [kind.experts for kind in layer_kinds(model)].count(False) == 3


def test_deepseeks_own_file_is_the_same_model(tmp_path: Path) -> None:
    native, inferred = read(write(tmp_path, NATIVE))
    lite = load("models", "deepseek-v2-lite")[0]
    assert dataclasses.replace(native, name=lite.name, max_seq_len=lite.max_seq_len) == lite
    assert inferred[0][:2] == ("model_type", "deepseek_native")


def test_llama_4_interleaves_experts_and_chunks(tmp_path: Path) -> None:
    kinds = layer_kinds(read(write(tmp_path, CONFIGS["llama-4-maverick"]))[0])
    assert [kind.experts for kind in kinds[:4]] == [False, True, False, True]
    assert [kind.window for kind in kinds[:4]] == [8192, 8192, 8192, 0]
    rotary = [1, 0] * 24
    chunked = read(write(tmp_path, {**CONFIGS["llama-4-maverick"], "no_rope_layers": rotary}))[0]
    assert chunked.windows == (8192, 0)
    assert refused(tmp_path, {**CONFIGS["llama-4-maverick"], "no_rope_layers": [2]}) == ["model.no_rope_layers"]


@pytest.mark.parametrize(
    ("changes", "first", "every"),
    [({}, 0, 1), ({"decoder_sparse_step": 2}, 0, 2), ({"mlp_only_layers": [0, 1]}, 2, 1)],
)
def test_qwens_sparse_layers(tmp_path: Path, changes: dict[str, Any], first: int, every: int) -> None:
    experts = read(write(tmp_path, {**CONFIGS["qwen3-30b-a3b"], **changes}))[0].experts
    assert experts is not None
    assert (experts.first_layer, experts.every) == (first, every)


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("qwen3-30b-a3b", {"mlp_only_layers": [5]}, "model.mlp_only_layers"),
        ("qwen3-30b-a3b", {"num_experts_per_tok": 200}, "model.num_experts_per_tok"),
        ("qwen3-30b-a3b", {"moe_intermediate_size": "768"}, "model.moe_intermediate_size"),
        ("mixtral-8x7b", {"moe_frequency": 2}, "model.moe_frequency"),
        ("deepseek-v2", {"moe_layer_freq": 2}, "model.moe_layer_freq"),
        ("deepseek-v2", {"num_experts_per_tok": None}, "model.num_experts_per_tok"),
        ("minimax-m2", {"shared_intermediate_size": 8}, "model.shared_intermediate_size"),
        ("minimax-m2", {"qk_norm_type": "per_head"}, "model.qk_norm_type"),
        ("dbrx-132b", {"ffn_config": 3}, "model.ffn_config"),
        ("mpt-7b", {"no_bias": False}, "model.no_bias"),
        ("mpt-7b", {"attn_config": {"qk_ln": True}}, "model.attn_config"),
        ("bert-base", {"is_decoder": True}, "model.is_decoder"),
        ("bert-base", {"position_embedding_type": "relative_key"}, "model.position_embedding_type"),
        ("bart-large", {"normalize_before": True}, "model.normalize_before"),
        ("bart-large", {"encoder_ffn_dim": 2048}, "model.encoder_ffn_dim"),
        ("t5-small", {"feed_forward_proj": "gated-tanh"}, "model.feed_forward_proj"),
        ("vit-b-16", {"patch_size": 15}, "model.patch_size"),
    ],
)
def test_what_the_record_cannot_say_is_named(tmp_path: Path, name: str, changes: dict[str, Any], field: str) -> None:
    assert refused(tmp_path, {**CONFIGS[name], **changes}) == [field]


def test_a_window_as_long_as_the_sequence_is_none(tmp_path: Path) -> None:
    model, inferred = read(write(tmp_path, CONFIGS["phi-3.5-moe"]))
    assert model.windows == (0,)
    assert "windows" in {field for field, _, _ in inferred}


@pytest.mark.parametrize(
    ("task", "parameters", "pooler"),
    [("BertForMaskedLM", 109_514_298, False), ("BertForPreTraining", 110_104_890, True), ("BertModel", 110_104_890, True)],
)
def test_the_heads_of_bert(tmp_path: Path, task: str, parameters: int, pooler: bool) -> None:
    model, inferred = read(write(tmp_path, bert(768, 12, 12, task)))
    assert (num_parameters(model), model.pooler, model.causal) == (parameters, pooler, False)
    assert ("architectures" in {field for field, _, _ in inferred}) == (task == "BertModel")


def test_googles_bert_files_name_no_type(tmp_path: Path) -> None:
    document = {key: value for key, value in bert(768, 12, 12).items() if key not in ("model_type", "architectures")}
    model, inferred = read(write(tmp_path, document))
    assert num_parameters(model) == 110_104_890
    assert inferred[0][:2] == ("model_type", "bert")


def test_the_sequence_of_an_image_is_its_patches(tmp_path: Path) -> None:
    model, _ = read(write(tmp_path, CONFIGS["vit-h-14"]))
    assert (model.max_seq_len, model.num_positions, model.vocab_size) == (257, 257, 1000)


TEXT = {key: value for key, value in CONFIGS["llama-4-scout"].items() if key != "model_type"}


@pytest.mark.parametrize(
    ("document", "parameters"),
    [
        ({"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": TEXT}, 107_769_861_120),
        ({"model_type": "gemma3", "text_config": CONFIGS["gemma-3-27b"], "vision_config": {"patch_size": 14}}, 27_009_346_304),
        ({**CONFIGS["qwen2.5-7b"], "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}}, 7_615_616_512),
    ],
)
def test_the_text_part_of_a_model_with_images_is_read_and_said(tmp_path: Path, document: dict[str, Any], parameters: int) -> None:
    model, inferred = read(write(tmp_path, document))
    assert num_parameters(model) == parameters
    assert [(field, value) for field, value, _ in inferred if field == "vision_config"] == [("vision_config", "left out")]


def test_a_text_part_that_is_no_object_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read(write(tmp_path, {"model_type": "llama4", "text_config": 3}))


def test_glm_4_has_biases_on_queries_keys_and_values_only(tmp_path: Path) -> None:
    document = decoder("glm", 4096, 13696, 40, 32, 2, 151552, 131072, head_dim=128, attention_bias=True, **UNTIED)
    model, _ = read(write(tmp_path, document))
    assert (model.qkv_bias, model.attention_output_bias, model.norms_per_layer) == (True, False, 2)
    assert num_parameters(model) == 9_399_951_360


def test_active_parameters_of_a_dense_model_are_all(tmp_path: Path) -> None:
    model, _ = read(write(tmp_path, CONFIGS["llama-7b"]))
    assert num_active_parameters(model) == num_parameters(model)


ADAPTER = {"peft_type": "LORA", "r": 16, "target_modules": ["v_proj", "q_proj"], "base_model_name_or_path": "meta-llama/Llama-2-7b-hf"}


def test_an_adapter_file_gives_rank_targets_and_base(tmp_path: Path) -> None:
    path = write(tmp_path, ADAPTER, "adapter_config.json")
    lora, base = read_adapter(path)
    assert (lora.rank, lora.targets, base) == (16, ("q", "v"), "meta-llama/Llama-2-7b-hf")
    assert is_adapter(path)
    assert is_adapter(tmp_path)
    assert read_adapter(tmp_path) == (lora, base)
    every, _ = read_adapter(write(tmp_path, {**ADAPTER, "target_modules": "all-linear"}, "adapter_config.json"))
    assert every.targets == ("q", "k", "v", "o", "gate", "up", "down")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"peft_type": "IA3"}, "model.peft_type"),
        ({"use_dora": True}, "model.use_dora"),
        ({"r": -1}, "model.r"),
        ({"modules_to_save": ["lm_head"]}, "model.modules_to_save"),
        ({"target_modules": ["c_attn"]}, "model.target_modules"),
        ({"target_modules": None}, "model.target_modules"),
        ({"base_model_name_or_path": None}, "model.base_model_name_or_path"),
    ],
)
def test_other_adapters_are_refused(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_adapter(write(tmp_path, {**ADAPTER, **changes}, "adapter_config.json"))
    assert [problem.field for problem in caught.value.problems] == [field]


ONE_OF_EACH = {document["model_type"]: document for document in (*CONFIGS.values(), {**NATIVE, "model_type": "deepseek_native"})}
NONSENSE = (None, True, -1, 2.5, 10**30, "x", [], [1, "x"], {"a": 1})


def read_or_error(path: Path) -> Model | InputError:
    try:
        return read(path)[0]
    except InputError as error:
        return error


@pytest.mark.parametrize("model_type", ONE_OF_EACH)
def test_nonsense_under_any_key_is_read_or_refused(tmp_path: Path, model_type: str) -> None:
    document = ONE_OF_EACH[model_type]
    places = [(key,) for key in document]
    places += [(key, inner) for key, value in document.items() if isinstance(value, dict) and key != "id2label" for inner in value]
    for place in places:
        for value in NONSENSE:
            broken = {**document, place[0]: value if len(place) == 1 else {**document[place[0]], place[1]: value}}
            outcome = read_or_error(write(tmp_path, broken))
            if isinstance(outcome, InputError):
                assert all(problem.where for problem in outcome.problems)
            else:
                assert num_parameters(outcome) > 0
