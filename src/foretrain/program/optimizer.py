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


def offload_bytes(params: Num, recipe: Recipe, strategy: Strategy) -> tuple[Num, Num]:
    """Bytes per step that an optimizer on the host moves in host memory, and between chip and host (gradients down, weights up).

    Linear in the offloaded share, as ZeRO-Offload's design has it (Ren et al., arXiv 2101.06840, section 4).
    """
    moved = params / (strategy.dp * strategy.cp if strategy.zero >= 1 else 1) * strategy.optimizer_offload
    return moved * update_byte(recipe), moved * (recipe.precision.byte("grads") + recipe.precision.byte("weights"))


def optimizer_ops(params: Num, recipe: Recipe, strategy: Strategy) -> Ops:
    """Adam or SGD on the rank's shard of ``params`` parameters.

    A fused update reads gradient, master copy and moments and writes master, moments and the 16-bit weight. The gradient norm reads all
    gradients once more, and clearing the gradient buffer writes it.
    """
    precision = recipe.precision
    shards = strategy.dp * strategy.cp if strategy.zero >= 1 else 1
    update = update_byte(recipe)
    kept = 1.0 - strategy.optimizer_offload
    held = params / (strategy.dp * strategy.cp if strategy.zero >= 2 else 1)
    rows = Rows()
    rows.stream("gradient norm", "backward", params / shards * precision.byte("grads"))
    rows.stream("optimizer", "backward", params / shards * kept * update * (1.0 if strategy.build.fused_optimizer else UNFUSED_PASSES))
    rows.stream("clear gradients", "backward", held * precision.byte("grads"))
    return rows.ops(strategy.build.attention_kernel)
