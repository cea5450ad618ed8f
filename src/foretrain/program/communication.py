"""Which axis talks, how much, and what it may hide under."""

from __future__ import annotations

from typing import Literal

from foretrain.core.numeric import Num, minimum, positive
from foretrain.program.layers import Local
from foretrain.program.op import Phase
from foretrain.program.program import Collective, CollectiveOp, Group
from foretrain.strategy.mesh import strides
from foretrain.strategy.strategy import Strategy
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe

Hide = Literal["none", "matmul", "attention", "phase"]


def groups(strategy: Strategy) -> dict[str, Group]:
    """One group per axis that talks.

    ``shard`` is what ZeRO and gradient reduction run over: data and context parallel ranks together, which hold the same weights
    (Megatron-LM's dp-cp group); ``ends`` joins the first and the last pipeline stage, which share tied embeddings.
    """
    mesh = strides(strategy)
    tp, cp, dp, pp = (Group(axis=axis, size=mesh[axis][0], stride=mesh[axis][1]) for axis in ("tp", "cp", "dp", "pp"))
    from_pp = 1 if strategy.pp == 1 else 2
    return {
        "tp": tp,
        "cp": cp,
        "shard": Group(axis="dp", size=dp.size * cp.size, stride=minimum(cp.stride, dp.stride)),
        "next": Group(axis="pp", size=from_pp, stride=pp.stride),
        "ends": Group(axis="pp", size=from_pp, stride=pp.stride * (strategy.pp - 1)),
    }


def tensor_parallel(model: Model, recipe: Recipe, strategy: Strategy, local: Local, pairs: int, *, again: bool) -> list[Collective]:
    """Collectives of ``pairs`` column-then-row pairs of linear layers over the tensor-parallel group.

    Without sequence parallelism each pair all-reduces its output forward and its input gradient backward (Shoeybi et al.,
    arXiv 1909.08053, section 3). With it, all-gather and reduce-scatter take their place, and the backward pass gathers the stored
    input once more, under the input-gradient GEMM (Korthikanti et al., arXiv 2205.05198, section 4.2.2). ``again``: the forward
    ones run once more in full recomputation.
    """
    group = groups(strategy)["tp"]
    payload = local.tokens * model.hidden_size * recipe.precision.byte("activation")
    hide: Hide = "matmul" if strategy.overlap_tp else "none"
    forward: tuple[CollectiveOp, ...] = ("all_gather", "reduce_scatter") if strategy.sequence_parallel else ("all_reduce",)
    phases: tuple[Phase, ...] = ("forward", "recompute", "backward") if again else ("forward", "backward")
    result = [_call(f"tp {op}", op, group, payload, pairs, phase, hide) for phase in phases for op in forward]
    if strategy.sequence_parallel:
        result.append(_call("tp regather", "all_gather", group, payload, pairs, "backward", "matmul"))
    return result


def context_parallel(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> list[Collective]:
    """Ring attention (Liu et al., arXiv 2310.01889): keys and values go once round the ring forward, they and their gradients backward.

    Each of the cp - 1 steps moves the rank's own part; as one call per pass the payload is the part times (cp - 1).
    """
    group = groups(strategy)["cp"]
    part = local.sequences * local.q_len * 2 * local.kv_heads * model.head_dim * recipe.precision.byte("activation")
    once = group.size - 1
    rerun = strategy.recompute == "full"
    neighbours = Group(axis="cp", size=1 + positive(once), stride=group.stride)
    return [
        _call("cp ring", "send_recv", neighbours, part, once, "forward", "attention"),
        *((_call("cp ring", "send_recv", neighbours, part, once, "recompute", "attention"),) if rerun else ()),
        _call("cp ring", "send_recv", neighbours, 2 * part, once, "backward", "attention"),
    ]


def sharded_weights(params: Num, recipe: Recipe, strategy: Strategy) -> list[Collective]:
    """ZeRO 2 and 3 traffic of one block and microbatch (Rajbhandari et al., arXiv 1910.02054, section 7).

    ZeRO-3 gathers the weights before the forward and again before the backward pass; ZeRO-2 and 3 reduce-scatter gradients after every
    microbatch, because no rank keeps them whole.
    """
    group = groups(strategy)["shard"]
    weights, grads = params * recipe.precision.byte("weights"), params * recipe.precision.byte("grads")
    gather: Hide = "phase" if strategy.overlap_param_gather else "none"
    scatter: Hide = "phase" if strategy.overlap_grad_reduce else "none"
    result: list[Collective] = []
    if strategy.zero >= 3:
        result.append(_call("dp gather", "all_gather", group, weights, 1, "forward", gather))
        result.append(_call("dp gather", "all_gather", group, weights, 1, "backward", gather))
    if strategy.zero >= 2:
        result.append(_call("dp reduce", "reduce_scatter", group, grads, 1, "backward", scatter))
    return result


def once_per_step(params: Num, embedding_params: Num, tied: bool, recipe: Recipe, strategy: Strategy) -> list[Collective]:
    """Gradients (and with ZeRO-1 and 2, weights) over the data-parallel ranks, and tied embeddings over the pipeline's two ends.

    ``phase`` says what they may hide under: gradients under the last backward pass, weights under the first forward pass.
    """
    group = groups(strategy)["shard"]
    weights, grads = params * recipe.precision.byte("weights"), params * recipe.precision.byte("grads")
    gather: Hide = "phase" if strategy.overlap_param_gather else "none"
    reduce: Hide = "phase" if strategy.overlap_grad_reduce else "none"
    result: list[Collective] = []
    if strategy.zero == 0:
        result.append(_call("dp reduce", "all_reduce", group, grads, 1, "backward", reduce))
    if strategy.zero == 1:
        result.append(_call("dp reduce", "reduce_scatter", group, grads, 1, "backward", reduce))
    if strategy.zero in (1, 2):
        result.append(_call("dp gather", "all_gather", group, weights, 1, "forward", gather))
    if tied:
        payload = embedding_params * recipe.precision.byte("grads")
        result.append(_call("tied embedding", "all_reduce", groups(strategy)["ends"], payload, 1, "backward", "none"))
    return result


def pipeline_transfer(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> tuple[Collective, ...]:
    """One activation (or gradient) from a stage to the next.

    Outside the sequence-parallel region every tensor-parallel rank holds the same tensor; with scatter/gather each sends its part and
    the receivers gather it over NVLink (Narayanan et al., arXiv 2104.04473, section 4.1).
    """
    all_groups = groups(strategy)
    cut = strategy.sequence_parallel or strategy.build.scatter_gather_p2p
    payload = local.tokens * model.hidden_size * recipe.precision.byte("activation")
    send = _call("pp send", "send_recv", all_groups["next"], payload / (strategy.tp if cut else 1), 1, "forward", "none")
    if strategy.build.scatter_gather_p2p and not strategy.sequence_parallel:
        pp_is_used = min(strategy.pp - 1, 1)
        return send, _call("pp gather", "all_gather", all_groups["tp"], payload, pp_is_used, "forward", "none")
    return (send,)


def _call(name: str, op: CollectiveOp, group: Group, payload_byte: Num, count: Num, phase: Phase, hidden_under: Hide) -> Collective:
    return Collective(name=name, op=op, group=group, payload_byte=payload_byte, count=count, phase=phase, hidden_under=hidden_under)
