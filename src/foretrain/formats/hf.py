"""Hugging Face ``config.json`` of dense decoders -> ``Model``.

What a key means and what its absence stands for follows the public model classes of Hugging Face Transformers, one function per
``model_type``. Whatever is not in the file is listed as inferred; a structure that ``Model`` cannot say exactly is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from foretrain.core.errors import InputError, Problem
from foretrain.formats.jsonfile import JsonFile, read_json
from foretrain.workload.model import Model

Inferred = tuple[str, object, str]
Fields = dict[str, Any]

MAX_SIZE = 10**9
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts", "ffn_config")
_STATE_SPACE = ("state_size", "ssm_cfg", "mamba_d_state", "ssm_state_size", "linear_num_value_heads", "attention_hidden_size")
_OTHER_INPUTS = ("vision_config", "text_config", "image_size", "patch_size", "audio_config")


def read(path: str | Path) -> tuple[Model, tuple[Inferred, ...]]:
    """The model in a ``config.json`` or in a folder that holds one.

    Returns
    -------
    The model, and (field of ``Model``, value, reason) for everything that the file leaves to a default.

    Raises
    ------
    InputError
        When the file is unreadable, broken, contradicts itself, or describes an architecture that is not a plain dense decoder.
    """
    given = Path(path)
    try:
        place = given / "config.json" if given.is_dir() else given
    except (OSError, ValueError) as error:
        raise InputError([Problem(field="model", value=str(path), message=f"cannot be read: {error}")]) from None
    config = _Config(read_json(place, "model"))
    fields = SUPPORTED[_model_type(config)](config)
    if config.file.not_finite:
        message = "holds NaN or an infinity, which JSON does not know"
        raise InputError([Problem(field="model", message=message, where=config.file.not_finite)])
    _check_heads(config, fields)
    if config.problems:
        raise InputError(config.problems)
    name = place.resolve().parent.name if place.name == "config.json" else place.stem
    return Model(name=name, **fields), tuple(config.inferred)


class _Config:
    """The keys of one file; remembers what was inferred and what is wrong."""

    def __init__(self, file: JsonFile) -> None:
        self.file = file
        self.type = ""
        self.inferred: list[Inferred] = []
        self.problems: list[Problem] = []

    def get(self, *keys: str) -> tuple[str, Any]:
        """The first of ``keys`` with a value, and that value; ``("", None)`` if there is none."""
        return next(((key, value) for key in keys if (value := self.file.document.get(key)) is not None), ("", None))

    def note(self, field: str, value: object, reason: str) -> None:
        """Say that ``value`` was not read from the file."""
        self.inferred.append((field, value, reason))

    def problem(self, key: str, message: str, value: object = None, allowed: str = "", nearest: tuple[object, ...] = ()) -> None:
        """Record what is wrong with a key."""
        where = self.file.where(key)
        self.problems.append(Problem(field=f"model.{key}", message=message, value=value, allowed=allowed, nearest=nearest, where=where))

    def size(self, field: str, *keys: str, default: int | None = None, reason: str = "") -> int:
        """A whole number of at least 1 under the first of ``keys`` that is there."""
        key, value = self.get(*keys)
        if not key and default is not None:
            self.note(field, default, reason or self._default(keys[0]))
            return default
        if not key:
            near = tuple(difflib.get_close_matches(keys[0], list(self.file.document), n=2))
            self.problem(keys[0], "is missing", nearest=near)
        elif isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, "must be a whole number", value)
        elif not 1 <= value <= MAX_SIZE:
            self.problem(key, "is out of range", value, f"1 to {MAX_SIZE}")
        else:
            return value
        return 1

    def flag(self, key: str, *, default: bool, field: str = "") -> bool:
        """True or false under ``key``; ``field`` names the model's field if it has the same meaning."""
        found, value = self.get(key)
        if not found:
            self.note(field or key, default, self._default(key))
            return default
        if not isinstance(value, bool):
            self.problem(key, "must be true or false", value)
        return bool(value)

    def _default(self, key: str) -> str:
        return f"{key} is not in the file; default of {self.type} in Hugging Face Transformers"


