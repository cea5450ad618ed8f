"""Counting parameters and model FLOP, each FLOP figure under a named convention.

Counts are exact whole numbers: they are plain integer arithmetic on the model's sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from foretrain.core.numeric import Num, minimum
from foretrain.core.record import record
from foretrain.workload import convnet
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import LayerKind, Model, kind_counts
from foretrain.workload.recipe import Lora, Part, Recipe

NORM_PARAMETERS = {"rmsnorm": 1, "layernorm": 2}
"""Parameters per element of a norm: a scale, and for LayerNorm a shift."""


@record
class LayerParameters:
    """Parameters of one layer by what parallelism does with them.

    ``qkv``, ``output`` and ``mlp`` are cut over the tensor-parallel ranks (matrices, and the biases of column-parallel layers);
    ``experts`` over expert-parallel ranks and, inside an expert, over its own tensor-parallel ranks;
    ``replicated`` is held by every rank (norms, routers, down-projections into latent vectors, and the biases added after a row-parallel
    layer), as in Megatron-LM (Shoeybi et al., arXiv 1909.08053, section 3).
    """

    qkv: int
    output: int
    mlp: int
    experts: int
    replicated: int

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.qkv + self.output + self.mlp + self.experts + self.replicated


DENSE = LayerKind()


def attention_matrix_parameters(model: Model, kind: LayerKind = DENSE) -> int:
    """Elements of the matrices of one layer's attention; a decoder layer under an encoder has a second one, of cross-attention."""
    h, heads = model.hidden_size, model.num_heads
    if model.latent is None:
        once = h * model.head_dim * (2 * heads + 2 * model.num_kv_heads)
    else:
        latent = model.latent
        queries = heads * model.query_dim * (latent.q_rank or h) + h * latent.q_rank
        keys = h * (latent.kv_rank + latent.rope_head_dim) + latent.kv_rank * heads * (latent.nope_head_dim + latent.value_head_dim)
        once = queries + keys + heads * latent.value_head_dim * h
    return once * (2 if crosses(model, kind) else 1)


def crosses(model: Model, kind: LayerKind) -> bool:
    """Whether the layer also attends to an encoder's output."""
    return model.encoder_layers > 0 and not kind.encoder


def gates(model: Model) -> int:
    """Matrices of an MLP: two, or three if gated."""
    return 3 if model.gated_mlp else 2


def mlp_matrix_parameters(model: Model, kind: LayerKind = DENSE) -> int:
    """Elements of the matrices of one layer's MLP: of the shared expert only, where there are experts."""
    width = model.experts.shared_ffn_size if kind.experts and model.experts else model.ffn_size
    return model.hidden_size * width * gates(model)


def expert_parameters(model: Model) -> int:
    """Parameters of one expert: matrices and, where the MLP has them, biases."""
    experts = model.experts
    if experts is None:
        return 0
    biases = model.mlp_bias * ((gates(model) - 1) * experts.ffn_size + model.hidden_size)
    return model.hidden_size * experts.ffn_size * gates(model) + biases


def router_parameters(model: Model) -> int:
    """The router's matrix and its bias, and the shared expert's gate."""
    experts = model.experts
    if experts is None:
        return 0
    return experts.num_experts * (model.hidden_size + experts.router_bias) + experts.shared_gate * model.hidden_size


def layer_parts(model: Model, kind: LayerKind = DENSE) -> LayerParameters:
    """Parameters of one layer of a kind: matrices, biases and norms, by what parallelism does with them."""
    h, d = model.hidden_size, model.head_dim
    attentions = 2 if crosses(model, kind) else 1
    mixture = kind.experts and model.experts is not None
    columns = (model.num_heads + 2 * model.num_kv_heads) * d
    width = model.ffn_size * (gates(model) - 1)
    qk_norm_cut = (model.num_heads + model.num_kv_heads) * d * (model.qk_norm == "full")
    qk_norm_copied = 2 * d * (model.qk_norm == "head")
    norm = NORM_PARAMETERS[model.norm]
    copied = norm * h * (model.norms_per_layer + attentions - 1) + qk_norm_copied + model.attention_output_bias * h * attentions
    if model.latent is None:
        qkv = (h * columns + model.qkv_bias * columns) * attentions + qk_norm_cut
    else:
        latent = model.latent
        compressed = latent.q_rank + latent.kv_rank
        down = h * (compressed + latent.rope_head_dim)
        qkv = attention_matrix_parameters(model) - down - model.num_heads * model.value_dim * h
        copied += down + norm * compressed + model.qkv_bias * (compressed + latent.rope_head_dim)
    return LayerParameters(
        qkv=qkv + model.attention_sinks * model.num_heads,
        output=model.num_heads * model.value_dim * h * attentions,
        mlp=mlp_matrix_parameters(model, kind) + model.mlp_bias * width * (not mixture),
        experts=model.experts.num_experts * expert_parameters(model) if mixture and model.experts else 0,
        replicated=copied + (router_parameters(model) if mixture else model.mlp_bias * h) + kind.mtp * mtp_parameters(model),
    )


