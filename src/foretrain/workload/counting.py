"""Counting parameters and model FLOP, each FLOP figure under a named convention."""

from __future__ import annotations

from collections.abc import Callable

from foretrain.core.numeric import Num
from foretrain.workload.mask import seen_share
from foretrain.workload.model import Model

NORM_PARAMETERS = {"rmsnorm": 1, "layernorm": 2}
"""Parameters per element of a norm: a scale, and for LayerNorm a shift."""


def attention_matrix_parameters(model: Model) -> int:
    """Elements of the query, key, value and output matrices of one layer."""
    return model.hidden_size * model.head_dim * (2 * model.num_heads + 2 * model.num_kv_heads)


def mlp_matrix_parameters(model: Model) -> int:
    """Elements of the two (gated: three) matrices of one layer's MLP."""
    return model.hidden_size * model.ffn_size * (3 if model.gated_mlp else 2)


def layer_parameters(model: Model) -> int:
    """All parameters of one layer: matrices, biases and norms."""
    h, d = model.hidden_size, model.head_dim
    width = model.ffn_size * (2 if model.gated_mlp else 1)
    qkv_bias = model.qkv_bias * (model.num_heads + 2 * model.num_kv_heads) * d
    biases = qkv_bias + model.attention_output_bias * h + model.mlp_bias * (width + h)
    norms = NORM_PARAMETERS[model.norm] * h * model.norms_per_layer
    qk_norm = {"none": 0, "head": 2 * d, "full": (model.num_heads + model.num_kv_heads) * d}[model.qk_norm]
    return attention_matrix_parameters(model) + mlp_matrix_parameters(model) + biases + norms + qk_norm


def embedding_parameters(model: Model) -> int:
    """The token table, learned positions and the norm after them."""
    norm = model.embedding_norm * NORM_PARAMETERS[model.norm]
    return (model.vocab_size + model.num_positions + norm) * model.hidden_size


def head_parameters(model: Model) -> int:
    """The output projection's own parameters: none for a table tied to the embedding, but its bias."""
    return (not model.tied_embeddings) * model.vocab_size * model.hidden_size + model.head_bias * model.vocab_size


def num_parameters(model: Model) -> int:
    """Exact number of parameters of the model, tied tables counted once."""
    final_norm = model.final_norm * NORM_PARAMETERS[model.norm] * model.hidden_size
    return model.num_layers * layer_parameters(model) + embedding_parameters(model) + head_parameters(model) + final_norm


def matmul_parameters(model: Model) -> int:
    """Parameters that every token is multiplied with: all matrices and the output head, not the embedding look-up."""
    layers = model.num_layers * (attention_matrix_parameters(model) + mlp_matrix_parameters(model))
    return layers + model.vocab_size * model.hidden_size


def full_attention_flop(model: Model, seq_len: Num) -> Num:
    """Training FLOP per token of scores and context over the whole s x s matrix: 12 L a d s (PaLM, arXiv 2204.02311, appendix B)."""
    return 12.0 * model.num_layers * model.num_heads * model.head_dim * seq_len


def mean_seen_share(model: Model, seq_len: Num, document_lens: tuple[int, ...]) -> Num:
    """Share of the score matrix that the masks of all layers let through, on average over the pattern of windows."""
    shares: Num = 0.0
    for layer in range(model.num_layers):
        shares = shares + seen_share(seq_len, model.windows[layer % len(model.windows)], document_lens)
    return shares / model.num_layers


def six_n(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 N`` FLOP per token with all parameters, no attention (Kaplan et al., arXiv 2001.08361, section 2.1)."""
    return 6.0 * num_parameters(model) + 0.0 * seq_len


def palm(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 N + 12 L H Q T`` with all parameters and the full score matrix (PaLM, arXiv 2204.02311, appendix B)."""
    return 6.0 * num_parameters(model) + full_attention_flop(model, seq_len)


def megatron(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``72 l h^2 (1 + s / 6h + V / 12 l h)`` per token for a GPT, from its matrices for other shapes: full score matrix, head, no embedding.

    Narayanan et al., arXiv 2104.04473, appendix, without the recomputed forward pass.
    """
    return 6.0 * matmul_parameters(model) + full_attention_flop(model, seq_len)


def causal(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 M + 6 L a d s`` with the matrices M as in ``megatron`` and causal attention at half of the score matrix.

    With windows or packed documents the share of the matrix that the mask lets through takes the place of the half.
    """
    full = full_attention_flop(model, seq_len)
    if document_lens or any(model.windows):
        return 6.0 * matmul_parameters(model) + full * mean_seen_share(model, seq_len, document_lens)
    return 6.0 * matmul_parameters(model) + full * 0.5


Convention = Callable[[Model, Num, tuple[int, ...]], Num]

BY_NAME: dict[str, Convention] = {"6n": six_n, "palm": palm, "megatron": megatron, "causal": causal}
"""Model FLOP per token (forward and backward) by convention."""

MEANING = {
    "6n": "6 x all parameters",
    "palm": "6 x all parameters + full attention",
    "megatron": "matrices and head + full attention",
    "causal": "matrices and head + causal attention",
}
"""One line per convention for a reader."""
