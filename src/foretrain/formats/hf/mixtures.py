"""Decoders with mixtures of experts: from the keys of a config to the fields of ``Model``.

The public classes differ in what they call the width of an expert, in which layers have experts, and in what stands beside the router.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrain.formats.hf.config import (
    NO_SHIFT,
    Config,
    Fields,
    attention_bias,
    everywhere,
    head_dim_of,
    late_windows,
    llama_sizes,
    shortest,
    sizes_of,
    tied_of,
    windows_of,
)
from foretrain.workload.model import Experts, LatentAttention


def _mixtral(config: Config) -> Fields:
    """Every layer has experts, of ``intermediate_size``."""
    if config.document.get("moe_frequency", 1) != 1:
        config.problem("moe_frequency", "only experts in every layer are supported", config.document["moe_frequency"], "1")
    sizes = llama_sizes(config, kv=8)
    return {
        **sizes,
        "experts": _local_experts(config, sizes),
        **windows_of(config, sizes["num_layers"], everywhere),
        **tied_of(config, default=False),
    }


def _local_experts(config: Config, sizes: Fields, *, default_top: int = 2, **more: Any) -> Experts:
    """``num_local_experts`` in every layer, as wide as ``intermediate_size``."""
    return Experts(
        num_experts=config.size("experts", "num_local_experts", "num_experts"),
        experts_per_token=config.size("experts", "num_experts_per_tok", "experts_per_token", default=default_top),
        ffn_size=sizes["ffn_size"],
        **more,
    )


def _sparse_layers(config: Config, layers: int) -> tuple[int, int]:
    """First layer with experts and step between them: the last of every ``decoder_sparse_step`` layers, but not ``mlp_only_layers``.

    Lists that are not a start and a step are refused.
    """
    step = config.size("experts", "decoder_sparse_step", default=1)
    _, dense = config.get("mlp_only_layers")
    if not dense:
        return 0, step
    if not isinstance(dense, list) or dense != list(range(len(dense))) or step != 1 or len(dense) >= layers:
        text = "only dense layers at the start, before experts in every layer, are supported"
        config.problem("mlp_only_layers", text, dense, allowed="[] or [0, 1, ...]")
        return 0, step
    return len(dense), 1


def _qwen_moe(config: Config, layers: int, **more: Any) -> Experts:
    first_layer, every = _sparse_layers(config, layers)
    return Experts(
        num_experts=config.size("experts", "num_experts", "num_local_experts"),
        experts_per_token=config.size("experts", "num_experts_per_tok"),
        ffn_size=config.size("experts", "moe_intermediate_size"),
        first_layer=first_layer,
        every=every,
        **more,
    )


def _qwen2_moe(config: Config) -> Fields:
    """Experts beside a shared one, which has a gate of its own."""
    sizes = llama_sizes(config, kv=16)
    shared = config.size("experts", "shared_expert_intermediate_size")
    return {
        **sizes,
        "experts": _qwen_moe(config, sizes["num_layers"], shared_ffn_size=shared, shared_gate=True),
        "qkv_bias": config.flag("qkv_bias", default=True),
        **late_windows(config, sizes["num_layers"]),
        **tied_of(config, default=False),
    }


def _qwen3_moe(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=4)
    return {
        **sizes,
        **attention_bias(config),
        "qk_norm": "head",
        "experts": _qwen_moe(config, sizes["num_layers"]),
        **late_windows(config, sizes["num_layers"]),
        **tied_of(config, default=False),
    }


def _olmoe(config: Config) -> Fields:
    sizes = llama_sizes(config)
    bias = attention_bias(config)
    return {**sizes, **bias, "qk_norm": "full", "experts": _local_experts(config, sizes, default_top=8), **tied_of(config, default=False)}


def _phimoe(config: Config) -> Fields:
    """Biases in attention and on the head, LayerNorm; a window as long as the model's sequence is none."""
    sizes = llama_sizes(config, kv=8)
    windows = windows_of(config, sizes["num_layers"], everywhere)
    if max(windows["windows"]) >= sizes["max_seq_len"] > 0:
        windows = {"windows": (0,)}
        config.note("windows", 0, "sliding_window is not shorter than max_position_embeddings")
    return {
        **sizes,
        **attention_bias(config),
        "norm": "layernorm",
        "experts": _local_experts(config, sizes),
        "head_bias": config.flag("lm_head_bias", default=False, field="head_bias"),
        **windows,
        **tied_of(config, default=False),
    }


