"""The device mesh: which ranks talk along each axis."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.core.numeric import Num
from foretrain.strategy.strategy import Strategy


def strides(strategy: Strategy) -> Mapping[str, tuple[Num, Num]]:
    """Size and stride of every mesh axis, innermost first.

    Ranks are numbered so that the first axis of ``strategy.mesh`` varies fastest; the stride of an axis is the product of the sizes of
    all axes inside it. With ``("tp", "cp", "dp", "pp")``, Megatron-LM's order, the ranks of one
    tensor-parallel group are neighbours.

    >>> strides(Strategy(tp=8, pp=2, dp=4))["dp"]
    (4, 8)
    """
    sizes = {"tp": strategy.tp, "cp": strategy.cp, "dp": strategy.dp, "pp": strategy.pp}
    result: dict[str, tuple[Num, Num]] = {}
    stride: Num = 1
    for axis in strategy.mesh:
        result[axis] = (sizes[axis], stride)
        stride = stride * sizes[axis]
    return result