def mtp_parameters(model: Model) -> int:
    """What a module of multi-token prediction has besides its layer: a projection of two vectors into one, two norms and its final norm."""
    return 2 * model.hidden_size**2 + 3 * NORM_PARAMETERS[model.norm] * model.hidden_size


def layer_parameters(model: Model, kind: LayerKind = DENSE) -> int:
    """All parameters of one layer: matrices, biases and norms."""
    return layer_parts(model, kind).total


def stacks(model: Model) -> int:
    """Towers with tables and norms of their own: two for an encoder-decoder."""
    return 2 if model.encoder_layers else 1


def table_parameters(model: Model) -> int:
    """The token table; for images there is none."""
    return 0 if model.patch_size else model.vocab_size * model.hidden_size


def patch_parameters(model: Model) -> int:
    """The projection of an image patch with its bias, and the class token."""
    return (model.num_channels * model.patch_size**2 + 2) * model.hidden_size if model.patch_size else 0


def embedding_parameters(model: Model) -> int:
    """Everything before the first layer: token table or patch projection, positions, segment types, and the norms after them."""
    norms = stacks(model) * model.embedding_norm * NORM_PARAMETERS[model.norm]
    copied = (norms + model.num_segments) * model.hidden_size + position_parameters(model)
    return table_parameters(model) + patch_parameters(model) + copied


def position_parameters(model: Model) -> int:
    """The tables of learned positions, absolute or relative, of every tower; none with rotary positions or ALiBi."""
    return stacks(model) * (model.num_positions * model.hidden_size + model.relative_buckets * model.num_heads)


def head_parameters(model: Model) -> int:
    """The output projection's own parameters: none for a table tied to the embedding, but its bias; and the dense layers beside it."""
    h = model.hidden_size
    projection = (not model.tied_embeddings) * model.vocab_size * h + model.head_bias * model.vocab_size
    transform = h * h + h + NORM_PARAMETERS[model.norm] * h
    return projection + model.head_transform * transform + model.pooler * (h * h + h)


def final_norm_parameters(model: Model) -> int:
    """The norm after the last layer of every tower."""
    return stacks(model) * model.final_norm * NORM_PARAMETERS[model.norm] * model.hidden_size


def num_parameters(model: Model | ConvNet) -> int:
    """Exact number of parameters of the model, tied tables counted once, modules of multi-token prediction included."""
    if isinstance(model, ConvNet):
        return convnet.num_parameters(model)
    layers = sum(count * layer_parameters(model, kind) for kind, count in kind_counts(model))
    return layers + embedding_parameters(model) + head_parameters(model) + final_norm_parameters(model)


def num_active_parameters(model: Model) -> int:
    """Parameters that one token meets: all but the experts it is not sent to."""
    experts = model.experts
    if experts is None:
        return num_parameters(model)
    mixtures = sum(count for kind, count in kind_counts(model) if kind.experts)
    return num_parameters(model) - mixtures * (experts.num_experts - experts.experts_per_token) * expert_parameters(model)


def largest_layer_parameters(model: Model | ConvNet) -> int:
    """Parameters of the largest single module: a matrix of a layer with its bias, or the token table.

    This is the ``largest_layer_params`` of DeepSpeed's memory estimator, which looks at modules that hold parameters themselves (the
    gated MLP has its two input matrices in separate modules in Hugging Face's models).
    """
    if isinstance(model, ConvNet):
        return convnet.largest_layer_parameters(model)
    h = model.hidden_size
    bias = model.mlp_bias * max(model.ffn_size, h)
    return max(h * model.num_heads * model.query_dim, h * model.ffn_size + bias, model.vocab_size * h)


def matmul_parameters(model: Model, *, router: bool = True, decoder: bool = True, encoder: bool = False) -> int:
    """Parameters that every token is multiplied with: matrices, the experts it is sent to and the output head, not a look-up.

    ``decoder``, ``encoder``: of which tower (a model without an encoder is all decoder). ``router``: whether routers count.
    """
    layers = sum(
        count * active_matrix_parameters(model, kind, router=router)
        for kind, count in kind_counts(model)
        if (encoder if kind.encoder else decoder)
    )
    return layers + decoder * head_matrix_parameters(model)


