"""The ops of one layer, the embedding and the head, for one microbatch on one rank.

Shape letters: ``t`` tokens of the rank, ``h`` hidden size, ``f`` MLP width, ``e`` bytes per activation element. Tensor parallelism
follows Megatron-LM (Shoeybi et al., arXiv 1909.08053; Narayanan et al., arXiv 2104.04473); the sequence-parallel
regions follow Korthikanti et al. (arXiv 2205.05198, section 4.2). Every elementwise kernel is written as the number of
times it reads or writes its tensor: they are bound by memory, so the passes are the cost.
"""

from __future__ import annotations

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, maximum
from foretrain.core.record import record
from foretrain.program.op import Ops
from foretrain.program.rows import Rows
from foretrain.strategy.build import Build
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import causal_share
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe


@record
class Local:
    """Sizes on one rank for one microbatch.

    ``tokens`` inside the tensor-parallel region, ``region_tokens`` outside it (norms, residuals, dropout: fewer with sequence
    parallelism), ``heads`` and ``kv_heads`` per rank, ``ffn`` columns per rank, ``vocab`` rows per rank.
    """

    tokens: Num
    region_tokens: Num
    sequences: Num
    q_len: Num
    kv_len: Num
    heads: Num
    kv_heads: Num
    ffn: Num
    vocab: Num


def local_shapes(model: Model, recipe: Recipe, strategy: Strategy) -> Local:
    """Cut the model over tp and the sequence over cp; the vocabulary is padded to a multiple of tp by frameworks, here it is divided.

    With more tensor-parallel ranks than key-value heads each rank holds a copy of one head.
    """
    tokens = strategy.microbatch_size * recipe.seq_len / strategy.cp
    return Local(
        tokens=tokens,
        region_tokens=tokens / (strategy.tp if strategy.sequence_parallel else 1),
        sequences=1.0 * strategy.microbatch_size,
        q_len=recipe.seq_len / strategy.cp,
        kv_len=1.0 * recipe.seq_len,
        heads=model.num_heads / strategy.tp,
        kv_heads=kv_heads_per_rank(model, strategy.tp),
        ffn=model.ffn_size / strategy.tp,
        vocab=model.vocab_size / strategy.tp,
    )


def kv_heads_per_rank(model: Model, tp: Num) -> Num:
    """Key-value heads held by one rank: at least one, because heads are replicated when tp exceeds their number."""
    return maximum(model.num_kv_heads / tp, 1.0)


def linear(rows: Rows, name: str, t: Num, k: Num, n: Num, *, recipe: Recipe, build: Build, again: bool, dtype: str, bias: bool) -> None:
    """A linear layer of ``k`` inputs and ``n`` outputs per rank: one GEMM forward, two backward, and its gradient bookkeeping.

    The weight-gradient GEMM adds into the gradient buffer (one read, one write of it) if the build fuses that; otherwise the
    addition is a kernel of its own that also reads the fresh gradient. A bias costs one reading of the output's gradient.
    In fp8 the input, and in the backward pass the output's gradient, is first cast and written twice, as it is and transposed for the
    weight-gradient GEMM (Micikevicius et al., arXiv 2209.05433; NVIDIA Transformer Engine's fused cast-transpose).
    """
    e, g = recipe.precision.byte("activation"), recipe.precision.byte("grads")
    w = recipe.precision.byte("weights")
    forward = (t * k + t * n) * e + k * n * w
    rows.matmul(name, "forward", dtype, t, n, k, 1.0, forward)
    if again:
        rows.matmul(name, "recompute", dtype, t, n, k, 1.0, forward)
    rows.matmul(f"{name} dgrad", "backward", dtype, t, k, n, 1.0, forward)
    fused = build.fused_wgrad_accumulation
    rows.matmul(f"{name} wgrad", "backward", dtype, k, n, t, 1.0, (t * k + t * n) * e + k * n * (2 * g if fused else w))
    if not fused:
        rows.stream(f"{name} grad add", "backward", k * n * (w + 2 * g))
    if bias:
        rows.stream(f"{name} bias grad", "backward", t * n * e)
    if dtype == "fp8":
        both(rows, f"{name} cast", t * k * (e + 2 * DTYPE_BYTE["fp8"]), t * n * (e + 2 * DTYPE_BYTE["fp8"]), again=again)


