"""What one rank holds in device memory at the peak of a step, by cause.

Activations follow Korthikanti et al. (arXiv 2205.05198, section 4): every tensor a layer keeps for its backward pass, counted where
it is kept. Their closed forms (``s b h (34 + 5 a s / h)`` without parallelism, equation 1; ``10 + 24 / t`` with tensor, ``34 / t``
with sequence parallelism, equations 2 and 4) follow for a GPT layer with dropout and 16-bit activations. Model states follow ZeRO
(Rajbhandari et al., arXiv 1910.02054, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, maximum, minimum
from foretrain.program.layers import Local
from foretrain.strategy.layout import Stage
from foretrain.strategy.strategy import Strategy
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe

OPTIMIZER_MOMENTS = {"adam": 2.0, "adamw": 2.0, "sgd": 1.0}
"""States per parameter that the optimizer keeps besides the master copy: two moments (Adam), one momentum (SGD)."""


def model_states(
    params: Num, recipe: Recipe, *, zero: int, shards: Num, offload: Num = 0.0, parameter_offload: Num = 0.0, offload_master: bool = True
) -> dict[str, Num]:
    """Bytes of weights, gradients, master copy and moments of ``params`` parameters held by one rank.

    The shares ``offload`` of moments and (``offload_master``) master copy and ``parameter_offload`` of the weights are outside the chip.
    Stage 1 divides master and moments by ``shards``, stage 2 also gradients, stage 3 also weights (arXiv 1910.02054, figure 1).

    >>> from foretrain.workload.recipe import Recipe
    >>> recipe = Recipe(seq_len=1, global_batch_size=1, tokens=1)
    >>> sum(model_states(1.0, recipe, zero=1, shards=8.0).values())
    7.5
    """
    precision = recipe.precision
    master = 1 - offload * offload_master
    return {
        "weights": params * (1 - parameter_offload) * precision.byte("weights") / (shards if zero >= 3 else 1),
        "gradients": params * precision.byte("grads") / (shards if zero >= 2 else 1),
        "master": params * master * precision.byte("master") / (shards if zero >= 1 else 1),
        "moments": params * (1 - offload) * precision.byte("moments") * OPTIMIZER_MOMENTS[recipe.optimizer] / (shards if zero >= 1 else 1),
    }


def layer_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Bytes one layer keeps for the backward pass of one microbatch, with nothing recomputed."""
    e, h = recipe.precision.byte("activation"), model.hidden_size
    q, kv = local.heads * model.head_dim, local.kv_heads * model.head_dim
    mask = 1.0 if recipe.dropout else 0.0
    width = local.ffn * (2 if model.gated_mlp else 1)
    qk_norm = 0.0 if model.qk_norm == "none" else q + kv
    region = local.region_tokens * h * ((model.norms_per_layer + 2) * e + 2 * mask)
    inside = local.tokens * e * (q + 2 * kv + qk_norm + q + width + local.ffn)
    return region + inside + attention_activations(recipe, strategy, local)


