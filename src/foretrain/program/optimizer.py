"""Work done once per step: gradient norm and the optimizer's update."""

from __future__ import annotations

from foretrain.core.numeric import Num
from foretrain.program.memory import OPTIMIZER_MOMENTS
from foretrain.program.op import Ops
from foretrain.program.rows import Rows
from foretrain.strategy.strategy import Strategy
from foretrain.workload.recipe import Recipe

UNFUSED_PASSES = 3.0
"""An optimizer written as a chain of elementwise kernels moves its states about three times as often as a fused one (assumption, range
2 to 5: the number of temporaries of Adam's update as written in PyTorch's foreach implementation)."""


def update_byte(recipe: Recipe) -> float:
    """Bytes read and written per parameter by a fused update: gradient, master copy and moments in, master, moments and weight out."""
    precision = recipe.precision
    master = precision.byte("master") or precision.byte("weights")
    written = precision.byte("weights") if precision.byte("master") else 0.0
    return precision.byte("grads") + 2 * master + 2 * OPTIMIZER_MOMENTS[recipe.optimizer] * precision.byte("moments") + written


def optimizer_ops(params: Num, recipe: Recipe, strategy: Strategy) -> Ops:
    """Adam or SGD on the rank's shard of ``params`` parameters.

    What the host updates (``program.offload``) is not among them. A fused update reads gradient, master copy and moments and writes
    master, moments and the 16-bit weight. The gradient norm reads all gradients once more, and clearing the gradient buffer writes it.
    """
    precision = recipe.precision
    shards = strategy.dp * strategy.cp if strategy.zero >= 1 else 1
    update = update_byte(recipe)
    on_host = strategy.optimizer_offload * (1.0 if strategy.offload_update == "host" else 0.0)
    kept = 1.0 - on_host
    held = params / (strategy.dp * strategy.cp if strategy.zero >= 2 else 1)
    rows = Rows()
    rows.stream("gradient norm", "backward", params / shards * precision.byte("grads"))
    rows.stream("optimizer", "backward", params / shards * kept * update * (1.0 if strategy.build.fused_optimizer else UNFUSED_PASSES))
    rows.stream("clear gradients", "backward", held * precision.byte("grads"))
    return rows.ops(strategy.build.attention_kernel)