def fused_attention(rows: Rows, model: Model, local: Local, *, window: int, recipe: Recipe, again: bool) -> None:
    """Attention in one kernel that keeps no scores (Dao et al., arXiv 2205.14135): q, k, v in, output out."""
    e, d = recipe.precision.byte("activation"), model.head_dim
    seen = causal_share(local.kv_len, window, recipe.document_lens)
    heads = local.sequences * local.heads
    operands = local.sequences * d * e * (local.q_len * 2 * local.heads + local.kv_len * 2 * local.kv_heads)
    for phase, passes in (("forward", 1.0), *((("recompute", 1.0),) if again else ()), ("backward", 2.0)):
        rows.attention("attention", phase, local.q_len, local.kv_len, 1.0 * d, heads, seen, operands * passes)


def unfused_attention(rows: Rows, model: Model, local: Local, *, recipe: Recipe, build: Build, again: bool) -> None:
    """Attention as batched GEMMs and a softmax over a stored s x s matrix, which no kernel skips for the causal mask.

    A softmax kernel that is not fused with scale and mask makes two more passes over the scores. The context is copied once from
    head-major to token-major order before the projection.
    """
    e, d = recipe.precision.byte("activation"), 1.0 * model.head_dim
    q, kv = local.q_len, local.kv_len
    heads = local.sequences * local.heads
    scores = heads * q * kv
    thin = heads * (q + kv) * d * e + scores * e
    extra = 0.0 if build.fused_softmax else 4.0
    for phase in ("forward", "recompute") if again else ("forward",):
        rows.matmul("scores", phase, recipe.precision.wide, q, kv, d, heads, thin)
        rows.stream("softmax", phase, scores * e * (2 + extra), flop=scores * 5)
        if recipe.dropout:
            rows.stream("attention dropout", phase, scores * (2 * e + 1))
        rows.matmul("context", phase, recipe.precision.wide, q, d, kv, heads, thin)
    for name, m, n, k in (("context dgrad", q, kv, d), ("context wgrad", kv, d, q), ("scores dgrad", q, d, kv), ("scores wgrad", kv, d, q)):
        rows.matmul(name, "backward", recipe.precision.wide, m, n, k, heads, thin)
    rows.stream("softmax", "backward", scores * e * (3 + extra), flop=scores * 4)
    if recipe.dropout:
        rows.stream("attention dropout", "backward", scores * (2 * e + 1))
    context = local.tokens * local.heads * d
    both(rows, "context layout", 2 * e * context, 2 * e * context, again=again)


def norm(rows: Rows, name: str, elements: Num, *, recipe: Recipe, build: Build, again: bool) -> None:
    """LayerNorm or RMSNorm: read and write; backward reads input and gradient and writes one. Unfused: three more passes each way."""
    e = recipe.precision.byte("activation")
    extra = 0.0 if build.fused_norm else 3.0
    both(rows, name, elements * e * (2 + extra), elements * e * (3 + extra), again=again)


def both(rows: Rows, name: str, forward_byte: Num, backward_byte: Num, *, again: bool) -> None:
    """One memory-bound kernel each way, and again in the recomputed forward pass."""
    rows.stream(name, "forward", forward_byte)
    if again:
        rows.stream(name, "recompute", forward_byte)
    rows.stream(name, "backward", backward_byte)


def residual(rows: Rows, name: str, elements: Num, *, recipe: Recipe, build: Build, again: bool) -> None:
    """Bias, dropout and residual add: two reads and a write (plus a one-byte mask); unfused, each is a kernel of its own."""
    e = recipe.precision.byte("activation")
    mask = 1.0 if recipe.dropout else 0.0
    extra = 0.0 if build.fused_bias_dropout else 2.0 * (1.0 + mask)
    both(rows, name, elements * (e * (3 + extra) + mask), elements * (e * (mask * 2 + 1 + extra) + mask), again=again)


