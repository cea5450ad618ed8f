"""Work done once per step: gradient norm and the optimizer's update."""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num
from foretrain.program.memory import moment_byte
from foretrain.program.op import Ops
from foretrain.program.rows import Rows
from foretrain.program.sharding import Held, trained_shard
from foretrain.strategy.strategy import Strategy
from foretrain.workload.recipe import Recipe

UNFUSED_PASSES = 3.0
"""An optimizer written as a chain of elementwise kernels moves its states about three times as often as a fused one (assumption, range
2 to 5: the number of temporaries of Adam's update as written in PyTorch's foreach implementation)."""
Matrix = tuple[int, int, Num, bool]
NEWTON_SCHULZ_STEPS = 5.0
"""Iterations of Muon's orthogonalisation (Jordan et al., Muon, 2024; kept by Liu et al., arXiv 2502.16982, section 2.1)."""


def update_byte(recipe: Recipe) -> float:
    """Bytes read and written per parameter by a fused update: gradient, master copy and moments in, master, moments and weight out."""
    precision = recipe.precision
    master = precision.byte("master") or precision.byte("weights")
    written = precision.byte("weights") if precision.byte("master") else 0.0
    return precision.byte("grads") + 2 * master + 2 * moment_byte(recipe) + written


def optimizer_ops(held: Held, matrices: Sequence[Matrix], recipe: Recipe, strategy: Strategy) -> Ops:
    """The update of the rank's shard; what the host updates (``program.offload``) is not among it.

    A fused update reads gradient, master copy and moments and writes master, moments and the 16-bit weight. The gradient norm reads all
    gradients once more, and clearing the gradient buffer writes it. Muon also orthogonalises every matrix.

    Parameters
    ----------
    matrices
        Rows, columns and number of a stage's matrices, whole and before any rank's share, and whether they are of experts.
    """
    precision = recipe.precision
    own = trained_shard(held, strategy, 1)
    kept = 1.0 - strategy.optimizer_offload * (1.0 if strategy.offload_update == "host" else 0.0)
    rows = Rows()
    rows.stream("gradient norm", "backward", own * precision.byte("grads"))
    rows.stream("optimizer", "backward", own * kept * update_byte(recipe) * (1.0 if strategy.build.fused_optimizer else UNFUSED_PASSES))
    rows.stream("clear gradients", "backward", trained_shard(held, strategy, 2) * precision.byte("grads"))
    if recipe.optimizer == "muon":
        _orthogonalise(rows, matrices, strategy)
    return rows.ops(strategy.build.attention_kernel)


def _orthogonalise(rows: Rows, matrices: Sequence[Matrix], strategy: Strategy) -> None:
    """Newton-Schulz: per step ``A = X X'``, ``B = b A + c A A`` and ``X = a X + B X``, in bf16, on the smaller side of each matrix.

    Every matrix is gathered whole and done by one of the ranks that share it (Liu et al., arXiv 2502.16982, section 2.3).
    """
    sharded = strategy.zero >= 1
    e = DTYPE_BYTE["bf16"]
    for inputs, outputs, number, of_experts in matrices:
        shared = strategy.dp * strategy.cp / strategy.dp_replicate
        shards = (
            (strategy.expert_replicas * strategy.etp * strategy.ep if sharded else strategy.etp * strategy.ep)
            if of_experts
            else (strategy.tp * (shared if sharded else 1))
        )
        m, n = 1.0 * min(inputs, outputs), 1.0 * max(inputs, outputs)
        batch = NEWTON_SCHULZ_STEPS * number / shards
        rows.matmul("muon X X'", "backward", "bf16", m, m, n, batch, batch * (2 * m * n + m * m) * e)
        rows.matmul("muon A A", "backward", "bf16", m, m, m, batch, batch * 3 * m * m * e)
        rows.matmul("muon B X", "backward", "bf16", m, n, m, batch, batch * (2 * m * n + m * m) * e)