def _model_type(config: _Config) -> str:
    """The supported ``model_type`` of the file; anything else is refused by name."""
    document = config.file.document
    if "peft_type" in document:
        _refuse(config, "peft_type", f"adapter file ({document['peft_type']!s:.40})", "give the base model's config.json")
    if "quantization" in document and "model_type" not in document:
        _refuse(config, "quantization", "quantisation file", "give the model's config.json")
    _, word = config.get("model_type")
    _, classes = config.get("architectures")
    head = classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""
    if not isinstance(word, str):
        word = next((name for name in SUPPORTED if _class_of(name) == head), "")
        if not word:
            hint = f"architecture {head!r:.80}{_family(document)}" if head else f"file without model_type{_family(document)}"
            _refuse(config, "architectures" if head else "model_type", hint)
        config.note("model_type", word, f"model_type is not in the file; taken from architectures ({head})")
    if word not in SUPPORTED or _family(document):
        _refuse(config, "model_type", f"architecture {word!r:.80}{_family(document)}")
    config.type = word
    _check_head(config, head)
    if config.get("quantization_config")[0]:
        config.note("quantization_config", "ignored", "describes a finished checkpoint; the number formats of training are chosen apart")
    return word


def _check_head(config: _Config, head: str) -> None:
    """A language model has an output head; a file that names the bare model gets one, other tasks are refused."""
    if not head or head.endswith(("ForCausalLM", "LMHeadModel")) or (config.type == "chatglm" and head.startswith("ChatGLM")):
        return
    if not head.endswith("Model"):
        _refuse(config, "architectures", f"architecture {head!r:.80}")
    config.note("architectures", head, "names the bare model; the output head it is trained with is added")


def _class_of(model_type: str) -> str:
    """Class name that goes with a type: ``gpt_neox`` -> ``GPTNeoXForCausalLM``, ``llama`` -> ``LlamaForCausalLM``."""
    special = {"gpt2": "GPT2LMHeadModel", "gpt_neox": "GPTNeoXForCausalLM", "opt": "OPTForCausalLM", "qwen": "QWenLMHeadModel"}
    return special.get(model_type, f"{model_type.title().replace('_', '')}ForCausalLM")


def _family(document: Mapping[str, Any]) -> str:
    """What makes a config something other than a dense decoder, in parentheses; empty for a dense decoder."""

    def has(keys: Sequence[str]) -> bool:
        return any(document.get(key) not in (None, 0, 1) for key in keys)

    reasons = {
        "mixture of experts": has(_EXPERTS),
        "multi-head latent attention": has(("kv_lora_rank",)),
        "encoder-decoder": any(document.get(key) is True for key in ("is_encoder_decoder", "add_cross_attention")),
        "images or sound as input": has(_OTHER_INPUTS),
        "state-space or recurrent layers": has(_STATE_SPACE),
        "layers that differ from one another": has(("block_configs", "hybrid_override_pattern")),
    }
    found = [reason for reason, present in reasons.items() if present]
    return f" ({', '.join(found)})" if found else ""


def _refuse(config: _Config, key: str, what: str, advice: str = "") -> NoReturn:
    message = f"{what} is not supported" + (f"; {advice}" if advice else "; dense decoders only")
    where = config.file.where(key)
    raise InputError([Problem(field="model", message=message, allowed=f"model_type {', '.join(SUPPORTED)}", where=where)])


def _check_heads(config: _Config, fields: Fields) -> None:
    """Query heads must share key-value heads evenly."""
    heads, kv_heads = fields["num_heads"], fields["num_kv_heads"]
    if heads % kv_heads and not config.problems:
        divisors = [d for d in range(1, heads + 1) if heads % d == 0]
        nearest = tuple(sorted(divisors, key=lambda d: abs(d - kv_heads))[:2])
        config.problem("num_key_value_heads", f"must divide the number of attention heads, {heads}", kv_heads, nearest=nearest)


def _sizes(
    config: _Config,
    *,
    layers: Sequence[str] = ("num_hidden_layers",),
    hidden: Sequence[str] = ("hidden_size",),
    heads: Sequence[str] = ("num_attention_heads",),
    ffn: Sequence[str] = ("intermediate_size",),
    vocab: Sequence[str] = ("vocab_size",),
    length: Sequence[str] = ("max_position_embeddings",),
    four_times: bool = False,
) -> Fields:
    """The sizes every decoder has, under the keys this architecture uses.

    ``four_times``: the MLP is 4 hidden sizes wide if the file does not say.
    """
    hidden_size = config.size("hidden_size", *hidden)
    width = 4 * hidden_size if four_times else None
    return {
        "num_layers": config.size("num_layers", *layers),
        "hidden_size": hidden_size,
        "num_heads": config.size("num_heads", *heads),
        "ffn_size": config.size("ffn_size", *ffn, default=width, reason="not in the file; 4 x hidden size"),
        "vocab_size": config.size("vocab_size", *vocab),
        "max_seq_len": config.size("max_seq_len", *length, default=0, reason="not in the file; no limit is checked"),
    }