def attention_activations(recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Bytes kept by the attention core: a log-sum-exp per query if fused, else softmax output (with dropout also mask and its output)."""
    if strategy.flash_attention:
        return local.sequences * local.heads * local.q_len * DTYPE_BYTE["fp32"]
    e = recipe.precision.byte("activation")
    return local.sequences * local.heads * local.q_len * local.kv_len * (2 * e + 1 if recipe.dropout else e)


def kept_activations(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Bytes one layer keeps under the recompute policy: all, all but the attention core, or only its input."""
    if strategy.recompute == "full":
        return local.region_tokens * model.hidden_size * recipe.precision.byte("activation")
    core = attention_activations(recipe, strategy, local) if strategy.recompute == "selective" else 0.0
    return layer_activations(model, recipe, strategy, local) - core


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


def logits_bytes(recipe: Recipe, strategy: Strategy, local: Local) -> Num:
    """Bytes of the logits and what the loss makes of them: an fp32 copy that becomes the gradient, and unfused another for the gradient."""
    e = recipe.precision.byte("activation")
    per_logit = e + DTYPE_BYTE["fp32"] * (1 if strategy.build.fused_cross_entropy else 2)
    return local.tokens * local.vocab * per_logit


def stage_memory(
    model: Model, recipe: Recipe, strategy: Strategy, local: Local, stage: Stage, params: Num, layer_params: Num
) -> Mapping[str, Num]:
    """Bytes held by a rank of ``stage`` at the peak, by cause; the causes add up to the peak.

    Parameters
    ----------
    params
        Parameters of the rank before ZeRO sharding.
    layer_params
        Parameters of the rank's part of one layer.

    Notes
    -----
    The peak is taken in the backward pass of the oldest microbatch in flight: all stored activations are still there, and one layer's
    tensors are being made again or have their gradients beside them. ``working`` counts only what exceeds the logits, which the
    last stage frees before its layers' backward pass. With activations offloaded only two layers' stay: one in use, one on its way.
    """
    e, h = recipe.precision.byte("activation"), model.hidden_size
    flying = in_flight(strategy, stage.first)
    mask = 1.0 if recipe.dropout else 0.0
    region = local.region_tokens * h
    resident = stage.num_layers if strategy.activation_offload == "none" else min(stage.num_layers, 2)
    layers = resident * kept_activations(model, recipe, strategy, local)
    ends = stage.embedding * region * (mask + (e if model.embedding_norm else 0.0)) + stage.head * region * 2 * e
    logits = stage.head * logits_bytes(recipe, strategy, local)
    width = local.ffn * (2 if model.gated_mlp else 1)
    gradients = local.tokens * e * (width + local.ffn) + region * e
    again = layer_activations(model, recipe, strategy, local) if strategy.recompute == "full" else 0.0
    core = attention_activations(recipe, strategy, local) if strategy.recompute == "selective" else 0.0
    boundary = min(strategy.pp - 1, 1) * 2 * region * e
    return {
        **model_states(
            params,
            recipe,
            zero=strategy.zero,
            shards=strategy.dp * strategy.cp,
            offload=strategy.optimizer_offload,
            parameter_offload=strategy.parameter_offload,
            offload_master=strategy.offload_master,
        ),
        "activations": flying * (layers + ends),
        "logits": logits,
        "working": maximum(again + core + gradients - logits, 0.0),
        "gathered": gathered_bytes(layer_params, params, recipe, strategy),
        "offload_buffers": offload_buffer_bytes(layer_params, recipe, strategy),
        "pipeline_buffers": boundary,
    }


def gathered_bytes(layer_params: Num, params: Num, recipe: Recipe, strategy: Strategy) -> Num:
    """ZeRO-2 and 3 buffers [bytes]: gathered weights (stage 3), and one layer's gradients before they are scattered.

    Gathered are the layer in use and the next one; up to ``live_params`` of the rank's ``params`` where the software leaves
    what it has gathered until that limit (DeepSpeed's ``stage3_max_live_parameters``, 1e9 as it comes).
    """
    weights, grads = recipe.precision.byte("weights"), recipe.precision.byte("grads")
    gathered = maximum(2 * layer_params, minimum(strategy.live_params, params)) if strategy.zero >= 3 else 0.0
    return gathered * weights + layer_params * (grads if strategy.zero >= 2 else 0.0)


def offload_buffer_bytes(layer_params: Num, recipe: Recipe, strategy: Strategy) -> Num:
    """Buffers for weights that stay outside the chip [bytes]: the layer in use and the next one on its way; shards of them at stage 3,
    where the whole layers are counted as gathered."""
    shards = strategy.dp * strategy.cp if strategy.zero >= 3 else 1
    return 2 * layer_params * strategy.parameter_offload * recipe.precision.byte("weights") / shards


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
