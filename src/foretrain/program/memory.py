"""What one rank holds in device memory at the peak of a step, by cause.

Activations follow Korthikanti et al. (arXiv 2205.05198, section 4): every tensor a layer keeps for its backward pass, counted where
it is kept. Their closed forms (``s b h (34 + 5 a s / h)`` without parallelism, equation 1; ``10 + 24 / t`` with tensor, ``34 / t``
with sequence parallelism, equations 2 and 4) follow for a GPT layer with dropout and 16-bit activations. Model states follow ZeRO
(Rajbhandari et al., arXiv 1910.02054, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, maximum, minimum
from foretrain.program.layers import Local, local_shapes
from foretrain.program.sharding import Held, held_shard, layer_held
from foretrain.strategy.layout import Stage
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import DENSE, crosses, gates, part_of, passes_back
from foretrain.workload.model import LayerKind, Model
from foretrain.workload.recipe import Part, Recipe, Target

OPTIMIZER_MOMENTS = {"adam": 2.0, "adamw": 2.0, "adam8bit": 2.0, "adafactor": 0.0, "lion": 1.0, "muon": 1.0, "sgd": 1.0, "rmsprop": 2.0}
"""States per parameter that the optimizer keeps besides the master copy: two moments (Adam, also in 8 bits), one momentum (SGD, Lion,
Muon), a mean square and a momentum (RMSProp). Adafactor's row and column sums are below a thousandth of the parameters and left out
(Shazeer and Stern, arXiv 1804.04235, section 3)."""
TABLE_MOMENTS = {"muon": 2.0}
"""States of embedding and head where they differ: Muon leaves these to AdamW (Liu et al., arXiv 2502.16982, section 2.2)."""
BLOCK_BYTE = 1.0 + DTYPE_BYTE["fp32"] / 2048.0
"""An 8-bit state with the fp32 scale of its block of 2048 (Dettmers et al., arXiv 2110.02861, section 2.1)."""


def moment_byte(recipe: Recipe, *, table: bool = False) -> float:
    """Bytes per parameter of all the optimizer's moments; ``table``: of embedding and head."""
    count = OPTIMIZER_MOMENTS[recipe.optimizer]
    if table:
        count = TABLE_MOMENTS.get(recipe.optimizer, count)
    return count * (BLOCK_BYTE if recipe.optimizer == "adam8bit" else recipe.precision.byte("moments"))


def saved_byte(trained: Num, recipe: Recipe) -> Num:
    """Bytes of a checkpoint: weights, master copy and moments of the ``trained`` parameters."""
    return trained * (recipe.precision.byte("weights") + recipe.precision.byte("master") + moment_byte(recipe))


def model_states(
    params: Num,
    recipe: Recipe,
    *,
    zero: int,
    shards: Num,
    offload: Num = 0.0,
    parameter_offload: Num = 0.0,
    offload_master: bool = True,
    frozen: Num = 0.0,
) -> dict[str, Num]:
    """Bytes of weights, gradients, master copy and moments of ``params`` parameters held by one rank, ``frozen`` of which do not learn.

    The shares ``offload`` of moments and (``offload_master``) master copy and ``parameter_offload`` of the weights are outside the chip.
    Stage 1 divides master and moments by ``shards``, stage 2 also gradients, stage 3 also weights (arXiv 1910.02054, figure 1).

    >>> from foretrain.workload.recipe import Part, Recipe, Target
    >>> recipe = Recipe(seq_len=1, global_batch_size=1, tokens=1)
    >>> sum(model_states(1.0, recipe, zero=1, shards=8.0).values())
    7.5
    """
    precision, trained = recipe.precision, params - frozen
    kept = trained / (shards if zero >= 1 else 1)
    return {
        "weights": params * (1 - parameter_offload) * precision.byte("weights") / (shards if zero >= 3 else 1),
        "gradients": trained * precision.byte("grads") / (shards if zero >= 2 else 1),
        "master": kept * (1 - offload * offload_master) * precision.byte("master"),
        "moments": kept * (1 - offload) * moment_byte(recipe),
    }