def _head_dim(config: _Config, sizes: Fields, *keys: str, default: int | None = None) -> Fields:
    """Explicit ``head_dim``, the architecture's default, or hidden size over heads, which must then divide."""
    names = keys or ("head_dim",)
    hidden, heads = sizes["hidden_size"], sizes["num_heads"]
    if config.get(*names)[0] or default is not None:
        return {"head_dim": config.size("head_dim", *names, default=default)}
    if hidden % heads and not config.problems:
        key = config.get("num_attention_heads", "n_head", "n_heads")[0] or "num_attention_heads"
        nearest = tuple(sorted((d for d in range(1, min(hidden, 4096) + 1) if hidden % d == 0), key=lambda d: abs(d - heads))[:2])
        config.problem(key, f"does not divide hidden_size {hidden} and head_dim is not given", heads, nearest=nearest)
    value = max(hidden // heads, 1)
    config.note("head_dim", value, "head_dim is not in the file; hidden size / attention heads")
    return {"head_dim": value}


def _kv_heads(config: _Config, sizes: Fields, default: int | None = None) -> Fields:
    """Key-value heads; if absent the class default, or as many as attention heads."""
    heads = sizes["num_heads"]
    if default is None:
        reason = "num_key_value_heads is not in the file; as many as attention heads"
        value = config.size("num_kv_heads", "num_key_value_heads", default=heads, reason=reason)
    else:
        value = config.size("num_kv_heads", "num_key_value_heads", default=default)
    return {"num_kv_heads": value}


def _equal_heads(config: _Config, sizes: Fields, *keys: str) -> Fields:
    """As many key-value heads as attention heads."""
    return {"num_kv_heads": sizes["num_heads"], **_head_dim(config, sizes, *keys)}


def _tied(config: _Config, *, default: bool) -> Fields:
    return {"tied_embeddings": config.flag("tie_word_embeddings", default=default, field="tied_embeddings")}


def _shortest(windows: Sequence[int]) -> tuple[int, ...]:
    """The shortest pattern that repeats into ``windows``.

    >>> _shortest([4096, 0, 4096, 0])
    (4096, 0)
    """
    total = len(windows)
    return next((tuple(windows[:n]) for n in range(1, total + 1) if windows[n:] == windows[: total - n]), (0,))


def _window(config: _Config, default: int | None = None) -> int:
    """``sliding_window`` in tokens, 0 when it is null or absent without a default."""
    if "sliding_window" in config.file.document and config.file.document["sliding_window"] is None:
        return 0
    if default is None and not config.get("sliding_window")[0]:
        return 0
    return config.size("windows", "sliding_window", default=default)


def _everywhere(_layer: int) -> bool:
    return True


def _windows(config: _Config, layers: int, slides: Callable[[int], bool], default: int | None = None) -> Fields:
    """Windows of all layers: as ``layer_types`` says, else where ``slides(layer)`` holds."""
    window = _window(config, default)
    _, kinds = config.get("layer_types")
    if kinds is None or not window:
        return {"windows": _shortest([window if slides(i) else 0 for i in range(min(layers, 10_000))])}
    words = {"sliding_attention": window, "full_attention": 0}
    if not isinstance(kinds, list) or len(kinds) != layers or any(str(kind) not in words for kind in kinds):
        config.problem("layer_types", "must name each layer's attention", allowed=", ".join(words))
        return {"windows": (0,)}
    return {"windows": _shortest([words[str(kind)] for kind in kinds])}


def _llama_sizes(config: _Config, *, kv: int | None = None, head_dim: int | None = None) -> Fields:
    """Sizes of the Llama family: rotary positions, RMSNorm, gated MLP without biases."""
    sizes = _sizes(config)
    return {**sizes, **_kv_heads(config, sizes, kv), **_head_dim(config, sizes, default=head_dim)}


def _attention_bias(config: _Config, *, output: bool = True) -> Fields:
    bias = config.flag("attention_bias", default=False, field="qkv_bias")
    return {"qkv_bias": bias, "attention_output_bias": bias and output}


def _llama(config: _Config) -> Fields:
    return {
        **_llama_sizes(config),
        **_attention_bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
        **_tied(config, default=False),
    }


def _mistral(config: _Config) -> Fields:
    sizes = _llama_sizes(config, kv=8)
    return {**sizes, **_windows(config, sizes["num_layers"], _everywhere, default=4096), **_tied(config, default=False)}


def _qwen2(config: _Config, *, kv: int = 32) -> Fields:
    sizes = _llama_sizes(config, kv=kv)
    return {**sizes, "qkv_bias": True, **_late_windows(config, sizes["num_layers"]), **_tied(config, default=False)}


def _qwen3(config: _Config) -> Fields:
    sizes = _llama_sizes(config, kv=32, head_dim=128)
    windows = _late_windows(config, sizes["num_layers"])
    return {**sizes, **_attention_bias(config), "qk_norm": "head", **windows, **_tied(config, default=False)}


def _late_windows(config: _Config, layers: int) -> Fields:
    """Qwen's windows: none unless ``use_sliding_window``; then from layer ``max_window_layers`` on."""
    if not config.flag("use_sliding_window", default=False):
        return {"windows": (0,)}
    _, first = config.get("max_window_layers")
    start = first if isinstance(first, int) else 28
    return _windows(config, layers, lambda layer: layer >= start, default=4096)


def _gemma(config: _Config) -> Fields:
    return {**_llama_sizes(config, kv=16, head_dim=256), **_attention_bias(config), **_tied(config, default=True)}


def _gemma2(config: _Config) -> Fields:
    sizes = _llama_sizes(config, kv=4, head_dim=256)
    windows = _windows(config, sizes["num_layers"], lambda layer: layer % 2 == 0, default=4096)
    return {**sizes, **_attention_bias(config), "norms_per_layer": 4, **windows, **_tied(config, default=True)}


def _gemma3_text(config: _Config) -> Fields:
    sizes = _llama_sizes(config, kv=4, head_dim=256)
    period = 6 if config.get("layer_types")[0] else config.size("sliding_window_pattern", "sliding_window_pattern", default=6)
    windows = _windows(config, sizes["num_layers"], lambda layer: (layer + 1) % period != 0, default=4096)
    return {**sizes, **_attention_bias(config), "norms_per_layer": 4, "qk_norm": "head", **windows, **_tied(config, default=True)}


def _phi3(config: _Config) -> Fields:
    sizes = _llama_sizes(config)
    return {**sizes, **_windows(config, sizes["num_layers"], _everywhere), **_tied(config, default=False)}


def _olmo2(config: _Config) -> Fields:
    return {**_llama_sizes(config), **_attention_bias(config), "qk_norm": "full", **_tied(config, default=False)}


def _baichuan(config: _Config) -> Fields:
    rotary = bool(config.get("max_position_embeddings")[0])
    if not rotary:
        config.note("position", "alibi", "no max_position_embeddings in the file: Baichuan's larger models use ALiBi")
    sizes = _sizes(config, length=("max_position_embeddings", "model_max_length"))
    heads = _equal_heads(config, sizes)
    return {**sizes, **heads, "position": "rope" if rotary else "alibi", **_tied(config, default=False)}


def _qwen(config: _Config) -> Fields:
    """The first Qwen: ``intermediate_size`` counts both input matrices of the gated MLP."""
    sizes = _sizes(config)
    sizes["ffn_size"] = max(sizes["ffn_size"] // 2, 1)
    config.note("ffn_size", sizes["ffn_size"], "half of intermediate_size, which counts gate and input together")
    biases = not config.flag("no_bias", default=True)
    heads = _equal_heads(config, sizes, "kv_channels")
    return {**sizes, **heads, "qkv_bias": True, "attention_output_bias": biases, "mlp_bias": biases, **_tied(config, default=False)}


def _chatglm(config: _Config) -> Fields:
    sizes = _sizes(config, layers=("num_layers",), ffn=("ffn_hidden_size",), vocab=("padded_vocab_size",), length=("seq_length",))
    grouped = config.flag("multi_query_attention", default=False)
    bias = config.flag("add_bias_linear", default=False, field="mlp_bias")
    return {
        **sizes,
        "num_kv_heads": config.size("num_kv_heads", "multi_query_group_num", default=1) if grouped else sizes["num_heads"],
        **_head_dim(config, sizes, "kv_channels"),
        "norm": "rmsnorm" if config.flag("rmsnorm", default=True) else "layernorm",
        "qkv_bias": bias or config.flag("add_qkv_bias", default=False, field="qkv_bias"),
        "attention_output_bias": bias,
        "mlp_bias": bias,
        "final_norm": config.flag("post_layer_norm", default=True, field="final_norm"),
        "tied_embeddings": False,
    }


def _exaone(config: _Config) -> Fields:
    sizes = _sizes(config, layers=("num_layers", "num_hidden_layers"))
    return {**sizes, **_kv_heads(config, sizes), **_head_dim(config, sizes), **_tied(config, default=True)}


def _cohere(config: _Config) -> Fields:
    """One norm feeds attention and MLP; it has a scale and no shift."""
    config.note("norm", "rmsnorm", "Cohere's LayerNorm has no shift: an RMSNorm has the same parameters, reads and writes")
    qk_norm = "full" if config.flag("use_qk_norm", default=False) else "none"
    block = {"norms_per_layer": 1, "parallel_block": True, "qk_norm": qk_norm}
    return {**_llama_sizes(config), **_attention_bias(config), **block, **_tied(config, default=True)}


def _stablelm(config: _Config) -> Fields:
    parallel = config.flag("use_parallel_residual", default=False, field="parallel_block")
    return {
        **_llama_sizes(config),
        "norm": "layernorm",
        "norms_per_layer": 1 if parallel else 2,
        "parallel_block": parallel,
        "qkv_bias": config.flag("use_qkv_bias", default=False, field="qkv_bias"),
        "qk_norm": "full" if config.flag("qk_layernorm", default=False) else "none",
        **_tied(config, default=False),
    }


def _plain_mlp(*, bias: bool) -> Fields:
    """LayerNorm and two MLP matrices, as in GPT-2, with ``bias`` on every linear layer or on none."""
    return {"norm": "layernorm", "gated_mlp": False, "qkv_bias": bias, "attention_output_bias": bias, "mlp_bias": bias}


def _starcoder2(config: _Config) -> Fields:
    sizes = _llama_sizes(config, kv=2)
    biases = _plain_mlp(bias=config.flag("use_bias", default=True))
    return {**sizes, **biases, **_windows(config, sizes["num_layers"], _everywhere), **_tied(config, default=True)}


def _nemotron(config: _Config) -> Fields:
    mlp_bias = config.flag("mlp_bias", default=False)
    return {
        **_llama_sizes(config),
        **_plain_mlp(bias=False),
        **_attention_bias(config),
        "mlp_bias": mlp_bias,
        **_tied(config, default=False),
    }


def _phi(config: _Config) -> Fields:
    """One norm feeds attention and MLP; biases everywhere, on the head as well."""
    if config.file.document.get("qk_layernorm"):
        config.problem("qk_layernorm", "norms of queries and keys with a shift are not supported", value="true", allowed="false")
    block = {"norms_per_layer": 1, "parallel_block": True, "head_bias": True}
    return {**_llama_sizes(config), **_plain_mlp(bias=True), **block, **_tied(config, default=False)}


def _gpt_neox(config: _Config) -> Fields:
    sizes = _sizes(config)
    bias = config.flag("attention_bias", default=True, field="qkv_bias")
    return {
        **sizes,
        **_equal_heads(config, sizes),
        **_plain_mlp(bias=True),
        "qkv_bias": bias,
        "attention_output_bias": bias,
        "parallel_block": config.flag("use_parallel_residual", default=True, field="parallel_block"),
        **_tied(config, default=False),
    }


def _gpt2_sizes(config: _Config) -> Fields:
    sizes = _sizes(
        config,
        layers=("n_layer", "num_hidden_layers"),
        hidden=("n_embd", "hidden_size"),
        heads=("n_head", "num_attention_heads"),
        ffn=("n_inner",),
        length=("n_positions", "max_position_embeddings"),
        four_times=True,
    )
    return {**sizes, **_equal_heads(config, sizes)}


def _gpt2(config: _Config) -> Fields:
    sizes = _gpt2_sizes(config)
    return {**sizes, **_plain_mlp(bias=True), **_learned(config, "n_positions", sizes["max_seq_len"]), **_tied(config, default=True)}


def _learned(config: _Config, key: str, rows: int) -> Fields:
    if not rows:
        config.problem(key, "is missing")
    return {"position": "learned", "num_positions": rows}


def _gpt_bigcode(config: _Config) -> Fields:
    fields = _gpt2(config)
    shared = config.flag("multi_query", default=True)
    return {**fields, "num_kv_heads": 1 if shared else fields["num_heads"]}


def _gptj(config: _Config) -> Fields:
    """One norm feeds attention and MLP; attention has no biases, MLP and head have."""
    block = {"norms_per_layer": 1, "parallel_block": True, "head_bias": True, "qkv_bias": False, "attention_output_bias": False}
    return {**_gpt2_sizes(config), **_plain_mlp(bias=True), **block, **_tied(config, default=False)}


def _bloom(config: _Config) -> Fields:
    sizes = _sizes(
        config,
        layers=("n_layer", "num_hidden_layers"),
        hidden=("hidden_size", "n_embed"),
        heads=("n_head", "num_attention_heads"),
        ffn=("n_inner",),
        length=("seq_length",),
        four_times=True,
    )
    heads = _equal_heads(config, sizes)
    return {**sizes, **heads, **_plain_mlp(bias=True), "position": "alibi", "embedding_norm": True, **_tied(config, default=True)}


def _falcon(config: _Config) -> Fields:
    """Falcon 7B shares one norm between attention and MLP; the newer decoder block has one for each unless the file says otherwise."""
    sizes = _sizes(
        config,
        layers=("num_hidden_layers", "n_layer"),
        heads=("num_attention_heads", "n_head"),
        ffn=("ffn_hidden_size",),
        four_times=True,
    )
    newer = config.flag("new_decoder_architecture", default=False)
    parallel = newer or config.flag("parallel_attn", default=True, field="parallel_block")
    shared = config.file.document.get("num_ln_in_parallel_attn") == 1 if newer else parallel
    keys = ("num_kv_heads", "n_head_kv")
    if newer:
        kv_heads = config.size("num_kv_heads", *keys, default=sizes["num_heads"], reason="not in the file; as many as attention heads")
    else:
        kv_heads = 1 if config.flag("multi_query", default=True) else sizes["num_heads"]
    return {
        **sizes,
        "num_kv_heads": kv_heads,
        **_head_dim(config, sizes),
        **_plain_mlp(bias=config.flag("bias", default=False, field="qkv_bias")),
        "norms_per_layer": 1 if shared else 2,
        "parallel_block": parallel,
        "position": "alibi" if config.flag("alibi", default=False) else "rope",
        **_tied(config, default=True),
    }


def _opt(config: _Config) -> Fields:
    """Learned positions with two rows more than positions, which padding uses."""
    sizes = _sizes(config, ffn=("ffn_dim",))
    key, width = config.get("word_embed_proj_dim")
    if key and width != sizes["hidden_size"]:
        config.problem(key, "a token table of another width than the layers is not supported", width, str(sizes["hidden_size"]))
    if config.file.document.get("layer_norm_elementwise_affine") is False:
        config.problem("layer_norm_elementwise_affine", "norms without parameters are not supported", value="false", allowed="true")
    before = config.flag("do_layer_norm_before", default=True, field="final_norm")
    final = before and not config.file.document.get("_remove_final_layer_norm")
    positions = _learned(config, "max_position_embeddings", sizes["max_seq_len"] and sizes["max_seq_len"] + 2)
    config.note("num_positions", positions["num_positions"], "max_position_embeddings + 2 rows for padding")
    return {
        **sizes,
        **_equal_heads(config, sizes),
        **_plain_mlp(bias=config.flag("enable_bias", default=True, field="qkv_bias")),
        **positions,
        "final_norm": final,
        **_tied(config, default=True),
    }


SUPPORTED: dict[str, Callable[[_Config], Fields]] = {
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gptj": _gptj,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
    "RefinedWebModel": _falcon,
    "RefinedWeb": _falcon,
    "llama": _llama,
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
    "granite": _llama,
    "cohere": _cohere,
    "exaone": _exaone,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "nemotron": _nemotron,
    "chatglm": _chatglm,
    "baichuan": _baichuan,
}
"""What is read, by ``model_type``."""
