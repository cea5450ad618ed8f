"""Dense decoders: one function per architecture, from the keys of its config to the fields of ``Model``."""

from __future__ import annotations

from collections.abc import Callable

from foretrain.formats.hf.config import (
    NO_SHIFT,
    Config,
    Fields,
    attention_bias,
    equal_heads,
    everywhere,
    head_dim_of,
    kv_heads_of,
    late_windows,
    learned,
    llama_sizes,
    plain_mlp,
    sizes_of,
    tied_of,
    windows_of,
)


def llama(config: Config) -> Fields:
    """Llama, and what shares its layers."""
    return {
        **llama_sizes(config),
        **attention_bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
        **tied_of(config, default=False),
    }


def _mistral(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=8)
    return {**sizes, **windows_of(config, sizes["num_layers"], everywhere, default=4096), **tied_of(config, default=False)}


def _qwen2(config: Config, *, kv: int = 32) -> Fields:
    sizes = llama_sizes(config, kv=kv)
    return {**sizes, "qkv_bias": True, **late_windows(config, sizes["num_layers"]), **tied_of(config, default=False)}


def _qwen3(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=32, head_dim=128)
    windows = late_windows(config, sizes["num_layers"])
    return {**sizes, **attention_bias(config), "qk_norm": "head", **windows, **tied_of(config, default=False)}


def _gemma(config: Config) -> Fields:
    return {**llama_sizes(config, kv=16, head_dim=256), **attention_bias(config), **tied_of(config, default=True)}


def _gemma2(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=4, head_dim=256)
    windows = windows_of(config, sizes["num_layers"], lambda layer: layer % 2 == 0, default=4096)
    return {**sizes, **attention_bias(config), "norms_per_layer": 4, **windows, **tied_of(config, default=True)}


def _gemma3_text(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=4, head_dim=256, vocab=262208)
    period = 6 if config.get("layer_types")[0] else config.size("sliding_window_pattern", "sliding_window_pattern", default=6)
    windows = windows_of(config, sizes["num_layers"], lambda layer: (layer + 1) % period != 0, default=4096)
    return {**sizes, **attention_bias(config), "norms_per_layer": 4, "qk_norm": "head", **windows, **tied_of(config, default=True)}


def _glm(config: Config, *, norms: int = 2) -> Fields:
    """Biases on queries, keys and values only; GLM-4-0414 has a norm after attention and MLP as well."""
    bias = attention_bias(config, output=False, default=True)
    return {**llama_sizes(config, kv=2, head_dim=128), **bias, "norms_per_layer": norms, **tied_of(config, default=False)}


def _glm4(config: Config) -> Fields:
    return _glm(config, norms=4)


def _phi3(config: Config) -> Fields:
    sizes = llama_sizes(config)
    return {**sizes, **windows_of(config, sizes["num_layers"], everywhere), **tied_of(config, default=False)}


def _olmo2(config: Config) -> Fields:
    return {**llama_sizes(config), **attention_bias(config), "qk_norm": "full", **tied_of(config, default=False)}


def _baichuan(config: Config) -> Fields:
    rotary = bool(config.get("max_position_embeddings")[0])
    if not rotary:
        config.note("position", "alibi", "no max_position_embeddings in the file: Baichuan's larger models use ALiBi")
    sizes = sizes_of(config, length=("max_position_embeddings", "model_max_length"))
    heads = equal_heads(config, sizes)
    return {**sizes, **heads, "position": "rope" if rotary else "alibi", **tied_of(config, default=False)}