def _gpt_oss(config: Config) -> Fields:
    """Biases everywhere but on the head, sinks in attention, windows in every other layer."""
    sizes = llama_sizes(config, kv=8, head_dim=64)
    return {
        **sizes,
        **attention_bias(config, default=True),
        "mlp_bias": True,
        "attention_sinks": True,
        "experts": _local_experts(config, sizes, default_top=4, router_bias=True),
        **windows_of(config, sizes["num_layers"], lambda layer: layer % 2 == 0, default=128),
        **tied_of(config, default=False),
    }


def _minimax_m2(config: Config) -> Fields:
    """One norm over all heads of queries and of keys, a bias that balances the router."""
    sizes = llama_sizes(config)
    if config.get("shared_intermediate_size")[1]:
        config.problem("shared_intermediate_size", "a shared expert is not supported in MiniMax-M2", allowed="0")
    if config.get("use_mtp")[1]:
        config.note("mtp_layers", 0, "the file names modules of multi-token prediction, which the published checkpoint does not hold")
    bias = config.flag("use_routing_bias", default=True, field="experts")
    norm = config.either("qk_norm_type", {"per_layer": "full"}, "per_layer") if config.flag("use_qk_norm", default=True) else "none"
    experts = _local_experts(config, sizes, default_top=8, router_bias=bias)
    return {**sizes, "qk_norm": norm, "experts": experts, **tied_of(config, default=False)}


def _dbrx(config: Config) -> Fields:
    """Sizes of attention and experts stand in objects of their own."""
    outer = config.document
    sizes = {
        "num_layers": config.size("num_layers", "n_layers"),
        "hidden_size": config.size("hidden_size", "d_model"),
        "num_heads": config.size("num_heads", "n_heads"),
        "vocab_size": config.size("vocab_size", "vocab_size"),
        "max_seq_len": config.size("max_seq_len", "max_seq_len", default=2048),
    }
    config.enter("ffn_config")
    width = config.size("ffn_size", "ffn_hidden_size")
    experts = Experts(
        num_experts=config.size("experts", "moe_num_experts"), experts_per_token=config.size("experts", "moe_top_k"), ffn_size=width
    )
    config.document = outer
    config.enter("attn_config")
    kv_heads = config.size("num_kv_heads", "kv_n_heads")
    config.document = outer
    config.note("norm", "rmsnorm", NO_SHIFT)
    fields = {**sizes, **head_dim_of(config, sizes), "num_kv_heads": kv_heads, "ffn_size": width, "experts": experts}
    return {**fields, **tied_of(config, default=False)}


def _routed(config: Config, *, router_bias: bool, default_top: int | None = 8) -> Experts | None:
    """DeepSeek's experts: the first layers are dense, shared experts are as wide as routed ones; None without experts."""
    if not config.get("n_routed_experts")[1]:
        return None
    width = config.size("experts", "moe_intermediate_size")
    if config.document.get("moe_layer_freq", 1) != 1:
        text = "only experts in every layer after the first are supported"
        config.problem("moe_layer_freq", text, config.document["moe_layer_freq"], "1")
    return Experts(
        num_experts=config.size("experts", "n_routed_experts"),
        experts_per_token=config.size("experts", "num_experts_per_tok", default=default_top),
        ffn_size=width,
        shared_ffn_size=width * config.size("experts", "n_shared_experts", default=0, least=0),
        first_layer=config.size("experts", "first_k_dense_replace", default=0, least=0),
        router_bias=router_bias,
        **_groups(config),
    )


def _groups(config: Config) -> Fields:
    """Groups of experts that a token is kept to; a greedy router looks at no groups."""
    if not config.get("n_group")[1] or not config.get("topk_group")[1] or config.document.get("topk_method") == "greedy":
        return {}
    return {
        "num_groups": config.size("experts", "n_group"),
        "groups_per_token": config.size("experts", "topk_group"),
    }


def _latent(config: Config) -> LatentAttention:
    """A query without a latent vector has ``q_lora_rank`` null, or 0 in DeepSeek's own files."""
    rank = config.get("q_lora_rank")[1]
    return LatentAttention(
        kv_rank=config.size("latent", "kv_lora_rank"),
        q_rank=config.size("latent", "q_lora_rank", least=0) if rank else 0,
        nope_head_dim=config.size("latent", "qk_nope_head_dim"),
        rope_head_dim=config.size("latent", "qk_rope_head_dim"),
        value_head_dim=config.size("latent", "v_head_dim"),
    )


def _extra_predictions(config: Config) -> Fields:
    """Modules of multi-token prediction, which the checkpoint holds and the public class of Transformers leaves out."""
    return {"mtp_layers": config.size("mtp_layers", "num_nextn_predict_layers", default=0, least=0)}


def _deepseek_v2(config: Config) -> Fields:
    """Latent attention; the router has no bias."""
    return _deepseek(config, router_bias=False)