def stage_states(held: Held, ends: Held, recipe: Recipe, strategy: Strategy) -> dict[str, Num]:
    """``model_states`` of a rank: experts are sharded over fewer ranks than the rest, tables may have other moments.

    ``held``: everything on the rank; ``ends``: the part of it that is embedding and head.
    """
    offload = strategy.optimizer_offload
    shards = strategy.dp * strategy.cp / strategy.dp_replicate
    states = partial(
        model_states,
        recipe=recipe,
        zero=strategy.zero,
        offload=offload,
        parameter_offload=strategy.parameter_offload,
        offload_master=strategy.offload_master,
    )
    rest = states(held.params, shards=shards, frozen=held.params - held.trained)
    routed = states(held.experts, shards=strategy.expert_replicas, frozen=held.experts - held.trained_experts)
    further = ends.trained * (1 - offload) / (shards if strategy.zero >= 1 else 1) * (moment_byte(recipe, table=True) - moment_byte(recipe))
    wide = ends.params * (1 - strategy.parameter_offload) / (shards if strategy.zero >= 3 else 1) * _table_extra_byte(recipe)
    added = {"moments": further, "weights": wide}
    return {name: value + routed[name] + added.get(name, 0.0) for name, value in rest.items()}


def _table_extra_byte(recipe: Recipe) -> float:
    """Bytes per parameter by which embedding and head are wider than 4-bit weights: only the layers' matrices are ever quantised.

    Dettmers et al., arXiv 2305.14314, section 3.
    """
    narrow = recipe.precision.weights == "nf4"
    return (recipe.precision.byte("activation") - recipe.precision.byte("weights")) if narrow else 0.0


def attention_widths(model: Model, local: Local) -> tuple[Num, Num, Num]:
    """Elements per token of queries; of keys and values together; and of the latent vectors and their norms, per region token."""
    latent = model.latent
    if latent is None:
        return local.heads * model.head_dim, 2 * local.kv_heads * model.head_dim, 0.0
    compressed = 2 * (latent.q_rank + latent.kv_rank) + latent.rope_head_dim
    return local.heads * model.query_dim, local.heads * (model.query_dim + model.value_dim), 1.0 * compressed


def layer_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local, kind: LayerKind = DENSE) -> Num:
    """Bytes one layer keeps for the backward pass of one microbatch, with nothing recomputed.

    Experts keep what the plain MLP keeps, for every row they compute, and the sorted rows they were given; the router its fp32 logits.
    A linear layer that is frozen and has no adapter needs no input for a weight gradient (``keeps_input``); the norms, the activation and
    the attention core around it keep theirs.
    """
    e, h = recipe.precision.byte("activation"), model.hidden_size
    q, kv, compressed = attention_widths(model, local)
    context = local.heads * model.value_dim
    mask = 1.0 if recipe.dropout else 0.0
    qk_norm = 0.0 if model.qk_norm == "none" else q + local.kv_heads * model.head_dim
    part = part_of(kind)
    attends, widens = keeps_input(recipe, part, "q", "k", "v"), keeps_input(recipe, part, "gate", "up")
    shared = model.parallel_block and model.norms_per_layer == 1  # attention and MLP that share a norm share its output
    inputs = max(attends, widens) if shared else attends + widens
    region = local.region_tokens * (h * ((model.norms_per_layer + inputs) * e + 2 * mask) + compressed * e)
    inside = local.tokens * e * (q + kv + qk_norm + context)
    core = attention_activations(recipe, strategy, local)
    if crosses(model, kind):
        read = local.sequences * local.cross_len / strategy.cp
        region = region + local.region_tokens * h * (2 * e + mask)
        inside = inside + (local.tokens * 2 * q + read * (kv + h)) * e
        core = core + attention_activations(recipe, strategy, local, cross=True)
    if kind.mtp:
        region = region + local.region_tokens * h * 4 * e
    return region + inside + core + mlp_activations(model, recipe, strategy, local, kind)


def keeps_input(recipe: Recipe, part: Part, *targets: Target) -> int:
    """1 where a linear layer of ``part`` keeps its input for a weight gradient: its own, or that of an adapter on one of ``targets``."""
    adapted = recipe.lora is not None and any(target in recipe.lora.targets for target in targets)
    return int(recipe.trains(part) or adapted)


def mlp_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local, kind: LayerKind) -> Num:
    """Bytes kept inside the MLP or the experts of one layer."""
    e, wide = recipe.precision.byte("activation"), gates(model) - 1
    part = part_of(kind)
    narrows, widens = keeps_input(recipe, part, "down"), keeps_input(recipe, part, "gate", "up")
    experts = model.experts
    if not kind.experts or experts is None:
        return local.tokens * e * local.ffn * (wide + narrows)
    rows = local.expert_tokens * local.local_experts
    routed = rows * e * (model.hidden_size * widens + experts.ffn_size / strategy.etp * (wide + narrows))
    shared = local.tokens * e * experts.shared_ffn_size / strategy.tp * (wide + narrows)
    return routed + shared + local.region_tokens * experts.num_experts * DTYPE_BYTE["fp32"]