def active_matrix_parameters(model: Model, kind: LayerKind, *, router: bool = True) -> int:
    """Matrix elements of one layer that one token is multiplied with."""
    own = attention_matrix_parameters(model, kind) + mlp_matrix_parameters(model, kind) + kind.mtp * 2 * model.hidden_size**2
    experts = model.experts
    if not kind.experts or experts is None:
        return own
    routed = experts.experts_per_token * model.hidden_size * experts.ffn_size * gates(model)
    return own + routed + router * (experts.num_experts + experts.shared_gate) * model.hidden_size


def head_matrix_parameters(model: Model) -> int:
    """Matrix elements of the output head, once more for every module of multi-token prediction; a class head sees one token in many."""
    transform = model.head_transform * model.hidden_size**2
    return 0 if model.patch_size else (1 + model.mtp_layers) * (model.vocab_size * model.hidden_size + transform)


def full_attention_flop(model: Model, seq_len: Num) -> Num:
    """Training FLOP per token of scores and context over the whole s x s matrix: 12 L a d s (PaLM, arXiv 2204.02311, appendix B).

    With latent attention ``d`` is the mean of the query's and the value's size.
    """
    layers = model.num_layers + model.mtp_layers
    return 12.0 * layers * model.num_heads * (model.query_dim + model.value_dim) / 2 * seq_len


def causal_share(seq_len: Num, window: int = 0, document_lens: tuple[int, ...] = (), *, chunked: bool = False) -> Num:
    """Area below the diagonal that a mask lets through, over the s x s score matrix.

    A document of n tokens with windows of w has the area ``r (n - r / 2)`` with ``r = min(n, w)``, and n^2 / 2 without a window: so
    causal attention is exactly one half, as in the conventions of NVIDIA's and Meta's published figures. Counting whole pairs with the
    diagonal would give ``1 / 2s`` more. Chunks of w have the area ``n r / 2``.

    >>> causal_share(4096.0)
    0.5
    >>> causal_share(4096.0, window=4096)
    0.5
    >>> causal_share(4096.0, document_lens=(1024,) * 4)
    0.125
    >>> causal_share(4096.0, window=1024, chunked=True)
    0.125
    """
    area: Num = 0.0
    for length in document_lens or (seq_len,):
        reach = minimum(length, float(window)) if window else length
        area = area + reach * (length / 2.0 if chunked else length - reach / 2.0)
    return area / (seq_len * seq_len)