def layer(model: Model, recipe: Recipe, strategy: Strategy, window: int) -> Ops:
    """The ops of one transformer layer whose attention sees ``window`` tokens (0: all)."""
    build, local = strategy.build, local_shapes(model, recipe, strategy)
    rows = Rows()
    e = recipe.precision.byte("activation")
    h, t, region = 1.0 * model.hidden_size, local.tokens, local.region_tokens
    q_size, kv_size = local.heads * model.head_dim, local.kv_heads * model.head_dim
    full = strategy.recompute == "full"
    core = full or (strategy.recompute == "selective" and not strategy.flash_attention)
    dtype = recipe.precision.math

    for index in range(model.norms_per_layer):
        norm(rows, f"norm {index + 1}", region * h, recipe=recipe, build=build, again=full)
    linear(rows, "qkv", t, h, q_size + 2 * kv_size, recipe=recipe, build=build, again=full, dtype=dtype, bias=model.qkv_bias)
    if model.qk_norm != "none":
        norm(rows, "qk norm", t * (q_size + kv_size), recipe=recipe, build=build, again=full)
    if model.position == "rope":
        both(rows, "rope", 2 * e * t * (q_size + kv_size), 2 * e * t * (q_size + kv_size), again=full)
    if strategy.flash_attention:
        fused_attention(rows, model, local, window=window, recipe=recipe, again=full)
    else:
        unfused_attention(rows, model, local, recipe=recipe, build=build, again=core)
    linear(rows, "projection", t, q_size, h, recipe=recipe, build=build, again=full, dtype=dtype, bias=model.attention_output_bias)
    residual(rows, "residual 1", region * h, recipe=recipe, build=build, again=full)
    width = local.ffn * (2 if model.gated_mlp else 1)
    linear(rows, "mlp up", t, h, width, recipe=recipe, build=build, again=full, dtype=dtype, bias=model.mlp_bias)
    extra = 0.0 if build.fused_activation else 2.0 * width
    both(rows, "activation", t * e * (width + local.ffn + extra), t * e * (2 * width + local.ffn + extra), again=full)
    linear(rows, "mlp down", t, local.ffn, h, recipe=recipe, build=build, again=full, dtype=dtype, bias=model.mlp_bias)
    residual(rows, "residual 2", region * h, recipe=recipe, build=build, again=full)
    return rows.ops(build.attention_kernel)


def embedding(model: Model, recipe: Recipe, strategy: Strategy) -> Ops:
    """Table look-up: read and write one row per token; the backward pass adds every row's gradient into the table's buffer."""
    local = local_shapes(model, recipe, strategy)
    e, g = recipe.precision.byte("activation"), recipe.precision.byte("grads")
    elements = local.tokens * model.hidden_size
    rows = Rows()
    rows.stream("embedding", "forward", elements * 2 * e)
    rows.stream("embedding", "backward", elements * (e + 2 * g))
    if model.position == "learned":
        both(rows, "positions", elements * 3 * e, elements * (e + 2 * g), again=False)
    if recipe.dropout:
        mask = local.region_tokens * model.hidden_size
        both(rows, "embedding dropout", mask * (2 * e + 1), mask * (2 * e + 1), again=False)
    if model.embedding_norm:
        norm(rows, "embedding norm", local.region_tokens * model.hidden_size, recipe=recipe, build=strategy.build, again=False)
    return rows.ops(strategy.build.attention_kernel)


def head(model: Model, recipe: Recipe, strategy: Strategy) -> Ops:
    """Final norm, output projection and cross-entropy over the rank's part of the vocabulary.

    A fused loss reads the logits twice and writes their gradient in place. Unfused (Megatron-LM's vocabulary-parallel
    loss) the 16-bit logits are widened to fp32 (read 2, write 4 bytes), then maximum (4), subtraction (8), exponential (8), sum (4) and
    division (8) each pass over them, and backward scales (8) and narrows them again (6).
    """
    local = local_shapes(model, recipe, strategy)
    e = recipe.precision.byte("activation")
    rows = Rows()
    h = 1.0 * model.hidden_size
    if model.final_norm:
        norm(rows, "final norm", local.region_tokens * h, recipe=recipe, build=strategy.build, again=False)
    linear(
        rows, "logits", local.tokens, h, local.vocab,
        recipe=recipe, build=strategy.build, again=False, dtype=recipe.precision.wide, bias=model.head_bias,
    )  # fmt: skip
    logits = local.tokens * local.vocab
    fp32 = DTYPE_BYTE["fp32"]
    unfused_forward, unfused_backward = e + 9 * fp32, e + 3 * fp32
    fused = strategy.build.fused_cross_entropy
    rows.stream("loss", "forward", logits * (e if fused else unfused_forward), flop=logits * 4, kernels=1.0 if fused else 6.0)
    rows.stream("loss", "backward", logits * (2 * e if fused else unfused_backward), flop=logits * 2, kernels=1.0 if fused else 2.0)
    return rows.ops(strategy.build.attention_kernel)
