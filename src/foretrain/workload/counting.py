"""Counting parameters and model FLOP, each FLOP figure under a named convention.

Counts are exact whole numbers: they are plain integer arithmetic on the model's sizes.
"""

from __future__ import annotations

from collections.abc import Callable

from foretrain.core.numeric import Num, minimum
from foretrain.core.record import record
from foretrain.workload.model import Model

NORM_PARAMETERS = {"rmsnorm": 1, "layernorm": 2}
"""Parameters per element of a norm: a scale, and for LayerNorm a shift."""


@record
class LayerParameters:
    """Parameters of one layer by what tensor parallelism does with them.

    ``qkv``, ``output`` and ``mlp`` are cut over the tensor-parallel ranks (matrices, and the biases of column-parallel layers);
    ``replicated`` is held by every rank (norms, and the biases added after a row-parallel layer), as in Megatron-LM
    (Shoeybi et al., arXiv 1909.08053, section 3).
    """

    qkv: int
    output: int
    mlp: int
    replicated: int

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.qkv + self.output + self.mlp + self.replicated


def attention_matrix_parameters(model: Model) -> int:
    """Elements of the query, key, value and output matrices of one layer."""
    return model.hidden_size * model.head_dim * (2 * model.num_heads + 2 * model.num_kv_heads)


def mlp_matrix_parameters(model: Model) -> int:
    """Elements of the two (gated: three) matrices of one layer's MLP."""
    return model.hidden_size * model.ffn_size * (3 if model.gated_mlp else 2)


def layer_parts(model: Model) -> LayerParameters:
    """Parameters of one layer: matrices, biases and norms, by what tensor parallelism does with them."""
    h, d = model.hidden_size, model.head_dim
    columns = (model.num_heads + 2 * model.num_kv_heads) * d
    width = model.ffn_size * (2 if model.gated_mlp else 1)
    qk_norm_cut = (model.num_heads + model.num_kv_heads) * d * (model.qk_norm == "full")
    qk_norm_copied = 2 * d * (model.qk_norm == "head")
    norms = NORM_PARAMETERS[model.norm] * h * model.norms_per_layer
    return LayerParameters(
        qkv=h * columns + model.qkv_bias * columns + qk_norm_cut,
        output=model.num_heads * d * h,
        mlp=mlp_matrix_parameters(model) + model.mlp_bias * width,
        replicated=norms + qk_norm_copied + model.attention_output_bias * h + model.mlp_bias * h,
    )


def layer_parameters(model: Model) -> int:
    """All parameters of one layer: matrices, biases and norms."""
    return layer_parts(model).total


def embedding_parameters(model: Model) -> int:
    """The token table, learned positions and the norm after them."""
    norm = model.embedding_norm * NORM_PARAMETERS[model.norm]
    return (model.vocab_size + norm) * model.hidden_size + position_parameters(model)


def position_parameters(model: Model) -> int:
    """The table of learned positions; none with rotary positions or ALiBi."""
    return model.num_positions * model.hidden_size


def head_parameters(model: Model) -> int:
    """The output projection's own parameters: none for a table tied to the embedding, but its bias."""
    return (not model.tied_embeddings) * model.vocab_size * model.hidden_size + model.head_bias * model.vocab_size


def final_norm_parameters(model: Model) -> int:
    """The norm after the last layer."""
    return model.final_norm * NORM_PARAMETERS[model.norm] * model.hidden_size


def num_parameters(model: Model) -> int:
    """Exact number of parameters of the model, tied tables counted once."""
    layers = model.num_layers * layer_parameters(model)
    return layers + embedding_parameters(model) + head_parameters(model) + final_norm_parameters(model)


def largest_layer_parameters(model: Model) -> int:
    """Parameters of the largest single module: a matrix of a layer with its bias, or the token table.

    This is the ``largest_layer_params`` of DeepSpeed's memory estimator, which looks at modules that hold parameters themselves (the
    gated MLP has its two input matrices in separate modules in Hugging Face's models).
    """
    h, d = model.hidden_size, model.head_dim
    bias = model.mlp_bias * max(model.ffn_size, h)
    return max(h * model.num_heads * d, h * model.ffn_size + bias, model.vocab_size * h)