def attention_activations(recipe: Recipe, strategy: Strategy, local: Local, *, cross: bool = False) -> Num:
    """Bytes kept by the attention core: a log-sum-exp per query if fused, else softmax output (with dropout also mask and its output)."""
    if strategy.flash_attention:
        return local.sequences * local.core_heads * local.q_len * DTYPE_BYTE["fp32"]
    e = recipe.precision.byte("activation")
    kv_len = local.cross_len if cross else local.kv_len
    return local.sequences * local.heads * local.q_len * kv_len * (2 * e + 1 if recipe.dropout else e)


def core_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local, kind: LayerKind) -> Num:
    """Bytes kept by the attention cores of one layer, with that of cross-attention where there is one."""
    cross = attention_activations(recipe, strategy, local, cross=True) if crosses(model, kind) else 0.0
    return attention_activations(recipe, strategy, local) + cross


def kept_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local, kind: LayerKind = DENSE) -> Num:
    """Bytes one layer keeps under the recompute policy: all, all but the attention core, or only its input."""
    if strategy.recompute == "full":
        return local.region_tokens * model.hidden_size * recipe.precision.byte("activation")
    core = core_activations(model, recipe, strategy, local, kind) if strategy.recompute == "selective" else 0.0
    return layer_activations(model, recipe, strategy, local, kind) - core


def in_flight(strategy: Strategy, stage: int) -> Num:
    """Microbatches whose activations stage number ``stage`` holds at the peak.

    GPipe holds all. 1F1B holds at most as many as there are stages from here to the end. The interleaved schedule starts 2 (p - i - 1) +
    (v - 1) p chunk passes before the first backward one (Megatron-LM's schedule; stage 0 gives the factor 1 + (p - 1) / (p v) of
    arXiv 2205.05198, section 4.2.3).

    >>> in_flight(Strategy(pp=8, vpp=3, schedule="interleaved", num_microbatches=64), 0) / 8 == 1 + 7 / 24
    True
    """
    m = strategy.num_microbatches
    after = strategy.pp - stage
    held: dict[str, Num] = {
        "gpipe": m,
        "1f1b": minimum(m, after),
        "interleaved": minimum(m * strategy.vpp, 2 * (after - 1) + (strategy.vpp - 1) * strategy.pp + 1) / strategy.vpp,
    }
    return held[strategy.schedule]


