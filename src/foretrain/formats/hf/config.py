"""The keys of a Hugging Face ``config.json``, and the readings that several architectures share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foretrain.core.errors import InputError, Problem
from foretrain.formats.jsonfile import JsonFile

Inferred = tuple[str, object, str]
Fields = dict[str, Any]
"""Fields of ``Model`` by name."""

MAX_SIZE = 10**9
NO_SHIFT = "the LayerNorm of this architecture has no shift: an RMSNorm has the same parameters, reads and writes"


class Config:
    """The keys of one file, or of one object in it; remembers what was inferred and what is wrong."""

    def __init__(self, file: JsonFile) -> None:
        self.file = file
        self.document: Mapping[str, Any] = file.document
        self.type = ""
        self.inferred: list[Inferred] = []
        self.problems: list[Problem] = []

    def get(self, *keys: str) -> tuple[str, Any]:
        """The first of ``keys`` with a value, and that value; ``("", None)`` if there is none."""
        return next(((key, value) for key in keys if (value := self.document.get(key)) is not None), ("", None))

    def note(self, field: str, value: object, reason: str) -> None:
        """Say that ``value`` was not read from the file."""
        self.inferred.append((field, value, reason))

    def problem(self, key: str, message: str, value: object = None, allowed: str = "", nearest: tuple[object, ...] = ()) -> None:
        """Record what is wrong with a key."""
        where = self.file.where(key)
        self.problems.append(Problem(field=f"model.{key}", message=message, value=value, allowed=allowed, nearest=nearest, where=where))

    def size(self, field: str, *keys: str, default: int | None = None, reason: str = "", least: int = 1) -> int:
        """A whole number of at least ``least`` under the first of ``keys`` that is there."""
        key, value = self.get(*keys)
        if not key and default is not None:
            self.note(field, default, reason or self._default(keys[0]))
            return default
        if not key:
            empty = next((name for name in keys if name in self.document), "")
            near = () if empty else tuple(difflib.get_close_matches(keys[0], list(self.document), n=2))
            self.problem(empty or keys[0], "is null" if empty else "is missing", nearest=near)
        elif isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, "must be a whole number", value)
        elif not least <= value <= MAX_SIZE:
            self.problem(key, "is out of range", value, f"{least} to {MAX_SIZE}")
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

    def enter(self, key: str) -> None:
        """Read the object under ``key`` from here on."""
        inner = self.document.get(key)
        if not isinstance(inner, dict):
            self.problem(key, "must be an object", inner)
            raise InputError(self.problems)
        self.document = inner

    def either(self, key: str, words: Mapping[str, str], default: str) -> str:
        """The word that a word of the file stands for."""
        found, value = self.get(key)
        if not found:
            self.note(key, default, self._default(key))
            return words[default]
        if not isinstance(value, str) or value not in words:
            self.problem(key, "is not one of the known words", value, ", ".join(words))
        return words.get(str(value), words[default])

    def _default(self, key: str) -> str:
        return f"{key} is not in the file; default of {self.type} in Hugging Face Transformers"


def check_heads(config: Config, fields: Fields) -> None:
    """Query heads must share key-value heads evenly, and a token cannot go to more experts than there are."""
    experts = fields.get("experts")
    if experts is not None and experts.experts_per_token > experts.num_experts and not config.problems:
        key = config.get("num_experts_per_tok", "moe_top_k", "n_activated_experts")[0]
        allowed = f"1 to {experts.num_experts}"
        config.problem(key, "is more than there are experts", experts.experts_per_token, allowed, nearest=(experts.num_experts,))
    heads, kv_heads = fields["num_heads"], fields["num_kv_heads"]
    if heads % kv_heads and not config.problems:
        divisors = [d for d in range(1, heads + 1) if heads % d == 0]
        nearest = tuple(sorted(divisors, key=lambda d: abs(d - kv_heads))[:2])
        config.problem("num_key_value_heads", f"must divide the number of attention heads, {heads}", kv_heads, nearest=nearest)


def sizes_of(
    config: Config,
    *,
    layers: Sequence[str] = ("num_hidden_layers",),
    hidden: Sequence[str] = ("hidden_size",),
    heads: Sequence[str] = ("num_attention_heads",),
    ffn: Sequence[str] = ("intermediate_size",),
    vocab: Sequence[str] = ("vocab_size",),
    length: Sequence[str] = ("max_position_embeddings",),
    four_times: bool = False,
    default_vocab: int | None = None,
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
        "vocab_size": config.size("vocab_size", *vocab, default=default_vocab),
        "max_seq_len": config.size("max_seq_len", *length, default=0, reason="not in the file; no limit is checked"),
    }


def head_dim_of(config: Config, sizes: Fields, *keys: str, default: int | None = None) -> Fields:
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


def kv_heads_of(config: Config, sizes: Fields, default: int | None = None) -> Fields:
    """Key-value heads; if absent the class default, or as many as attention heads."""
    heads = sizes["num_heads"]
    if default is None:
        reason = "num_key_value_heads is not in the file; as many as attention heads"
        value = config.size("num_kv_heads", "num_key_value_heads", default=heads, reason=reason)
    else:
        value = config.size("num_kv_heads", "num_key_value_heads", default=default)
    return {"num_kv_heads": value}


def equal_heads(config: Config, sizes: Fields, *keys: str) -> Fields:
    """As many key-value heads as attention heads."""
    return {"num_kv_heads": sizes["num_heads"], **head_dim_of(config, sizes, *keys)}


def tied_of(config: Config, *, default: bool) -> Fields:
    """Whether the output projection is the token table."""
    return {"tied_embeddings": config.flag("tie_word_embeddings", default=default, field="tied_embeddings")}


def shortest(windows: Sequence[int]) -> tuple[int, ...]:
    """The shortest pattern that repeats into ``windows``.

    >>> shortest([4096, 0, 4096, 0])
    (4096, 0)
    """
    total = len(windows)
    return next((tuple(windows[:n]) for n in range(1, total + 1) if windows[n:] == windows[: total - n]), (0,))


def window_of(config: Config, default: int | None = None) -> int:
    """``sliding_window`` in tokens, 0 when it is null or absent without a default."""
    if "sliding_window" in config.document and config.document["sliding_window"] is None:
        return 0
    if default is None and not config.get("sliding_window")[0]:
        return 0
    return config.size("windows", "sliding_window", default=default)


def everywhere(_layer: int) -> bool:
    """Every layer slides."""
    return True


def windows_of(config: Config, layers: int, slides: Callable[[int], bool], default: int | None = None) -> Fields:
    """Windows of all layers: as ``layer_types`` says, else where ``slides(layer)`` holds."""
    window = window_of(config, default)
    _, kinds = config.get("layer_types")
    if kinds is None or not window:
        return {"windows": shortest([window if slides(i) else 0 for i in range(min(layers, 10_000))])}
    words = {"sliding_attention": window, "full_attention": 0}
    if not isinstance(kinds, list) or len(kinds) != layers or any(str(kind) not in words for kind in kinds):
        config.problem("layer_types", "must name each layer's attention", allowed=", ".join(words))
        return {"windows": (0,)}
    return {"windows": shortest([words[str(kind)] for kind in kinds])}


def llama_sizes(config: Config, *, kv: int | None = None, head_dim: int | None = None, vocab: int | None = None) -> Fields:
    """Sizes of the Llama family: rotary positions, RMSNorm, gated MLP without biases."""
    sizes = sizes_of(config, default_vocab=vocab)
    return {**sizes, **kv_heads_of(config, sizes, kv), **head_dim_of(config, sizes, default=head_dim)}


def attention_bias(config: Config, *, output: bool = True, default: bool = False) -> Fields:
    """Biases of attention's projections; ``output``: of the one behind attention too."""
    bias = config.flag("attention_bias", default=default, field="qkv_bias")
    return {"qkv_bias": bias, "attention_output_bias": bias and output}


def plain_mlp(*, bias: bool) -> Fields:
    """LayerNorm and two MLP matrices, as in GPT-2, with ``bias`` on every linear layer or on none."""
    return {"norm": "layernorm", "gated_mlp": False, "qkv_bias": bias, "attention_output_bias": bias, "mlp_bias": bias}


def learned(config: Config, key: str, rows: int) -> Fields:
    """A table of learned positions."""
    if not rows:
        config.problem(key, "is missing")
    return {"position": "learned", "num_positions": rows}


def late_windows(config: Config, layers: int) -> Fields:
    """Qwen's windows: none unless ``use_sliding_window``; then from layer ``max_window_layers`` on."""
    if not config.flag("use_sliding_window", default=False):
        return {"windows": (0,)}
    _, first = config.get("max_window_layers")
    start = first if isinstance(first, int) else 28
    return windows_of(config, layers, lambda layer: layer >= start, default=4096)