def _qwen(config: Config) -> Fields:
    """The first Qwen: ``intermediate_size`` counts both input matrices of the gated MLP."""
    sizes = sizes_of(config)
    sizes["ffn_size"] = max(sizes["ffn_size"] // 2, 1)
    config.note("ffn_size", sizes["ffn_size"], "half of intermediate_size, which counts gate and input together")
    biases = not config.flag("no_bias", default=True)
    heads = equal_heads(config, sizes, "kv_channels")
    return {**sizes, **heads, "qkv_bias": True, "attention_output_bias": biases, "mlp_bias": biases, **tied_of(config, default=False)}


def _chatglm(config: Config) -> Fields:
    sizes = sizes_of(config, layers=("num_layers",), ffn=("ffn_hidden_size",), vocab=("padded_vocab_size",), length=("seq_length",))
    grouped = config.flag("multi_query_attention", default=False)
    bias = config.flag("add_bias_linear", default=False, field="mlp_bias")
    return {
        **sizes,
        "num_kv_heads": config.size("num_kv_heads", "multi_query_group_num", default=1) if grouped else sizes["num_heads"],
        **head_dim_of(config, sizes, "kv_channels"),
        "norm": "rmsnorm" if config.flag("rmsnorm", default=True) else "layernorm",
        "qkv_bias": bias or config.flag("add_qkv_bias", default=False, field="qkv_bias"),
        "attention_output_bias": bias,
        "mlp_bias": bias,
        "final_norm": config.flag("post_layer_norm", default=True, field="final_norm"),
        "tied_embeddings": False,
    }


def _exaone(config: Config) -> Fields:
    sizes = sizes_of(config, layers=("num_layers", "num_hidden_layers"))
    return {**sizes, **kv_heads_of(config, sizes), **head_dim_of(config, sizes), **tied_of(config, default=True)}


def _cohere(config: Config) -> Fields:
    """One norm feeds attention and MLP; it has a scale and no shift."""
    config.note("norm", "rmsnorm", NO_SHIFT)
    qk_norm = "full" if config.flag("use_qk_norm", default=False) else "none"
    block = {"norms_per_layer": 1, "parallel_block": True, "qk_norm": qk_norm}
    return {**llama_sizes(config), **attention_bias(config), **block, **tied_of(config, default=True)}


def _stablelm(config: Config) -> Fields:
    parallel = config.flag("use_parallel_residual", default=False, field="parallel_block")
    return {
        **llama_sizes(config),
        "norm": "layernorm",
        "norms_per_layer": 1 if parallel else 2,
        "parallel_block": parallel,
        "qkv_bias": config.flag("use_qkv_bias", default=False, field="qkv_bias"),
        "qk_norm": "full" if config.flag("qk_layernorm", default=False) else "none",
        **tied_of(config, default=False),
    }


def _starcoder2(config: Config) -> Fields:
    sizes = llama_sizes(config, kv=2)
    biases = plain_mlp(bias=config.flag("use_bias", default=True))
    return {**sizes, **biases, **windows_of(config, sizes["num_layers"], everywhere), **tied_of(config, default=True)}


def _nemotron(config: Config) -> Fields:
    mlp_bias = config.flag("mlp_bias", default=False)
    return {
        **llama_sizes(config),
        **plain_mlp(bias=False),
        **attention_bias(config),
        "mlp_bias": mlp_bias,
        **tied_of(config, default=False),
    }


def _phi(config: Config) -> Fields:
    """One norm feeds attention and MLP; biases everywhere, on the head as well."""
    if config.document.get("qk_layernorm"):
        config.problem("qk_layernorm", "norms of queries and keys with a shift are not supported", value="true", allowed="false")
    block = {"norms_per_layer": 1, "parallel_block": True, "head_bias": True}
    return {**llama_sizes(config), **plain_mlp(bias=True), **block, **tied_of(config, default=False)}


def _gpt_neox(config: Config) -> Fields:
    sizes = sizes_of(config)
    bias = config.flag("attention_bias", default=True, field="qkv_bias")
    return {
        **sizes,
        **equal_heads(config, sizes),
        **plain_mlp(bias=True),
        "qkv_bias": bias,
        "attention_output_bias": bias,
        "parallel_block": config.flag("use_parallel_residual", default=True, field="parallel_block"),
        **tied_of(config, default=False),
    }


def _gpt2_sizes(config: Config) -> Fields:
    sizes = sizes_of(
        config,
        layers=("n_layer", "num_hidden_layers"),
        hidden=("n_embd", "hidden_size"),
        heads=("n_head", "num_attention_heads"),
        ffn=("n_inner",),
        length=("n_positions", "max_position_embeddings"),
        four_times=True,
    )
    return {**sizes, **equal_heads(config, sizes)}


def _gpt2(config: Config) -> Fields:
    sizes = _gpt2_sizes(config)
    return {**sizes, **plain_mlp(bias=True), **learned(config, "n_positions", sizes["max_seq_len"]), **tied_of(config, default=True)}


def _gpt_bigcode(config: Config) -> Fields:
    fields = _gpt2(config)
    shared = config.flag("multi_query", default=True)
    return {**fields, "num_kv_heads": 1 if shared else fields["num_heads"]}


def _gptj(config: Config) -> Fields:
    """One norm feeds attention and MLP; attention has no biases, MLP and head have."""
    block = {"norms_per_layer": 1, "parallel_block": True, "head_bias": True, "qkv_bias": False, "attention_output_bias": False}
    return {**_gpt2_sizes(config), **plain_mlp(bias=True), **block, **tied_of(config, default=False)}


def _bloom(config: Config) -> Fields:
    sizes = sizes_of(
        config,
        layers=("n_layer", "num_hidden_layers"),
        hidden=("hidden_size", "n_embed"),
        heads=("n_head", "num_attention_heads"),
        ffn=("n_inner",),
        length=("seq_length",),
        four_times=True,
    )
    heads = equal_heads(config, sizes)
    return {**sizes, **heads, **plain_mlp(bias=True), "position": "alibi", "embedding_norm": True, **tied_of(config, default=True)}


def _falcon(config: Config) -> Fields:
    """Falcon 7B shares one norm between attention and MLP; the newer decoder block has one for each unless the file says otherwise."""
    sizes = sizes_of(
        config,
        layers=("num_hidden_layers", "n_layer"),
        heads=("num_attention_heads", "n_head"),
        ffn=("ffn_hidden_size",),
        four_times=True,
    )
    newer = config.flag("new_decoder_architecture", default=False)
    parallel = newer or config.flag("parallel_attn", default=True, field="parallel_block")
    shared = config.document.get("num_ln_in_parallel_attn") == 1 if newer else parallel
    keys = ("num_kv_heads", "n_head_kv")
    if newer:
        kv_heads = config.size("num_kv_heads", *keys, default=sizes["num_heads"], reason="not in the file; as many as attention heads")
    else:
        kv_heads = 1 if config.flag("multi_query", default=True) else sizes["num_heads"]
    return {
        **sizes,
        "num_kv_heads": kv_heads,
        **head_dim_of(config, sizes),
        **plain_mlp(bias=config.flag("bias", default=False, field="qkv_bias")),
        "norms_per_layer": 1 if shared else 2,
        "parallel_block": parallel,
        "position": "alibi" if config.flag("alibi", default=False) else "rope",
        **tied_of(config, default=True),
    }


def _opt(config: Config) -> Fields:
    """Learned positions with two rows more than positions, which padding uses."""
    sizes = sizes_of(config, ffn=("ffn_dim",))
    key, width = config.get("word_embed_proj_dim")
    if key and width != sizes["hidden_size"]:
        config.problem(key, "a token table of another width than the layers is not supported", width, str(sizes["hidden_size"]))
    if config.document.get("layer_norm_elementwise_affine") is False:
        config.problem("layer_norm_elementwise_affine", "norms without parameters are not supported", value="false", allowed="true")
    before = config.flag("do_layer_norm_before", default=True, field="final_norm")
    final = before and not config.document.get("_remove_final_layer_norm")
    positions = learned(config, "max_position_embeddings", sizes["max_seq_len"] and sizes["max_seq_len"] + 2)
    config.note("num_positions", positions["num_positions"], "max_position_embeddings + 2 rows for padding")
    return {
        **sizes,
        **equal_heads(config, sizes),
        **plain_mlp(bias=config.flag("enable_bias", default=True, field="qkv_bias")),
        **positions,
        "final_norm": final,
        **tied_of(config, default=True),
    }


def _mpt(config: Config) -> Fields:
    """MosaicML's decoder: no bias anywhere, norms included; ALiBi unless the file says otherwise."""
    if config.document.get("no_bias") is False:
        config.problem("no_bias", "biases in an MPT are not supported", value="false", allowed="true")
    ratio = config.size("ffn_size", "expansion_ratio", default=4)
    hidden = config.size("hidden_size", "d_model")
    sizes = {
        "num_layers": config.size("num_layers", "n_layers"),
        "hidden_size": hidden,
        "num_heads": config.size("num_heads", "n_heads"),
        "ffn_size": ratio * hidden,
        "vocab_size": config.size("vocab_size", "vocab_size"),
        "max_seq_len": config.size("max_seq_len", "max_seq_len", default=0, reason="not in the file; no limit is checked"),
    }
    config.note("norm", "rmsnorm", NO_SHIFT)
    attention = config.document.get("attn_config")
    options = attention if isinstance(attention, dict) else {}
    if options.get("qk_ln") or options.get("kv_n_heads", sizes["num_heads"]) != sizes["num_heads"]:
        config.problem("attn_config", "norms on queries and keys and shared heads are not supported in an MPT")
    alibi = options.get("alibi", True)
    rows = {"position": "alibi"} if alibi else learned(config, "max_seq_len", sizes["max_seq_len"])
    return {**sizes, **equal_heads(config, sizes), **plain_mlp(bias=False), "norm": "rmsnorm", **rows, **tied_of(config, default=True)}


DECODERS: dict[str, Callable[[Config], Fields]] = {
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gptj": _gptj,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
    "RefinedWebModel": _falcon,
    "RefinedWeb": _falcon,
    "llama": llama,
    "mistral": _mistral,
    "qwen": _qwen,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3_text,
    "phi": _phi,
    "phi3": _phi3,
    "olmo2": _olmo2,
    "granite": llama,
    "glm": _glm,
    "glm4": _glm4,
    "mpt": _mpt,
    "cohere": _cohere,
    "exaone": _exaone,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "nemotron": _nemotron,
    "chatglm": _chatglm,
    "baichuan": _baichuan,
}
"""Readers of dense decoders by ``model_type``."""