def matmul_parameters(model: Model) -> int:
    """Parameters that every token is multiplied with: all matrices and the output head, not the embedding look-up."""
    layers = model.num_layers * (attention_matrix_parameters(model) + mlp_matrix_parameters(model))
    return layers + model.vocab_size * model.hidden_size


def full_attention_flop(model: Model, seq_len: Num) -> Num:
    """Training FLOP per token of scores and context over the whole s x s matrix: 12 L a d s (PaLM, arXiv 2204.02311, appendix B)."""
    return 12.0 * model.num_layers * model.num_heads * model.head_dim * seq_len


def causal_share(seq_len: Num, window: int = 0, document_lens: tuple[int, ...] = ()) -> Num:
    """Area below the diagonal that a mask lets through, over the s x s score matrix.

    A document of n tokens with windows of w has the area ``r (n - r / 2)`` with ``r = min(n, w)``, and n^2 / 2 without a window: so
    causal attention is exactly one half, as in the conventions of NVIDIA's and Meta's published figures. Counting whole pairs with the
    diagonal would give ``1 / 2s`` more.

    >>> causal_share(4096.0)
    0.5
    >>> causal_share(4096.0, window=4096)
    0.5
    >>> causal_share(4096.0, document_lens=(1024,) * 4)
    0.125
    """
    area: Num = 0.0
    for length in document_lens or (seq_len,):
        reach = minimum(length, float(window)) if window else length
        area = area + reach * (length - reach / 2.0)
    return area / (seq_len * seq_len)


def packing_efficiency(seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """Useful over processed tokens of a pack, whose rest is padding; 1 when no documents are listed.

    >>> round(packing_efficiency(4096.0, (1000, 1000, 1000)), 3)
    0.732
    """
    return (sum(document_lens) if document_lens else seq_len) / seq_len


def mean_causal_share(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``causal_share`` averaged over the layers of the model's repeating pattern of windows."""
    shares: Num = 0.0
    for index, window in enumerate(model.windows):
        layers = len(range(index, model.num_layers, len(model.windows)))
        shares = shares + layers * causal_share(seq_len, window, document_lens)
    return shares / model.num_layers


def six_n(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 N`` FLOP per token with all parameters, no attention (Kaplan et al., arXiv 2001.08361, section 2.1)."""
    return 6.0 * num_parameters(model) + 0.0 * seq_len


def palm(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 N + 12 L H Q T`` with all parameters and the full score matrix (PaLM, arXiv 2204.02311, appendix B)."""
    return 6.0 * num_parameters(model) + full_attention_flop(model, seq_len)


def full(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 M + 12 L a d s`` with the matrices M (output head counted, embedding look-up not) and the full score matrix."""
    return 6.0 * matmul_parameters(model) + full_attention_flop(model, seq_len)


def megatron(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``72 l h^2 (1 + s / 6h + V / 12 l h)`` FLOP per token (Narayanan et al., arXiv 2104.04473, appendix, without recomputation).

    For a GPT (a d = h, MLP of 4 h) the formula is ``full`` to the last digit; grouped queries and gated MLPs are counted by their matrices.
    """
    return full(model, seq_len, document_lens)


def causal(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``6 M + 6 L a d s``: the matrices M as in ``full`` and causal attention at exactly half of the score matrix.

    With windows or packed documents the area that the mask lets through takes the place of the half (``causal_share``).
    """
    return 6.0 * matmul_parameters(model) + full_attention_flop(model, seq_len) * mean_causal_share(model, seq_len, document_lens)


Convention = Callable[[Model, Num, tuple[int, ...]], Num]

BY_NAME: dict[str, Convention] = {"6n": six_n, "palm": palm, "megatron": megatron, "full": full, "causal": causal}
"""Model FLOP per token (forward and backward) by convention: ``BY_NAME[name](model, seq_len, document_lens)``."""

MEANING = {
    "6n": "6 x all parameters",
    "palm": "6 x all parameters + full attention",
    "megatron": "matrices and head + full attention",
    "full": "matrices and head + full attention",
    "causal": "matrices and head + causal attention",
}
"""One line per convention for a reader."""


def model_flop(model: Model, seq_len: Num, num_sequences: Num, convention: str, document_lens: tuple[int, ...] = ()) -> Num:
    """Model FLOP (forward and backward) of ``num_sequences`` sequences of ``seq_len`` tokens under a named convention."""
    return BY_NAME[convention](model, seq_len, document_lens) * seq_len * num_sequences
