"""The ops of one layer, the embedding and the head, for one microbatch on one rank.

Shape letters: ``t`` tokens of the rank, ``h`` hidden size, ``f`` MLP width, ``e`` bytes per activation element. Tensor parallelism
follows Megatron-LM (Shoeybi et al., arXiv 1909.08053; Narayanan et al., arXiv 2104.04473); the sequence-parallel
regions follow Korthikanti et al. (arXiv 2205.05198, section 4.2). Every elementwise kernel is written as the number of
times it reads or writes its tensor: they are bound by memory, so the passes are the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, maximum, positive
from foretrain.core.record import record
from foretrain.program.op import Ops
from foretrain.program.rows import Rows
from foretrain.strategy.build import Build
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import crosses, gates, part_of, passes_back, seen_share
from foretrain.workload.model import Experts, LatentAttention, LayerKind, Model
from foretrain.workload.recipe import Part, Recipe, Target


@record
class Local:
    """Sizes on one rank for one microbatch.

    ``tokens`` inside the tensor-parallel region, ``region_tokens`` outside it (norms, residuals, dropout: fewer with sequence
    parallelism), ``heads`` and ``kv_heads`` per rank, ``ffn`` columns per rank, ``vocab`` rows per rank. Attention itself works on
    ``core_heads`` (``core_kv_heads``) of ``q_len`` queries and ``kv_len`` keys: with heads exchanged for tokens on fewer heads and the
    whole sequence. ``cross_len``: tokens of the encoder that cross-attention sees, 0 without.
    ``sent_tokens``: copies of its tokens that a rank sends to experts; ``expert_tokens`` and ``local_experts``: rows that each of
    the rank's experts computes, and their number.
    """

    tokens: Num
    region_tokens: Num
    sequences: Num
    q_len: Num
    kv_len: Num
    cross_len: Num
    heads: Num
    kv_heads: Num
    core_heads: Num
    core_kv_heads: Num
    ffn: Num
    vocab: Num
    sent_tokens: Num
    expert_tokens: Num
    local_experts: Num


def local_shapes(model: Model, recipe: Recipe, strategy: Strategy, *, encoder: bool = False) -> Local:
    """Cut the model over tp and the sequence over cp; the vocabulary is padded to a multiple of tp by frameworks, here it is divided.

    With more tensor-parallel ranks than key-value heads each rank holds a copy of one head. ``encoder``: the sizes of the encoder of an
    encoder-decoder, which reads ``encoder_seq_len`` tokens.
    """
    length = recipe.encoder_seq_len if encoder else recipe.seq_len
    tokens = strategy.microbatch_size * length / strategy.cp
    region = tokens / (strategy.tp if strategy.sequence_parallel else 1)
    exchanged = strategy.cp if strategy.context_parallel == "ulysses" else 1
    kv_heads = kv_heads_per_rank(model, strategy.tp)
    experts = model.experts
    sent = region * (experts.experts_per_token if experts else 0)
    held = (experts.num_experts if experts else 1) / strategy.ep
    return Local(
        tokens=tokens,
        region_tokens=region,
        sequences=1.0 * strategy.microbatch_size,
        q_len=length / strategy.cp * exchanged,
        kv_len=1.0 * length,
        cross_len=0.0 if encoder else 1.0 * recipe.encoder_seq_len,
        heads=model.num_heads / strategy.tp,
        kv_heads=kv_heads,
        core_heads=model.num_heads / strategy.tp / exchanged,
        core_kv_heads=maximum(kv_heads / exchanged, 1.0),
        ffn=model.ffn_size / strategy.tp,
        vocab=model.vocab_size / strategy.tp,
        sent_tokens=sent,
        expert_tokens=sent * strategy.etp / held * expert_load(recipe),
        local_experts=held,
    )


def expert_load(recipe: Recipe) -> Num:
    """Rows that the busiest rank's experts compute, over an even share.

    The imbalance of the routing; with a capacity every expert computes exactly ``capacity_factor`` of an even share, padding included
    (Fedus et al., arXiv 2101.03961, equation 3).
    """
    capped = positive(recipe.capacity_factor)
    return capped * recipe.capacity_factor + (1.0 - capped) * recipe.expert_imbalance


def kv_heads_per_rank(model: Model, tp: Num) -> Num:
    """Key-value heads held by one rank: at least one, because heads are replicated when tp exceeds their number."""
    return maximum(model.num_kv_heads / tp, 1.0)


TARGETS: Mapping[str, tuple[Target, ...]] = {
    "qkv": ("q", "k", "v"),
    "queries": ("q",),
    "keys": ("k", "v"),
    "projection": ("o",),
    "mlp up": ("gate", "up"),
    "mlp down": ("down",),
    "logits": ("head",),
}
"""Matrices that a linear layer of ours joins, by the names adapters know them under."""


@record
class Pass:
    """How the linear layers of a block are run: what the recipe trains, which kernels there are, whether forward is repeated.

    ``part`` of the model the block belongs to; ``dtype`` of its products.
    """

    recipe: Recipe
    build: Build
    part: Part
    again: bool
    dtype: str


def linear(rows: Rows, run: Pass, name: str, t: Num, k: Num, n: Num, *, bias: bool = False, batch: Num = 1.0) -> None:
    """``batch`` linear layers of ``k`` inputs and ``n`` outputs per rank on ``t`` rows each: one GEMM forward, two backward.

    The weight-gradient GEMM adds into the gradient buffer (one read, one write of it) if the build fuses that; otherwise the
    addition is a kernel of its own that also reads the fresh gradient. A bias costs one reading of the output's gradient.
    In fp8 the input, and in the backward pass the output's gradient, is first cast and written twice, as it is and transposed for the
    weight-gradient GEMM (Micikevicius et al., arXiv 2209.05433; NVIDIA Transformer Engine's fused cast-transpose).
    Without a grouped kernel every one of the ``batch`` products is launched by itself. A frozen layer has no weight gradient; adapters on
    it are two thin layers beside it, whose output is added (Hu et al., arXiv 2106.09685, section 4.1).
    4-bit weights are widened before each use (Dettmers et al., arXiv 2305.14314, equation 5).
    """
    recipe, build, again, dtype = run.recipe, run.build, run.again, run.dtype
    e, g = recipe.precision.byte("activation"), recipe.precision.byte("grads")
    w = recipe.precision.byte("weights")
    if recipe.precision.weights == "nf4" and run.part in ("layers", "encoder"):
        both(rows, f"{name} widen", batch * k * n * (w + e), batch * k * n * (w + e), again=again)
    if recipe.precision.weights == "nf4":
        w = e
    forward = batch * ((t * k + t * n) * e + k * n * w)
    launched = 1.0 if build.grouped_matmul else batch
    rows.matmul(name, "forward", dtype, t, n, k, batch, forward, launched)
    if again:
        rows.matmul(name, "recompute", dtype, t, n, k, batch, forward, launched)
    rows.matmul(f"{name} dgrad", "backward", dtype, t, k, n, batch, forward, launched)
    if recipe.trains(run.part):
        fused = build.fused_wgrad_accumulation
        stored = batch * ((t * k + t * n) * e + k * n * (2 * g if fused else w))
        rows.matmul(f"{name} wgrad", "backward", dtype, k, n, t, batch, stored, launched)
        if not fused:
            rows.stream(f"{name} grad add", "backward", batch * k * n * (w + 2 * g))
        if bias:
            rows.stream(f"{name} bias grad", "backward", batch * t * n * e)
    if dtype == "fp8":
        byte = e + 2 * DTYPE_BYTE["fp8"]
        both(rows, f"{name} cast", batch * t * k * byte, batch * t * n * byte, again=again)
    adapted = [target for target in TARGETS.get(name, ()) if recipe.lora and target in recipe.lora.targets]
    if recipe.lora and adapted:
        _adapter(rows, run, name, t, k, n, 1.0 * recipe.lora.rank, len(adapted), batch)


def _adapter(rows: Rows, run: Pass, name: str, t: Num, k: Num, n: Num, rank: float, targets: int, batch: Num) -> None:
    """``x A`` of all targets at once and each one's product with its B, in the wide type, and the addition to the frozen layer's output."""
    recipe = run.recipe
    e, dtype = recipe.precision.byte("activation"), recipe.precision.wide
    for part, inputs, outputs, count in (("A", k, rank * targets, batch), ("B", rank, n / targets, batch * targets)):
        byte = count * ((t * inputs + t * outputs) * e + inputs * outputs * e)
        for phase in ("forward", "recompute") if run.again else ("forward",):
            rows.matmul(f"{name} {part}", phase, dtype, t, outputs, inputs, count, byte)
        rows.matmul(f"{name} {part} dgrad", "backward", dtype, t, inputs, outputs, count, byte)
        rows.matmul(f"{name} {part} wgrad", "backward", dtype, inputs, outputs, t, count, byte)
    both(rows, f"{name} adapter add", 3 * batch * t * n * e, 3 * batch * t * k * e, again=run.again)


def fused_attention(
    rows: Rows, model: Model, local: Local, *, kv_len: Num, seen: Num, recipe: Recipe, again: bool, name: str = "attention"
) -> None:
    """Attention in one kernel that keeps no scores (Dao et al., arXiv 2205.14135): q, k, v in, output out."""
    e, d = recipe.precision.byte("activation"), (model.query_dim + model.value_dim) / 2.0
    heads = local.sequences * local.core_heads
    operands = local.sequences * d * e * (local.q_len * 2 * local.core_heads + kv_len * 2 * local.core_kv_heads)
    for phase, passes in (("forward", 1.0), *((("recompute", 1.0),) if again else ()), ("backward", 2.0)):
        rows.attention(name, phase, local.q_len, kv_len, d, heads, seen, operands * passes)


def unfused_attention(rows: Rows, model: Model, local: Local, *, kv_len: Num, recipe: Recipe, build: Build, again: bool) -> None:
    """Attention as batched GEMMs and a softmax over a stored s x s matrix, which no kernel skips for the causal mask.

    A softmax kernel that is not fused with scale and mask makes two more passes over the scores. The context is copied once from
    head-major to token-major order before the projection.
    """
    e, dk, dv = recipe.precision.byte("activation"), 1.0 * model.query_dim, 1.0 * model.value_dim
    q, kv = local.q_len, kv_len
    heads = local.sequences * local.heads
    scores = heads * q * kv
    thin = {d: heads * (q + kv) * d * e + scores * e for d in (dk, dv)}
    extra = 0.0 if build.fused_softmax else 4.0
    wide = recipe.precision.wide
    for phase in ("forward", "recompute") if again else ("forward",):
        rows.matmul("scores", phase, wide, q, kv, dk, heads, thin[dk])
        rows.stream("softmax", phase, scores * e * (2 + extra), flop=scores * 5)
        if recipe.dropout:
            rows.stream("attention dropout", phase, scores * (2 * e + 1))
        rows.matmul("context", phase, wide, q, dv, kv, heads, thin[dv])
    products = (("context dgrad", q, kv, dv), ("context wgrad", kv, dv, q), ("scores dgrad", q, dk, kv), ("scores wgrad", kv, dk, q))
    for name, m, n, k in products:
        rows.matmul(name, "backward", wide, m, n, k, heads, thin[dv if name.startswith("context") else dk])
    rows.stream("softmax", "backward", scores * e * (3 + extra), flop=scores * 4)
    if recipe.dropout:
        rows.stream("attention dropout", "backward", scores * (2 * e + 1))
    context = local.sequences * local.q_len * local.heads * dv
    both(rows, "context layout", 2 * e * context, 2 * e * context, again=again)


def norm(rows: Rows, name: str, elements: Num, *, recipe: Recipe, build: Build, again: bool) -> None:
    """LayerNorm or RMSNorm: read and write; backward reads input and gradient and writes one. Unfused: three more passes each way."""
    e = recipe.precision.byte("activation")
    extra = 0.0 if build.fused_norm else 3.0
    both(rows, name, elements * e * (2 + extra), elements * e * (3 + extra), again=again)


def both(rows: Rows, name: str, forward_byte: Num, backward_byte: Num, *, again: bool, kernels: float = 1.0) -> None:
    """Memory-bound kernels each way, one as a rule, and again in the recomputed forward pass."""
    rows.stream(name, "forward", forward_byte, kernels=kernels)
    if again:
        rows.stream(name, "recompute", forward_byte, kernels=kernels)
    rows.stream(name, "backward", backward_byte, kernels=kernels)


def residual(rows: Rows, name: str, elements: Num, *, recipe: Recipe, build: Build, again: bool) -> None:
    """Bias, dropout and residual add: two reads and a write (plus a one-byte mask); unfused, each is a kernel of its own."""
    e = recipe.precision.byte("activation")
    mask = 1.0 if recipe.dropout else 0.0
    extra = 0.0 if build.fused_bias_dropout else 2.0 * (1.0 + mask)
    both(rows, name, elements * (e * (3 + extra) + mask), elements * (e * (mask * 2 + 1 + extra) + mask), again=again)


def layer(model: Model, recipe: Recipe, strategy: Strategy, kind: LayerKind) -> Ops:
    """The ops of one transformer layer of a kind."""
    build, local = strategy.build, local_shapes(model, recipe, strategy, encoder=kind.encoder)
    part = part_of(kind)
    rows = Rows(backward=passes_back(model, recipe, part))
    full = strategy.recompute == "full"
    run = Pass(recipe=recipe, build=build, part=part, again=full, dtype=recipe.precision.math)
    h, region = 1.0 * model.hidden_size, local.region_tokens
    if kind.mtp:
        norm(rows, "mtp norms", 2 * region * h, recipe=recipe, build=build, again=full)
        linear(rows, run, "mtp projection", region, 2 * h, h)
    for index in range(model.norms_per_layer):
        norm(rows, f"norm {index + 1}", region * h, recipe=recipe, build=build, again=full)
    _self_attention(rows, run, model, strategy, local, kind)
    residual(rows, "residual 1", region * h, recipe=recipe, build=build, again=full)
    if crosses(model, kind):
        _cross_attention(rows, run, model, strategy, local)
    if kind.experts and model.experts is not None:
        _experts(rows, run, model.experts, strategy, local, model)
        if model.experts.shared_ffn_size:
            _mlp(rows, run, model, local.tokens, model.experts.shared_ffn_size / strategy.tp, bias=False)
    else:
        _mlp(rows, run, model, local.tokens, local.ffn, bias=model.mlp_bias)
    residual(rows, "residual 2", region * h, recipe=recipe, build=build, again=full)
    return rows.ops(build.attention_kernel)


def _self_attention(rows: Rows, run: Pass, model: Model, strategy: Strategy, local: Local, kind: LayerKind) -> None:
    """Projections, positions, the core and the output projection."""
    recipe, build = run.recipe, run.build
    e, h, t = recipe.precision.byte("activation"), 1.0 * model.hidden_size, local.tokens
    q_size, kv_size = local.heads * model.query_dim, local.kv_heads * model.head_dim
    if model.latent is None:
        linear(rows, run, "qkv", t, h, q_size + 2 * kv_size, bias=model.qkv_bias)
    else:
        kv_size = local.heads * model.query_dim
        _latent_projections(rows, run, model, model.latent, local)
    if model.qk_norm != "none":
        norm(rows, "qk norm", t * (q_size + kv_size), recipe=recipe, build=build, again=run.again)
    if model.position == "rope":
        both(rows, "rope", 2 * e * t * (q_size + kv_size), 2 * e * t * (q_size + kv_size), again=run.again)
    if strategy.flash_attention:
        seen = seen_share(model, kind, local.kv_len, () if kind.encoder else recipe.document_lens)
        fused_attention(rows, model, local, kv_len=local.kv_len, seen=seen, recipe=recipe, again=run.again)
    else:
        unfused_attention(rows, model, local, kv_len=local.kv_len, recipe=recipe, build=build, again=strategy.recompute != "none")
    linear(rows, run, "projection", t, local.heads * model.value_dim, h, bias=model.attention_output_bias)


def _latent_projections(rows: Rows, run: Pass, model: Model, latent: LatentAttention, local: Local) -> None:
    """Down into the latent vectors (not cut over tp: every rank computes its own tokens), their norms, and up to the rank's heads."""
    h, t, region = 1.0 * model.hidden_size, local.tokens, local.region_tokens
    if latent.q_rank:
        linear(rows, run, "query down", region, h, 1.0 * latent.q_rank, bias=model.qkv_bias)
    linear(rows, run, "key-value down", region, h, 1.0 * latent.kv_rank + latent.rope_head_dim, bias=model.qkv_bias)
    norm(rows, "latent norms", region * (latent.q_rank + latent.kv_rank), recipe=run.recipe, build=run.build, again=run.again)
    linear(rows, run, "queries", t, 1.0 * (latent.q_rank or model.hidden_size), local.heads * model.query_dim)
    linear(rows, run, "keys", t, 1.0 * latent.kv_rank, local.heads * (latent.nope_head_dim + latent.value_head_dim))


def _cross_attention(rows: Rows, run: Pass, model: Model, strategy: Strategy, local: Local) -> None:
    """Queries from the decoder's tokens, keys and values from the encoder's output, nothing masked (arXiv 1706.03762, section 3.2.3)."""
    recipe, build = run.recipe, run.build
    h, t, region = 1.0 * model.hidden_size, local.tokens, local.region_tokens
    q_size, kv_size = local.heads * model.head_dim, local.kv_heads * model.head_dim
    read = local.sequences * local.cross_len / strategy.cp
    norm(rows, "cross norm", region * h, recipe=recipe, build=build, again=run.again)
    linear(rows, run, "queries", t, h, q_size, bias=model.qkv_bias)
    linear(rows, run, "keys", read, h, 2 * kv_size, bias=model.qkv_bias)
    if strategy.flash_attention:
        fused_attention(rows, model, local, kv_len=local.cross_len, seen=1.0, recipe=recipe, again=run.again, name="cross attention")
    else:
        unfused_attention(rows, model, local, kv_len=local.cross_len, recipe=recipe, build=build, again=strategy.recompute != "none")
    linear(rows, run, "projection", t, q_size, h, bias=model.attention_output_bias)
    residual(rows, "cross residual", region * h, recipe=recipe, build=build, again=run.again)


def _mlp(rows: Rows, run: Pass, model: Model, t: Num, ffn: Num, *, bias: bool, batch: Num = 1.0) -> None:
    """Two linear layers with an activation (gated: on twice the width) between them, for one MLP or ``batch`` experts of ``t`` rows."""
    e, h = run.recipe.precision.byte("activation"), 1.0 * model.hidden_size
    width = ffn * (gates(model) - 1)
    linear(rows, run, "mlp up", t, h, width, bias=bias, batch=batch)
    extra = 0.0 if run.build.fused_activation else 2.0 * width
    forward, backward = batch * t * e * (width + ffn + extra), batch * t * e * (2 * width + ffn + extra)
    both(rows, "activation", forward, backward, again=run.again)
    linear(rows, run, "mlp down", t, ffn, h, bias=bias, batch=batch)


ROUTING_PASSES = 6.0
"""Passes over the fp32 router logits: written by the GEMM's conversion, read and written by the softmax (or sigmoid), read by top-k, read
and written by the normalised map of tokens to experts."""
ROUTING_KERNELS = 20.0
"""Small kernels of an unfused router and of the bookkeeping before a dispatch: conversion, softmax or sigmoid, bias, top-k, normalisation,
map and its scatter, load-balancing loss, tokens per expert and their sums (assumption, range 8 to 40: our count of the steps in
Megatron-Core's router and dispatcher; fused ones need a few)."""
PERMUTE_KERNELS = 5.0
"""Kernels of one sorting of tokens: map to indices, gather or scatter of rows and of their weights (assumption, range 2 to 10, as
above)."""


def _experts(rows: Rows, run: Pass, experts: Experts, strategy: Strategy, local: Local, model: Model) -> None:
    """Router, sorting of tokens by expert, the experts as one grouped GEMM per matrix, and the weighted sum of what comes back.

    Before the dispatch a rank copies each of its tokens once per expert; what arrives for its experts is brought into their order. The
    way back is the same in reverse (Gale et al., MegaBlocks, arXiv 2211.15841, section 5.1).
    """
    e, h, region = run.recipe.precision.byte("activation"), 1.0 * model.hidden_size, local.region_tokens
    router = replace(run, dtype=run.recipe.precision.wide)
    linear(rows, router, "router", region, h, 1.0 * experts.num_experts)
    logits = region * experts.num_experts * DTYPE_BYTE["fp32"]
    both(rows, "routing", ROUTING_PASSES * logits, ROUTING_PASSES * logits, again=run.again, kernels=ROUTING_KERNELS)
    copied = (region + local.sent_tokens) * h * e
    sorted_rows = 2 * local.expert_tokens * local.local_experts * h * e * positive(local.local_experts - 1)
    both(rows, "permute", copied + sorted_rows, copied + sorted_rows, again=run.again, kernels=PERMUTE_KERNELS)
    _mlp(rows, run, model, local.expert_tokens, experts.ffn_size / strategy.etp, bias=model.mlp_bias, batch=local.local_experts)
    both(rows, "unpermute", copied + sorted_rows, copied + sorted_rows, again=run.again, kernels=PERMUTE_KERNELS)


def embedding(model: Model, recipe: Recipe, strategy: Strategy) -> Ops:
    """Table look-up: read and write one row per token; the backward pass adds every row's gradient into the table's buffer.

    Images are cut into patches and projected instead; an encoder-decoder looks up both its sequences.
    """
    local = local_shapes(model, recipe, strategy)
    e, g = recipe.precision.byte("activation"), recipe.precision.byte("grads")
    read = strategy.microbatch_size * recipe.encoder_seq_len / strategy.cp
    elements = (local.tokens + read) * model.hidden_size
    region = (local.region_tokens + read / (strategy.tp if strategy.sequence_parallel else 1)) * model.hidden_size
    trained = 1.0 * recipe.trains("embedding")
    rows = Rows(backward=passes_back(model, recipe, "embedding"))
    if model.patch_size:
        run = Pass(recipe=recipe, build=strategy.build, part="embedding", again=False, dtype=recipe.precision.wide)
        linear(rows, run, "patches", local.tokens, 1.0 * model.num_channels * model.patch_size**2, 1.0 * model.hidden_size, bias=True)
    else:
        rows.stream("embedding", "forward", elements * 2 * e)
        rows.stream("embedding", "backward", elements * (e + 2 * g) * trained)
    if model.position == "learned":
        both(rows, "positions", elements * 3 * e, elements * (e + 2 * g) * trained, again=False)
    if recipe.dropout:
        both(rows, "embedding dropout", region * (2 * e + 1), region * (2 * e + 1), again=False)
    if model.embedding_norm:
        norm(rows, "embedding norm", region, recipe=recipe, build=strategy.build, again=False)
    return rows.ops(strategy.build.attention_kernel)


def head(model: Model, recipe: Recipe, strategy: Strategy) -> Ops:
    """Final norm, output projection and cross-entropy over the rank's part of the vocabulary; classes of images from one token in each.

    A fused loss reads the logits twice and writes their gradient in place. Unfused (Megatron-LM's vocabulary-parallel
    loss) the 16-bit logits are widened to fp32 (read 2, write 4 bytes), then maximum (4), subtraction (8), exponential (8), sum (4) and
    division (8) each pass over them, and backward scales (8) and narrows them again (6).
    """
    local = local_shapes(model, recipe, strategy)
    e, build = recipe.precision.byte("activation"), strategy.build
    rows = Rows()
    h = 1.0 * model.hidden_size
    t = local.sequences if model.patch_size else local.tokens
    run = Pass(recipe=recipe, build=build, part="head", again=False, dtype=recipe.precision.wide)
    if model.final_norm:
        norm(rows, "final norm", local.region_tokens * h, recipe=recipe, build=build, again=False)
    if model.head_transform:
        linear(rows, run, "head transform", local.region_tokens, h, h, bias=True)
        norm(rows, "head norm", local.region_tokens * h, recipe=recipe, build=build, again=False)
    linear(rows, run, "logits", t, h, local.vocab, bias=model.head_bias)
    logits = t * local.vocab
    fp32 = DTYPE_BYTE["fp32"]
    unfused_forward, unfused_backward = e + 9 * fp32, e + 3 * fp32
    fused = build.fused_cross_entropy
    pieces = 1.0 * strategy.loss_chunks
    rows.stream("loss", "forward", logits * (e if fused else unfused_forward), flop=logits * 4, kernels=pieces * (1.0 if fused else 6.0))
    backward = logits * (2 * e if fused else unfused_backward)
    rows.stream("loss", "backward", backward, flop=logits * 2, kernels=pieces * (1.0 if fused else 2.0))
    return rows.ops(build.attention_kernel)