def logits_bytes(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Bytes of the logits and what the loss makes of them: an fp32 copy that becomes the gradient, and unfused another for the gradient.

    In ``loss_chunks`` only one piece of the sequence has logits at a time. Modules of multi-token prediction have logits of their own.
    """
    e = recipe.precision.byte("activation")
    per_logit = e + DTYPE_BYTE["fp32"] * (1 if strategy.build.fused_cross_entropy else 2)
    tokens = local.sequences if model.patch_size else local.tokens / strategy.loss_chunks
    return tokens * local.vocab * per_logit * (1 + model.mtp_layers)


def stage_memory(
    model: Model, recipe: Recipe, strategy: Strategy, stage: Stage, layers: Sequence[tuple[LayerKind, int]], held: Held, ends: Held
) -> Mapping[str, Num]:
    """Bytes held by a rank of ``stage`` at the peak, by cause; the causes add up to the peak.

    Parameters
    ----------
    layers
        Kind and number of the stage's layers.
    held, ends
        Parameters of the rank before ZeRO sharding, and those of embedding and head among them.

    Notes
    -----
    The peak is taken in the backward pass of the oldest microbatch in flight: all stored activations are still there, and one layer's
    tensors (the largest kind's) are being made again or have their gradients beside them. ``working`` counts only what exceeds the
    logits, which the last stage frees before its layers' backward pass. With activations offloaded only two layers' stay: one in
    use, one on its way.
    """
    e, h = recipe.precision.byte("activation"), model.hidden_size
    flying = in_flight(strategy, stage.first)
    mask = 1.0 if recipe.dropout else 0.0
    local = local_shapes(model, recipe, strategy)
    region = local.region_tokens * h
    stored: Num = 0.0
    working: Num = 0.0
    gathered: Num = 0.0
    buffers: Num = 0.0
    largest: Num = 0.0
    for kind, count in layers:
        layer = layer_held(model, recipe, strategy, kind)
        gathered = maximum(gathered, gathered_bytes(layer, held, recipe, strategy))
        buffers = maximum(buffers, offload_buffer_bytes(layer, recipe, strategy))
        largest = maximum(largest, layer.total)
        if not passes_back(model, recipe, part_of(kind)):
            continue
        sizes = local_shapes(model, recipe, strategy, encoder=True) if kind.encoder else local
        resident = count if strategy.activation_offload == "none" else min(count, 2)
        stored = stored + resident * kept_activations(model, recipe, strategy, sizes, kind)
        again = layer_activations(model, recipe, strategy, sizes, kind) if strategy.recompute == "full" else 0.0
        core = core_activations(model, recipe, strategy, sizes, kind) if strategy.recompute == "selective" else 0.0
        gradients = mlp_activations(model, recipe, strategy, sizes, kind) + sizes.region_tokens * h * e
        keys = gathered_keys(model, recipe, strategy, sizes)
        working = maximum(working, again + core + gradients + keys)
    tables = stage.embedding * region * (mask + (e if model.embedding_norm else 0.0)) + stage.head * region * 2 * e
    logits = stage.head * logits_bytes(model, recipe, strategy, local)
    boundary = min(strategy.pp - 1, 1) * 2 * region * e
    return {
        **stage_states(held, ends, recipe, strategy),
        "weight_copies": weight_copies(largest if strategy.zero >= GATHERED else held.total - ends.total, recipe, strategy),
        "activations": flying * (stored + tables),
        "logits": logits,
        "working": maximum(working - logits, 0.0),
        "gathered": gathered,
        "offload_buffers": buffers,
        "pipeline_buffers": boundary,
    }


def gathered_keys(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Keys and values of the other ranks [bytes] while one layer attends, where context parallelism gathers them."""
    if strategy.context_parallel != "all_gather":
        return 0.0
    whole = local.sequences * local.kv_len * local.kv_heads * (model.query_dim + model.value_dim) * recipe.precision.byte("activation")
    return whole * (1.0 - 1.0 / strategy.cp)


GATHERED = 3
"""The ZeRO stage at which only the layer in use is whole."""


def weight_copies(params: Num, recipe: Recipe, strategy: Strategy) -> Num:
    """8-bit copies of wide weights [bytes]: made once per step and kept for all microbatches, as they are and transposed.

    As NVIDIA Transformer Engine keeps them on Hopper (its fp8 weight workspaces); none where ``build.fp8_weight_copies`` is 0.
    """
    return params * strategy.build.fp8_weight_copies * DTYPE_BYTE["fp8"] if recipe.precision.math == "fp8" else 0.0 * params


def gathered_bytes(layer: Held, held: Held, recipe: Recipe, strategy: Strategy) -> Num:
    """ZeRO-2 and 3 buffers [bytes]: gathered weights (stage 3), and one layer's gradients before they are scattered.

    Gathered are the layer in use and the next one; up to ``live_params`` of everything ``held`` where the software leaves
    what it has gathered until that limit (DeepSpeed's ``stage3_max_live_parameters``, 1e9 as it comes).
    """
    weights, grads = recipe.precision.byte("weights"), recipe.precision.byte("grads")
    gathered = maximum(2 * layer.total, minimum(strategy.live_params, held.total)) if strategy.zero >= 3 else 0.0
    return gathered * weights + (layer.trained + layer.trained_experts) * (grads if strategy.zero >= 2 else 0.0)


def offload_buffer_bytes(layer: Held, recipe: Recipe, strategy: Strategy) -> Num:
    """Buffers for weights that stay outside the chip [bytes]: the layer in use and the next one on its way; shards of them at stage 3,
    where the whole layers are counted as gathered."""
    return 2 * held_shard(layer, strategy, 3) * strategy.parameter_offload * recipe.precision.byte("weights")


def zero3_states_estimate(params: Num, largest_layer_params: Num, num_chips: Num, offload: frozenset[str] = frozenset()) -> Num:
    """DeepSpeed's own estimate of ZeRO-3 device memory for model states only [bytes], for comparison with its printed table.

    ``4 largest + {18, 2, 0} params / chips`` for no offload, optimizer offload, and optimizer and parameter offload. It leaves out
    activations,
    gathered parameters, buffers and the context, so it is never what a run needs.

    >>> round(zero3_states_estimate(6.805e9, 131e6, 4) / 2**30, 3)
    29.007
    """
    per_parameter = {frozenset(): 18.0, frozenset({"optimizer"}): 2.0, frozenset({"optimizer", "params"}): 0.0}
    return 4 * largest_layer_params + per_parameter[frozenset(offload)] * params / num_chips
