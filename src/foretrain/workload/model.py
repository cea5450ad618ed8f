"""The model: a dense decoder, described once and independent of any hardware or plan."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.record import record
from foretrain.core.units import Quantity

Count = Annotated[int, Quantity(integer=True, ge=1, le=1e9)]
Size = Annotated[int, Quantity(integer=True, ge=0, le=1e12)]


@record
class Model:
    """A decoder-only transformer.

    ``windows`` is the repeating pattern of attention windows over the layers, in tokens; 0 means the
    layer sees the whole (causal) sequence: ``(4096,)`` is Mistral, ``(4096, 0)`` is Gemma 2.
    ``num_positions`` counts rows of a learned position table (0 without one).
    ``norms_per_layer`` is 2 as a rule, 4 for Gemma 2, 1 where attention and MLP share one.
    ``qk_norm`` adds a norm on queries and keys: per head (``head``, Qwen 3) or over all heads (``full``, OLMo 2).
    """

    name: str
    num_layers: Count
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
    qk_norm: Literal["none", "head", "full"] = "none"
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
