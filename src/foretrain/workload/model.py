"""The model: a transformer, described once and independent of any hardware or plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Literal

from foretrain.core.record import record
from foretrain.core.units import Quantity

Count = Annotated[int, Quantity(integer=True, ge=1, le=1e9)]
Layers = Annotated[int, Quantity(integer=True, ge=1, le=1e5)]
Size = Annotated[int, Quantity(integer=True, ge=0, le=1e12)]


@record
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    Keys and values are made from a shared latent vector of ``kv_rank`` elements, queries from one of ``q_rank`` (0: from the hidden state
    itself). A query and a key have ``nope_head_dim`` elements without and ``rope_head_dim`` with rotary positions, the key's
    rotary part shared by all heads; a value has ``value_head_dim``.
    """

    kv_rank: Count
    q_rank: Size = 0
    nope_head_dim: Count
    rope_head_dim: Size
    value_head_dim: Count


@record
class Experts:
    """A mixture of experts in place of the MLP: every token goes to ``experts_per_token`` of ``num_experts`` MLPs of ``ffn_size``.

    ``shared_ffn_size``: width of the experts that every token passes (0 without). Layers before ``first_layer`` keep the dense MLP; from
    there on the last of every ``every`` layers has experts. ``router_bias``: one more parameter per expert, added to the router's
    logits or used to balance the load. ``shared_gate``: a learned gate on the shared expert's output (Qwen1.5-MoE).
    A token may be kept to ``groups_per_token`` of ``num_groups`` equal groups of experts (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    """

    num_experts: Count
    experts_per_token: Count
    ffn_size: Count
    shared_ffn_size: Size = 0
    first_layer: Size = 0
    every: Count = 1
    router_bias: bool = False
    shared_gate: bool = False
    num_groups: Count = 1
    groups_per_token: Count = 1


@record
class Model:
    """A transformer: a decoder, an encoder (``causal: false``), or both (``encoder_layers``).

    ``windows`` is the repeating pattern of attention windows over the layers, in tokens; 0 means the
    layer sees the whole (causal) sequence: ``(4096,)`` is Mistral, ``(4096, 0)`` is Gemma 2. ``window_kind`` tells a window that slides
    from one that cuts the sequence into chunks (Llama 4).
    ``num_positions`` counts rows of a learned position table (0 without one); ``relative_buckets`` rows of a table of relative positions
    with a column per head (T5). ``num_segments``: rows of a table of segment types (BERT).
    ``norms_per_layer`` is 2 as a rule, 4 for Gemma 2, 1 where attention and MLP share one.
    ``qk_norm`` adds a norm on queries and keys: per head (``head``, Qwen 3), over all heads (``full``, OLMo 2), or per head
    without a scale (``bare``, Llama 4).
    ``attention_sinks``: one learned logit per head that takes up attention (GPT-OSS).
    ``latent`` and ``experts`` replace attention's projections and the MLP; ``ffn_size`` is the width of the layers without experts.
    ``mtp_layers``: modules after the last layer that predict further tokens (DeepSeek-V3, arXiv 2412.19437, section 2.2): each
    projects hidden state and next token's embedding together, runs a layer and the shared head.
    ``encoder_layers`` of the same width stand before ``num_layers`` decoder layers, which then also attend to the encoder's output.
    ``patch_size``: the input is an image cut into patches that are projected, instead of tokens that are looked up; a class token is added
    and ``vocab_size`` counts classes (ViT). ``head_transform``: a dense layer with a norm before the output projection, and ``pooler``:
    a dense layer on the first token (BERT).
    """

    name: str
    num_layers: Layers
    hidden_size: Count
    num_heads: Count
    num_kv_heads: Count
    head_dim: Count
    ffn_size: Count
    vocab_size: Count
    gated_mlp: bool = True
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norms_per_layer: Annotated[int, Quantity(integer=True, ge=1, le=4)] = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["none", "head", "full", "bare"] = "none"
    position: Literal["rope", "learned", "alibi", "none"] = "rope"
    num_positions: Size = 0
    qkv_bias: bool = False
    attention_output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    tied_embeddings: bool = False
    parallel_block: bool = False
    windows: tuple[Size, ...] = (0,)
    max_seq_len: Size = 0
    causal: bool = True
    window_kind: Literal["sliding", "chunked"] = "sliding"
    attention_sinks: bool = False
    latent: LatentAttention | None = None
    experts: Experts | None = None
    mtp_layers: Annotated[int, Quantity(integer=True, ge=0, le=100)] = 0
    encoder_layers: Annotated[int, Quantity(integer=True, ge=0, le=1e5)] = 0
    relative_buckets: Size = 0
    num_segments: Size = 0
    patch_size: Size = 0
    num_channels: Size = 3
    head_transform: bool = False
    pooler: bool = False

    @property
    def query_dim(self) -> int:
        """Elements of one head's query and key."""
        return self.latent.nope_head_dim + self.latent.rope_head_dim if self.latent else self.head_dim

    @property
    def value_dim(self) -> int:
        """Elements of one head's value."""
        return self.latent.value_head_dim if self.latent else self.head_dim


@record
class LayerKind:
    """What tells one layer of a model from another.

    ``window``: tokens its attention sees at most, 0 for all. ``experts``: its MLP is a mixture. ``encoder``: it belongs to the encoder of
    an encoder-decoder. ``mtp``: it is the layer of a multi-token-prediction module.
    """

    window: int = 0
    experts: bool = False
    encoder: bool = False
    mtp: bool = False


@lru_cache(maxsize=1024)
def layer_kinds(model: Model) -> tuple[LayerKind, ...]:
    """The kind of every layer that the pipeline cuts, first to last: encoder, then decoder; the modules of multi-token prediction apart.

    >>> from foretrain.workload.model import Experts
    >>> sizes = dict(name="x", hidden_size=8, num_heads=1, num_kv_heads=1, head_dim=8, ffn_size=8, vocab_size=8)
    >>> experts = Experts(num_experts=4, experts_per_token=1, ffn_size=8, first_layer=1)
    >>> [kind.experts for kind in layer_kinds(Model(num_layers=3, experts=experts, **sizes))]
    [False, True, True]
    """
    encoder = (LayerKind(encoder=True),) * model.encoder_layers
    return encoder + tuple(
        LayerKind(window=model.windows[index % len(model.windows)], experts=_has_experts(model.experts, index))
        for index in range(model.num_layers)
    )


def _has_experts(experts: Experts | None, index: int) -> bool:
    return experts is not None and index >= experts.first_layer and (index - experts.first_layer + 1) % experts.every == 0


@lru_cache(maxsize=1024)
def kind_counts(model: Model) -> tuple[tuple[LayerKind, int], ...]:
    """The distinct kinds of layer with the number of layers of each, in order of first appearance, multi-token prediction last."""
    kinds = layer_kinds(model)
    counted = Counter(kinds)
    further = ((replace(kinds[-1], mtp=True), model.mtp_layers),) if model.mtp_layers else ()
    return (*counted.items(), *further)