def seen_share(model: Model, kind: LayerKind, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """Share of the s x s score matrix that a layer's self-attention computes: all of every document in an encoder, else what is causal."""
    share = causal_share(seq_len, kind.window, document_lens, chunked=model.window_kind == "chunked")
    return share if model.causal and not kind.encoder else 2.0 * share


def packing_efficiency(seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """Useful over processed tokens of a pack, whose rest is padding; 1 when no documents are listed.

    >>> round(packing_efficiency(4096.0, (1000, 1000, 1000)), 3)
    0.732
    """
    return (sum(document_lens) if document_lens else seq_len) / seq_len


def mean_causal_share(model: Model, seq_len: Num, document_lens: tuple[int, ...] = ()) -> Num:
    """``seen_share`` averaged over the layers that read the recipe's sequence (not those of an encoder in front)."""
    shares: Num = 0.0
    for kind, count in kind_counts(model):
        if not kind.encoder:
            shares = shares + count * seen_share(model, kind, seq_len, document_lens)
    return shares / (model.num_layers + model.mtp_layers)


def encoder_flop(model: Model, seq_len: Num, encoder_len: Num) -> Num:
    """Training FLOP of the encoder's matrices and attention, and of cross-attention's scores, per token of the decoder's sequence."""
    if not model.encoder_layers:
        return 0.0 * seq_len
    width = 12.0 * model.num_heads * (model.query_dim + model.value_dim) / 2
    encoder = 6.0 * matmul_parameters(model, decoder=False, encoder=True) + width * model.encoder_layers * encoder_len
    cross_projection = model.num_layers * 12.0 * model.hidden_size * model.head_dim * model.num_kv_heads
    return (encoder + cross_projection) * encoder_len / seq_len + width * model.num_layers * encoder_len - cross_projection


def six_n(model: Model, seq_len: Num, document_lens: tuple[int, ...] = (), encoder_len: Num = 0.0) -> Num:
    """``6 N`` FLOP per token with all (of experts: the active) parameters, no attention (Kaplan et al., arXiv 2001.08361, section 2.1)."""
    return 6.0 * num_active_parameters(model) + 0.0 * seq_len


def palm(model: Model, seq_len: Num, document_lens: tuple[int, ...] = (), encoder_len: Num = 0.0) -> Num:
    """``6 N + 12 L H Q T`` with all (active) parameters and the full score matrix (PaLM, arXiv 2204.02311, appendix B)."""
    return 6.0 * num_active_parameters(model) + full_attention_flop(model, seq_len)


def full(model: Model, seq_len: Num, document_lens: tuple[int, ...] = (), encoder_len: Num = 0.0) -> Num:
    """``6 M + 12 L a d s`` with the active matrices M (output head counted, embedding look-up not) and the full score matrix."""
    return 6.0 * matmul_parameters(model) + full_attention_flop(model, seq_len) + encoder_flop(model, seq_len, encoder_len)


def megatron(model: Model, seq_len: Num, document_lens: tuple[int, ...] = (), encoder_len: Num = 0.0) -> Num:
    """``72 l h^2 (1 + s / 6h + V / 12 l h)`` FLOP per token (Narayanan et al., arXiv 2104.04473, appendix, without recomputation).

    For a GPT (a d = h, MLP of 4 h) the formula is ``full`` to the last digit; grouped queries and gated MLPs are counted by their
    matrices, experts by those a token is sent to, routers not at all, as in Megatron-LM's ``num_floating_point_operations``.
    """
    matrices = 6.0 * matmul_parameters(model, router=False)
    return matrices + full_attention_flop(model, seq_len) + encoder_flop(model, seq_len, encoder_len)


def causal(model: Model, seq_len: Num, document_lens: tuple[int, ...] = (), encoder_len: Num = 0.0) -> Num:
    """``6 M + 6 L a d s``: the active matrices M as in ``full`` and causal attention at exactly half of the score matrix.

    With windows or packed documents the area that the mask lets through takes the place of the half (``causal_share``); an encoder's
    attention has no mask.
    """
    seen = full_attention_flop(model, seq_len) * mean_causal_share(model, seq_len, document_lens)
    return 6.0 * matmul_parameters(model) + seen + encoder_flop(model, seq_len, encoder_len)


Convention = Callable[..., Num]

BY_NAME: dict[str, Convention] = {"6n": six_n, "palm": palm, "megatron": megatron, "full": full, "causal": causal}
"""Model FLOP per token (forward and backward) by convention: ``BY_NAME[name](model, seq_len, document_lens, encoder_len)``."""

MEANING = {
    "6n": "6 x all parameters",
    "palm": "6 x all parameters + full attention",
    "megatron": "matrices and head + full attention",
    "full": "matrices and head + full attention",
    "causal": "matrices and head + causal attention",
}
"""One line per convention for a reader."""


def lora_parameters(model: Model, lora: Lora, kind: LayerKind = DENSE) -> int:
    """Elements of the adapters of one layer: ``rank (inputs + outputs)`` of every matrix that gets one, of every expert too."""
    sizes = matrix_sizes(model, kind)
    return lora.rank * sum(count * (rows + columns) for name, rows, columns, count in sizes if name in lora.targets)


def matrix_sizes(model: Model, kind: LayerKind = DENSE) -> list[tuple[str, int, int, int]]:
    """Name, inputs, outputs and number of the matrices of one layer that adapters may be put on (not of latent attention's inside)."""
    h, d = model.hidden_size, model.head_dim
    attentions = 2 if crosses(model, kind) else 1
    q, kv, context = model.num_heads * model.query_dim, model.num_kv_heads * d, model.num_heads * model.value_dim
    attention = [("q", h, q, attentions), ("k", h, kv, attentions), ("v", h, kv, attentions), ("o", context, h, attentions)]
    experts = model.experts if kind.experts else None
    widths = [(experts.ffn_size, experts.num_experts), (experts.shared_ffn_size, 1)] if experts else [(model.ffn_size, 1)]
    up = ("gate", "up") if model.gated_mlp else ("up",)
    mlp = [(name, h, width, count) for width, count in widths if width for name in up]
    return [*attention, *mlp, *(("down", width, h, count) for width, count in widths if width)]


def whole_matrices(model: Model, kind: LayerKind = DENSE) -> list[tuple[int, int, int]]:
    """Inputs, outputs and number of every matrix of one layer, latent attention's factors among them."""
    skipped = () if model.latent is None else ("q", "k", "v")
    sizes = [(rows, columns, count) for name, rows, columns, count in matrix_sizes(model, kind) if name not in skipped]
    if model.latent is None:
        return sizes
    latent, h, heads = model.latent, model.hidden_size, model.num_heads
    queries = [(h, latent.q_rank, 1), (latent.q_rank, heads * model.query_dim, 1)] if latent.q_rank else [(h, heads * model.query_dim, 1)]
    down = (h, latent.kv_rank + latent.rope_head_dim, 1)
    return [*queries, down, (latent.kv_rank, heads * (latent.nope_head_dim + latent.value_head_dim), 1), *sizes]


def num_trained_parameters(model: Model, recipe: Recipe) -> int:
    """Parameters that get gradients: adapters, or all but the frozen parts."""
    if recipe.lora is not None:
        head = recipe.lora.rank * (model.hidden_size + model.vocab_size) * ("head" in recipe.lora.targets)
        return head + sum(count * lora_parameters(model, recipe.lora, kind) for kind, count in kind_counts(model))
    layers = sum(count * layer_parameters(model, kind) for kind, count in kind_counts(model) if recipe.trains(part_of(kind)))
    tables = recipe.trains("embedding") * embedding_parameters(model)
    return layers + tables + recipe.trains("head") * (head_parameters(model) + final_norm_parameters(model))


def part_of(kind: LayerKind) -> Part:
    """The part of the model that a layer belongs to."""
    return "encoder" if kind.encoder else "layers"


def passes_back(model: Model, recipe: Recipe, part: Part) -> bool:
    """Whether gradients go through ``part``: it learns, or something before it does. Adapters stand in every layer."""
    if recipe.lora is not None:
        return part != "embedding"
    order: tuple[Part, ...] = ("embedding", *(("encoder",) if model.encoder_layers else ()), "layers", "head")
    return any(recipe.trains(before) for before in order[: order.index(part) + 1])


def frozen_flop(model: Model, recipe: Recipe) -> Num:
    """FLOP per token that frozen matrices save: the 2 of 6 that a weight gradient costs, 4 where no gradient passes; adapters add theirs.

    As counted for LoRA by Hu et al. (arXiv 2106.09685, section 4.2): no gradients for the vast majority of the parameters. Where no
    gradient passes, attention saves its backward pass, two thirds of it.
    """
    saved: Num = 0.0
    for kind, count in kind_counts(model):
        share = recipe.encoder_seq_len / recipe.seq_len if kind.encoder else 1.0
        kept_back = passes_back(model, recipe, part_of(kind))
        each = 2.0 * (not recipe.trains(part_of(kind))) + 2.0 * (not kept_back)
        saved = saved + each * count * active_matrix_parameters(model, kind) * share
    if not passes_back(model, recipe, "layers"):
        matrices = 6.0 * matmul_parameters(model, router=recipe.flop_convention != "megatron")
        convention = BY_NAME[recipe.flop_convention]
        whole = convention(model, recipe.seq_len, recipe.document_lens, recipe.encoder_seq_len) - matrices
        saved = saved + (whole - encoder_flop(model, recipe.seq_len, recipe.encoder_seq_len)) * 2.0 / 3.0
    added = 0.0
    if recipe.lora is not None:
        routed = replace_experts(model)
        added = 6.0 * sum(count * lora_parameters(routed, recipe.lora, kind) for kind, count in kind_counts(routed))
    return saved + 2.0 * (not recipe.trains("head")) * head_matrix_parameters(model) - added


def replace_experts(model: Model) -> Model:
    """The model with as many experts as a token is sent to."""
    experts = model.experts
    return replace(model, experts=replace(experts, num_experts=experts.experts_per_token)) if experts else model


def model_flop(model: Model, recipe: Recipe, num_sequences: Num) -> Num:
    """Model FLOP (forward and backward) of ``num_sequences`` sequences in the recipe's convention.

    What is frozen has no weight gradients; the conventions that count parameters (``6n``, ``palm``) count them all the same.
    """
    per_token = BY_NAME[recipe.flop_convention](model, recipe.seq_len, recipe.document_lens, recipe.encoder_seq_len)
    if recipe.flop_convention not in ("6n", "palm"):
        per_token = per_token - frozen_flop(model, recipe)
    return per_token * recipe.seq_len * num_sequences
