"""Hugging Face configs of dense decoders: what is read, what is inferred and said, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretrain.core.errors import InputError
from foretrain.formats.hf import SUPPORTED, read
from foretrain.workload.counting import num_parameters
from tests.configs import CONFIGS

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "head_dim": 128,
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}


def sizes(model_type: str, hidden: int, ffn: int, layers: int, heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "vocab_size": vocab, "max_position_embeddings": 4096, **more,
    }  # fmt: skip


# Elements of the published checkpoints.
PUBLISHED = [
    (LLAMA, 8_030_261_248),
    (GPT2, 124_439_808),
    (sizes("mistral", 4096, 14336, 32, 32, 32000, num_key_value_heads=8), 7_241_732_096),
    (sizes("qwen2", 3584, 18944, 28, 28, 152064, num_key_value_heads=4), 7_615_616_512),
    (sizes("qwen2", 896, 4864, 24, 14, 151936, num_key_value_heads=2, tie_word_embeddings=True), 494_032_768),
    (sizes("qwen3", 4096, 12288, 36, 32, 151936, num_key_value_heads=8, head_dim=128), 8_190_735_360),
    (sizes("gemma", 3072, 24576, 28, 16, 256000, num_key_value_heads=16, head_dim=256), 8_537_680_896),
    (sizes("gemma2", 3584, 14336, 42, 16, 256000, num_key_value_heads=8, head_dim=256), 9_241_705_984),
    (sizes("gemma3_text", 1152, 6912, 26, 4, 262144, num_key_value_heads=1, head_dim=256), 999_885_952),
    (sizes("phi3", 3072, 8192, 32, 32, 32064), 3_821_079_552),
    (sizes("phi", 2560, 10240, 32, 32, 51200), 2_779_683_840),
    (sizes("olmo2", 4096, 11008, 32, 32, 100352, num_key_value_heads=32), 7_298_617_344),
    (sizes("cohere", 8192, 22528, 40, 64, 256000, num_key_value_heads=64), 34_980_831_232),
    (sizes("stablelm", 2560, 6912, 32, 32, 50304, num_key_value_heads=32), 2_795_443_200),
    (sizes("starcoder2", 3072, 12288, 30, 24, 49152, num_key_value_heads=2), 3_030_371_328),
    (sizes("gpt_neox", 6144, 24576, 44, 64, 50432), 20_554_567_680),
    (sizes("baichuan", 4096, 11008, 32, 32, 125696), 7_505_973_248),
    (sizes("qwen", 4096, 22016, 32, 32, 151936, kv_channels=128), 7_721_324_544),
    (
        {"model_type": "exaone", "hidden_size": 4096, "intermediate_size": 14336, "num_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 102400, "tie_word_embeddings": False},
        7_818_448_896,
    ),
    (
        {"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28, "num_attention_heads": 32,
         "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
         "add_qkv_bias": True, "padded_vocab_size": 65024, "seq_length": 8192},
        6_243_584_000,
    ),
    (
        {"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50272,
         "max_position_embeddings": 2048, "word_embed_proj_dim": 768},
        125_239_296,
    ),
    ({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880}, 176_247_271_424),
    ({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024}, 6_921_720_704),
    (
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
         "new_decoder_architecture": True, "vocab_size": 65024},
        41_303_293_952,
    ),
    ({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048, "vocab_size": 50400}, 6_050_882_784),
]  # fmt: skip


def write(folder: Path, document: object) -> Path:
    path = folder / "config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1), encoding="utf-8")
    return path


def refusal(folder: Path, document: object) -> InputError:
    with pytest.raises(InputError) as caught:
        read(write(folder, document))
    return caught.value


@pytest.mark.parametrize(("document", "expected"), PUBLISHED, ids=[f"{d['model_type']}-{n}" for d, n in PUBLISHED])
def test_published_models_have_their_published_size(tmp_path: Path, document: dict[str, Any], expected: int) -> None:
    assert num_parameters(read(write(tmp_path, document))[0]) == expected


def test_every_supported_type_is_tried_above_or_shares_its_reader() -> None:
    tried = {SUPPORTED[document["model_type"]] for document in (*(document for document, _ in PUBLISHED), *CONFIGS.values())}
    assert {word for word, reader in SUPPORTED.items() if reader not in tried} == {"gpt_bigcode", "glm", "deepseek_native"}


def test_a_folder_and_its_file_give_the_same_model(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA)
    assert read(tmp_path) == read(path) == read(str(path))
    assert read(path)[0].name == tmp_path.name


def test_nothing_is_inferred_from_a_complete_file(tmp_path: Path) -> None:
    assert read(write(tmp_path, LLAMA))[1] == ()


def test_what_is_inferred_is_said(tmp_path: Path) -> None:
    keys = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    model, inferred = read(write(tmp_path, {key: LLAMA[key] for key in keys}))
    said = {field: value for field, value, _ in inferred}
    assert said == {
        "num_kv_heads": 32, "head_dim": 128, "qkv_bias": False, "mlp_bias": False, "tied_embeddings": False, "max_seq_len": 0,
    }  # fmt: skip
    assert model.num_kv_heads == 32
    assert all(reason for _, _, reason in inferred)


def test_an_explicit_head_dim_is_honoured(tmp_path: Path) -> None:
    assert read(write(tmp_path, {**LLAMA, "head_dim": 64}))[0].head_dim == 64
    assert read(write(tmp_path, {**LLAMA, "hidden_size": 4100}))[0].head_dim == 128


def test_heads_that_do_not_divide_the_hidden_size_need_a_head_dim(tmp_path: Path) -> None:
    document = {key: value for key, value in LLAMA.items() if key != "head_dim"}
    (problem,) = refusal(tmp_path, {**document, "hidden_size": 4100}).problems
    assert problem.field == "model.num_attention_heads"
    assert "head_dim" in problem.message
    assert problem.nearest


def test_gpt2_and_opt_learn_their_positions(tmp_path: Path) -> None:
    assert read(write(tmp_path, GPT2))[0].num_positions == 1024
    opt = next(document for document, _ in PUBLISHED if document["model_type"] == "opt")
    assert read(write(tmp_path, opt))[0].num_positions == 2050


def test_parallel_blocks_and_shared_norms(tmp_path: Path) -> None:
    neox = next(document for document, _ in PUBLISHED if document["model_type"] == "gpt_neox")
    assert read(write(tmp_path, neox))[0].parallel_block
    assert not read(write(tmp_path, {**neox, "use_parallel_residual": False}))[0].parallel_block
    falcon = next(document for document, _ in PUBLISHED if document["model_type"] == "falcon")
    assert read(write(tmp_path, falcon))[0].norms_per_layer == 1


@pytest.mark.parametrize(
    ("document", "windows"),
    [
        (sizes("mistral", 64, 128, 4, 4, 100, num_key_value_heads=2), (4096,)),
        (sizes("mistral", 64, 128, 4, 4, 100, num_key_value_heads=2, sliding_window=None), (0,)),
        (sizes("gemma2", 64, 128, 4, 4, 100, sliding_window=1024), (1024, 0)),
        (sizes("gemma3_text", 64, 128, 12, 4, 100, sliding_window=512), (512, 512, 512, 512, 512, 0)),
        (sizes("qwen2", 64, 128, 4, 4, 100, num_key_value_heads=4, sliding_window=512, max_window_layers=2), (0,)),
        (
            sizes("qwen2", 64, 128, 4, 4, 100, num_key_value_heads=4, sliding_window=512, max_window_layers=2, use_sliding_window=True),
            (0, 0, 512, 512),
        ),
        (sizes("gemma2", 64, 128, 2, 4, 100, sliding_window=9, layer_types=["full_attention", "sliding_attention"]), (0, 9)),
    ],
)
def test_sliding_windows(tmp_path: Path, document: dict[str, Any], windows: tuple[int, ...]) -> None:
    assert read(write(tmp_path, document))[0].windows == windows


def test_the_bare_model_gets_its_head_and_says_so(tmp_path: Path) -> None:
    _, inferred = read(write(tmp_path, {**LLAMA, "architectures": ["LlamaModel"]}))
    assert [field for field, _, _ in inferred] == ["architectures"]


def test_a_missing_model_type_is_taken_from_the_class_name(tmp_path: Path) -> None:
    document = {key: value for key, value in LLAMA.items() if key != "model_type"}
    model, inferred = read(write(tmp_path, document))
    assert num_parameters(model) == 8_030_261_248
    assert inferred[0][:2] == ("model_type", "llama")


def test_the_number_formats_of_a_quantised_checkpoint_are_ignored_and_said(tmp_path: Path) -> None:
    _, inferred = read(write(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "fp8"}}))
    assert [field for field, _, _ in inferred] == ["quantization_config"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({**LLAMA, "num_local_experts": 8}, ("llama", "mixture of experts")),
        ({**LLAMA, "kv_lora_rank": 512}, ("llama", "latent attention")),
        ({"model_type": "bert", "architectures": ["BertForQuestionAnswering"]}, ("BertForQuestionAnswering", "BertForMaskedLM")),
        ({"model_type": "pegasus", "is_encoder_decoder": True}, ("pegasus", "encoder-decoder")),
        ({"model_type": "mamba", "state_size": 16}, ("mamba", "state-space")),
        ({"model_type": "rwkv", "attention_hidden_size": 64}, ("rwkv", "recurrent")),
        ({"model_type": "jamba", "num_experts": 16}, ("jamba", "state-space")),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-*"}, ("nemotron_h", "state-space")),
        ({"model_type": "qwen3_next", "linear_num_value_heads": 32}, ("qwen3_next", "linear attention")),
        ({"model_type": "clip_vision_model", "image_size": 224}, ("clip_vision_model", "image tower")),
        ({"model_type": "decoder_only_t5", "is_encoder_decoder": True}, ("decoder_only_t5", "biases and norms")),
        ({"model_type": "some_future_model", "ssm_state_size": 8}, ("some_future_model", "state-space")),
        ({"model_type": "llava", "vision_config": {}, "text_config": {}}, ("llava", "images")),
        ({"model_type": "swin", "image_size": 224}, ("swin", "images")),
        ({"model_type": "nemotron-nas", "block_configs": [{}]}, ("nemotron-nas", "differ")),
        ({"peft_type": "LORA", "r": 8}, ("adapter", "LORA")),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, ("quantisation",)),
        ({"hidden_size": 12}, ("without model_type",)),
        ({"architectures": ["OpenMoeForCausalLM"], "num_experts": 32}, ("OpenMoeForCausalLM", "further norm")),
        ({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, ("LlamaForSequenceClassification",)),
        ({**GPT2, "add_cross_attention": True}, ("encoder-decoder",)),
    ],
)
def test_other_architectures_are_refused_by_name(tmp_path: Path, document: dict[str, Any], words: tuple[str, ...]) -> None:
    message = str(refusal(tmp_path, document))
    assert all(word in message for word in words)
    assert "llama" in message
    assert "config.json:" in message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hidden_size": "4096"}, "model.hidden_size"),
        ({"hidden_size": True}, "model.hidden_size"),
        ({"hidden_size": 4096.0}, "model.hidden_size"),
        ({"hidden_size": -1}, "model.hidden_size"),
        ({"hidden_size": 10**40}, "model.hidden_size"),
        ({"hidden_size": None}, "model.hidden_size"),
        ({"num_hidden_layers": []}, "model.num_hidden_layers"),
        ({"num_key_value_heads": 5}, "model.num_key_value_heads"),
        ({"tie_word_embeddings": "yes"}, "model.tie_word_embeddings"),
        ({"head_dim": 0}, "model.head_dim"),
    ],
)
def test_wrong_values_are_named_with_their_place(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    problems = refusal(tmp_path, {**LLAMA, **changes}).problems
    assert field in {problem.field for problem in problems}
    assert all(problem.where.startswith(str(tmp_path)) for problem in problems)


def test_a_misspelt_key_is_missing_and_the_nearest_is_named(tmp_path: Path) -> None:
    document = {("hiden_size" if key == "hidden_size" else key): value for key, value in LLAMA.items()}
    problems = refusal(tmp_path, document).problems
    assert ("model.hidden_size", ("hiden_size",)) in {(problem.field, problem.nearest) for problem in problems}


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    problems = refusal(tmp_path, {**LLAMA, "hidden_size": "x", "vocab_size": -3, "mlp_bias": 7}).problems
    assert {problem.field for problem in problems} == {"model.hidden_size", "model.vocab_size", "model.mlp_bias"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"model_type": "llama",\n "hidden_size": }', ":2:17"),
        ('{"model_type": "llama",\n "a": 1,\n "a": 2}', ":3:2"),
        ("[1, 2]", ":1:1"),
        ("", ":1:1"),
        ("[" * 100_000, ":1:1"),
        ('{"a": ' + "9" * 5000 + "}", ":1:1"),
        (json.dumps({**LLAMA, "rope_theta": float("nan")}), ":1:"),
        (json.dumps({**LLAMA, "pad": "x" * (1 << 20)}), ":1:1"),
    ],
)
def test_broken_json_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    (problem,) = refusal(tmp_path, text).problems
    assert problem.where.startswith(f"{tmp_path / 'config.json'}{place}")


def test_other_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path, "a\0b", tmp_path / ("x" * 5000)):
        with pytest.raises(InputError):
            read(path)
    (tmp_path / "config.json").write_bytes(b'{"model_type":\n "\xff"}')
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert caught.value.problems[0].where.endswith(":2:3")