def _deepseek_v3(config: Config) -> Fields:
    """Latent attention; a bias balances the router."""
    return {**_deepseek(config, router_bias=True), **_extra_predictions(config)}


def _deepseek(config: Config, *, router_bias: bool) -> Fields:
    sizes = sizes_of(config)
    latent = _latent(config)
    return {
        **sizes,
        "num_kv_heads": sizes["num_heads"],
        "head_dim": latent.value_head_dim,
        **attention_bias(config),
        "latent": latent,
        "experts": _routed(config, router_bias=router_bias, default_top=8 if router_bias else None),
        **tied_of(config, default=False),
    }


def _deepseek_native(config: Config) -> Fields:
    """The file of DeepSeek's own inference code; only its largest model has a bias that balances the router."""
    sizes = sizes_of(config, layers=("n_layers",), hidden=("dim",), heads=("n_heads",), ffn=("inter_dim",), length=("max_seq_len",))
    latent = _latent(config)
    width = config.size("experts", "moe_inter_dim")
    experts = Experts(
        num_experts=config.size("experts", "n_routed_experts"),
        experts_per_token=config.size("experts", "n_activated_experts"),
        ffn_size=width,
        shared_ffn_size=width * config.size("experts", "n_shared_experts", least=0),
        first_layer=config.size("experts", "n_dense_layers", least=0),
        router_bias=sizes["hidden_size"] == NATIVE_BIAS_HIDDEN_SIZE,
    )
    heads = {"num_kv_heads": sizes["num_heads"], "head_dim": latent.value_head_dim}
    return {**sizes, **heads, "latent": latent, "experts": experts, "tied_embeddings": False}


NATIVE_BIAS_HIDDEN_SIZE = 7168
"""Hidden size whose router has a bias in DeepSeek's inference code."""


def _glm4_moe(config: Config) -> Fields:
    """Biases on queries, keys and values only; a bias balances the router."""
    sizes = llama_sizes(config, kv=8)
    return {
        **sizes,
        **attention_bias(config, output=False),
        "qk_norm": "head" if config.flag("use_qk_norm", default=False) else "none",
        "experts": _routed(config, router_bias=True),
        **_extra_predictions(config),
        **tied_of(config, default=False),
    }


CHUNKED_LAYERS = 4
"""The last of every four layers of Llama 4 has no rotary positions and sees the whole sequence."""


def _llama4(config: Config) -> Fields:
    """Experts in the last of every ``interleave_moe_layer_step`` layers, beside a shared one of the same width.

    Attention is cut into chunks but in layers without rotary positions; its norm of queries and keys has no parameters.
    """
    sizes = llama_sizes(config, kv=8, head_dim=128)
    width = sizes["ffn_size"]
    sizes["ffn_size"] = config.size("ffn_size", "intermediate_size_mlp", default=16384)
    experts = Experts(
        num_experts=config.size("experts", "num_local_experts", default=16),
        experts_per_token=config.size("experts", "num_experts_per_tok", default=1),
        ffn_size=width,
        shared_ffn_size=width,
        every=config.size("experts", "interleave_moe_layer_step", default=1),
    )
    return {
        **sizes,
        **attention_bias(config),
        "qk_norm": "bare" if config.flag("use_qk_norm", default=True) else "none",
        "experts": experts,
        "windows": _chunks(config, sizes["num_layers"]),
        "window_kind": "chunked",
        **tied_of(config, default=False),
    }


def _chunks(config: Config, layers: int) -> tuple[int, ...]:
    chunk = config.size("windows", "attention_chunk_size", default=8192)
    _, rotary = config.get("no_rope_layers")
    if not rotary:
        config.note(
            "windows", chunk, "no_rope_layers is not in the file; every fourth layer sees the whole sequence, as in the public class"
        )
        rotary = [int((layer + 1) % CHUNKED_LAYERS != 0) for layer in range(min(layers, 10_000))]
    elif not isinstance(rotary, list) or len(rotary) != layers or any(item not in (0, 1) for item in rotary):
        config.problem("no_rope_layers", "must hold 0 or 1 for every layer", allowed="0, 1")
        rotary = [1]
    return shortest([chunk * int(item) for item in rotary])


MIXTURES: dict[str, Callable[[Config], Fields]] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "olmoe": _olmoe,
    "phimoe": _phimoe,
    "gpt_oss": _gpt_oss,
    "minimax_m2": _minimax_m2,
    "dbrx": _dbrx,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "kimi_k2": _deepseek_v3,
    "deepseek_native": _deepseek_native,
    "glm4_moe": _glm4_moe,
    "llama4_text": _llama4,
}
"""Readers of decoders with experts by ``model_type``; DeepSeek's own files name none and are told by their keys."""
