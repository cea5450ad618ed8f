"""Which axis talks, how much, and what it may hide under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num, minimum, positive
from foretrain.program.layers import Local, expert_load
from foretrain.program.op import Phase
from foretrain.program.program import Collective, CollectiveOp, Draw, Group
from foretrain.program.sharding import Held
from foretrain.strategy.mesh import strides
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import crosses
from foretrain.workload.model import Experts, LayerKind, Model
from foretrain.workload.recipe import Recipe

Hide = Literal["none", "matmul", "attention", "phase"]


def groups(strategy: Strategy) -> dict[str, Group]:
    """One group per axis that talks.

    ``shard`` is what ZeRO and gradient reduction run over: data and context parallel ranks together, which hold the same weights
    (Megatron-LM's dp-cp group), or the part of them between the replicas of ``dp_replicate``; ``replicas`` joins those. ``ends`` joins the
    first and the last pipeline stage, which share tied embeddings. The ranks of tp, cp and dp are dealt out once more for
    experts: ``etp`` innermost, then ``ep``, and ``expert shard`` joins those that hold the same experts.
    """
    mesh = strides(strategy)
    tp, cp, dp, pp = (Group(axis=axis, size=mesh[axis][0], stride=mesh[axis][1]) for axis in ("tp", "cp", "dp", "pp"))
    from_pp = 1 if strategy.pp == 1 else 2
    shards, inside = dp.size * cp.size / strategy.dp_replicate, minimum(cp.stride, dp.stride)
    return {
        "tp": tp,
        "cp": cp,
        "shard": Group(axis="dp", size=shards, stride=inside),
        "replicas": Group(axis="dp", size=strategy.dp_replicate, stride=inside * shards),
        "etp": Group(axis="ep", size=strategy.etp, stride=tp.stride),
        "ep": Group(axis="ep", size=strategy.ep, stride=tp.stride * strategy.etp),
        "expert shard": Group(axis="dp", size=strategy.expert_replicas, stride=tp.stride * strategy.etp * strategy.ep),
        "next": Group(axis="pp", size=from_pp, stride=pp.stride),
        "ends": Group(axis="pp", size=from_pp, stride=pp.stride * (strategy.pp - 1)),
    }


def num_communicators(strategy: Strategy) -> Num:
    """Communicators one rank belongs to: one for every axis with more than one rank, each with memory of its own."""
    count: Num = 0.0
    experts = positive(strategy.ep - 1)
    for name, group in groups(strategy).items():
        count = count + positive(group.size - 1) * (name != "ends") * (experts if name == "expert shard" else 1.0)
    return count


def tensor_parallel(
    recipe: Recipe, strategy: Strategy, local: Local, widths: Sequence[tuple[Num, Num]], *, again: bool
) -> list[Collective]:
    """Collectives of column-then-row pairs of linear layers over the tensor-parallel group.

    Parameters
    ----------
    widths
        For every pair the elements per token that enter it and that leave it: the hidden size, or less for latent vectors.
    again
        The forward ones run once more in full recomputation.

    Notes
    -----
    Without sequence parallelism each pair all-reduces its output forward and its input gradient backward (Shoeybi et al.,
    arXiv 1909.08053, section 3). With it, all-gather and reduce-scatter take their place, and the backward pass gathers the stored
    input once more, under the input-gradient GEMM (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
    """
    group = groups(strategy)["tp"]
    hide: Hide = "matmul" if strategy.overlap_tp else "none"
    phases: tuple[Phase, ...] = ("forward", "recompute", "backward") if again else ("forward", "backward")
    token_byte = local.tokens * recipe.precision.byte("activation")
    result = []
    for (enter, leave), pairs in Counter(widths).items():
        gather, scatter = token_byte * enter, token_byte * leave
        for phase in phases:
            if strategy.sequence_parallel:
                result.append(_call("tp all_gather", "all_gather", group, gather, pairs, phase, hide))
                result.append(_call("tp reduce_scatter", "reduce_scatter", group, scatter, pairs, phase, hide))
            else:
                result.append(_call("tp all_reduce", "all_reduce", group, scatter, pairs, phase, hide))
        if strategy.sequence_parallel:
            result.append(_call("tp regather", "all_gather", group, gather, pairs, "backward", "matmul"))
    return result


def layer_widths(model: Model, kind: LayerKind) -> list[tuple[Num, Num]]:
    """Elements per token that enter and leave each column-then-row pair of a layer, for ``tensor_parallel``.

    Attention and MLP, one where they run in parallel; latent attention gathers its latent vectors only; experts have no pair of their
    own (their tokens travel instead), a shared expert does.
    """
    h = 1.0 * model.hidden_size
    latent = model.latent
    attention = (h if latent is None else 1.0 * latent.kv_rank + latent.rope_head_dim + (latent.q_rank or model.hidden_size), h)
    mlp = [(h, h)] if not kind.experts or (model.experts and model.experts.shared_ffn_size) else []
    if model.parallel_block:
        return [attention]
    return [attention, *([(h, h)] if crosses(model, kind) else []), *mlp]


def context_parallel(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> list[Collective]:
    """How the ranks of a sequence see each other's keys and values.

    ``ring`` (Liu et al., arXiv 2310.01889): keys and values go once round the ring forward, they and their gradients backward; each of the
    cp - 1 steps moves the rank's own part, under the attention kernels. ``all_gather`` (Llama 3, arXiv 2407.21783, section 3.3.2): they
    are gathered before, their gradients scattered after, and nothing hides it. ``ulysses`` (Jacobs et al., arXiv 2309.14509,
    section 3.2): queries, keys, values and the output exchange heads for tokens.
    """
    group = groups(strategy)["cp"]
    cross = _encoder_output(model, recipe, strategy, local, group)
    e = recipe.precision.byte("activation")
    own = local.sequences * local.kv_len / strategy.cp
    part = own * local.kv_heads * (model.query_dim + model.value_dim) * e
    phases: tuple[Phase, ...] = ("forward", "recompute", "backward") if strategy.recompute == "full" else ("forward", "backward")
    if strategy.context_parallel == "ulysses":
        queries = own * local.heads * (model.query_dim + model.value_dim) * e
        return [*cross, *(_call("cp exchange", "all_to_all", group, queries + part, 1, phase, "none") for phase in phases)]
    if strategy.context_parallel == "all_gather":
        gathers = [_call("cp gather", "all_gather", group, part * strategy.cp, 1, phase, "none") for phase in phases]
        return [*cross, *gathers, _call("cp scatter", "reduce_scatter", group, part * strategy.cp, 1, "backward", "none")]
    once = group.size - 1
    neighbours = Group(axis="cp", size=1 + positive(once), stride=group.stride)
    return cross + [
        _call("cp ring", "send_recv", neighbours, part * (2 if phase == "backward" else 1), once, phase, "attention") for phase in phases
    ]


def _encoder_output(model: Model, recipe: Recipe, strategy: Strategy, local: Local, group: Group) -> list[Collective]:
    """Keys and values that cross-attention makes of the encoder's tokens: every rank needs all of them for its own queries."""
    if not model.encoder_layers:
        return []
    phases: tuple[Phase, ...] = ("forward", "recompute", "backward") if strategy.recompute == "full" else ("forward", "backward")
    whole = local.sequences * local.cross_len * 2 * local.kv_heads * model.head_dim * recipe.precision.byte("activation")
    used = positive(group.size - 1) * positive(local.cross_len)
    ops: dict[Phase, CollectiveOp] = {"forward": "all_gather", "recompute": "all_gather", "backward": "reduce_scatter"}
    return [_call("cp encoder output", ops[phase], group, whole, used, phase, "none") for phase in phases]


def expert_parallel(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> list[Collective]:
    """Tokens to their experts and back, forward and in the other direction backward.

    ``alltoall`` sends a copy of a token for each of its experts (Lepikhin et al., GShard, arXiv 2006.16668, section 3.2). ``deepep``
    sends one to every server that holds any and from there one to every rank that does (DeepSeek-V3, arXiv 2412.19437, section 3.2.2).
    ``allgather`` brings all tokens to all ranks of ep and etp and adds up what they return. The busiest rank receives, and later
    returns, ``expert_load`` times the mean. An expert cut over etp gathers its input from these ranks and scatters its output.
    """
    experts = model.experts
    if experts is None:
        return []
    names = groups(strategy)
    phases: tuple[Phase, ...] = ("forward", "recompute", "backward") if strategy.recompute == "full" else ("forward", "backward")
    hide: Hide = "phase" if strategy.overlap_ep else "none"
    row_byte = model.hidden_size * recipe.precision.byte("activation")
    result: list[Collective] = []
    if strategy.dispatcher == "allgather":
        ranks = Group(axis="ep", size=strategy.ep * strategy.etp, stride=names["etp"].stride)
        gathered = local.region_tokens * ranks.size * row_byte
        for phase in phases:
            result.append(_call("ep gather", "all_gather", ranks, gathered, 1, phase, hide))
            result.append(_call("ep scatter", "reduce_scatter", ranks, gathered, 1, phase, hide))
        return result
    cut = local.expert_tokens * local.local_experts * row_byte
    gathers, load = positive(strategy.etp - 1), expert_load(recipe)
    for phase in phases:
        if strategy.dispatcher == "deepep":
            result.extend(_routed(phase, hide, names["ep"], local, model, experts, recipe))
        else:
            sent = local.sent_tokens * row_byte * load
            result.append(_call("ep exchange", "all_to_all", names["ep"], sent, 2 * positive(strategy.ep - 1), phase, hide))
        result.append(_call("etp gather", "all_gather", names["etp"], cut, gathers, phase, hide))
        result.append(_call("etp scatter", "reduce_scatter", names["etp"], cut, gathers, phase, hide))
    return result


def _routed(phase: Phase, hide: Hide, group: Group, local: Local, model: Model, experts: Experts, recipe: Recipe) -> list[Collective]:
    """Dispatch and combine of one pass: with fp8 products the dispatch carries 8-bit tokens, the combine always wide ones.

    arXiv 2412.19437, section 3.3.3.
    """
    tokens = local.region_tokens * expert_load(recipe) * model.hidden_size
    there = DTYPE_BYTE["fp8"] if recipe.precision.math == "fp8" else recipe.precision.byte("activation")
    used = positive(group.size - 1)
    draw = Draw(
        total=experts.num_experts,
        drawn=experts.experts_per_token,
        groups=experts.num_groups,
        groups_drawn=experts.groups_per_token,
    )
    return [
        replace(_call(f"ep {name}", "dispatch", group, tokens * byte, used, phase, hide), draw=draw)
        for name, byte in (("dispatch", there), ("combine", recipe.precision.byte("activation")))
    ]


def sharded_weights(held: Held, recipe: Recipe, strategy: Strategy) -> list[Collective]:
    """ZeRO 2 and 3 traffic of one block and microbatch (Rajbhandari et al., arXiv 1910.02054, section 7).

    ZeRO-3 gathers the weights before the forward and again before the backward pass; ZeRO-2 and 3 reduce-scatter gradients after every
    microbatch, because no rank keeps them whole. Experts do so over the ranks that hold the same ones.
    """
    names = groups(strategy)
    gather: Hide = "phase" if strategy.overlap_param_gather else "none"
    scatter: Hide = "phase" if strategy.overlap_grad_reduce else "none"
    result: list[Collective] = []
    for group, params, trained in held.parts(names["shard"], names["expert shard"]):
        weights, grads = params * recipe.precision.byte("weights"), trained * recipe.precision.byte("grads")
        if strategy.zero >= 3:
            result.append(_call("dp gather", "all_gather", group, weights, 1, "forward", gather))
            result.append(_call("dp gather", "all_gather", group, weights, 1, "backward", gather))
        if strategy.zero >= 2:
            result.append(_call("dp reduce", "reduce_scatter", group, grads, 1, "backward", scatter))
    return result


def once_per_step(held: Held, embedding_params: Num, tied: bool, recipe: Recipe, strategy: Strategy) -> list[Collective]:
    """Gradients (and with ZeRO-1 and 2, weights) over the data-parallel ranks, and tied embeddings over the pipeline's two ends.

    ``phase`` says what they may hide under: gradients under the last backward pass, weights under the first forward pass. With replicas
    of the shards the scattered gradients are then summed over the replicas (HSDP; Zhao et al., arXiv 2304.11277, section 3.2.2).
    """
    names = groups(strategy)
    gather: Hide = "phase" if strategy.overlap_param_gather else "none"
    reduce: Hide = "phase" if strategy.overlap_grad_reduce else "none"
    result: list[Collective] = []
    for group, _, trained in held.parts(names["shard"], names["expert shard"]):
        weights, grads = trained * recipe.precision.byte("weights"), trained * recipe.precision.byte("grads")
        if strategy.zero == 0:
            result.append(_call("dp reduce", "all_reduce", group, grads, 1, "backward", reduce))
        if strategy.zero == 1:
            result.append(_call("dp reduce", "reduce_scatter", group, grads, 1, "backward", reduce))
        if strategy.zero in (1, 2):
            result.append(_call("dp gather", "all_gather", group, weights, 1, "forward", gather))
    shard_grads = held.trained * recipe.precision.byte("grads") / names["shard"].size
    result.append(_call("dp replicas", "all_reduce", names["replicas"], shard_grads, 1, "backward", reduce))
    if tied:
        payload = embedding_params * recipe.precision.byte("grads")
        result.append(_call("tied embedding", "all_reduce", names["ends"], payload, 1, "backward", "none"))
    return result


def pipeline_transfer(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> tuple[Collective, ...]:
    """One activation (or gradient) from a stage to the next.

    Outside the sequence-parallel region every tensor-parallel rank holds the same tensor; with scatter/gather each sends its part and
    the receivers gather it over NVLink (Narayanan et al., arXiv 2104.04473, section 4.1).
    """
    all_groups = groups(strategy)
    cut = strategy.sequence_parallel or strategy.build.scatter_gather_p2p
    read = strategy.microbatch_size * recipe.encoder_seq_len / strategy.cp  # an encoder's output travels on with the decoder's tokens
    payload = (local.tokens + read) * model.hidden_size * recipe.precision.byte("activation")
    send = _call("pp send", "send_recv", all_groups["next"], payload / (strategy.tp if cut else 1), 1, "forward", "none")
    if strategy.build.scatter_gather_p2p and not strategy.sequence_parallel:
        pp_is_used = min(strategy.pp - 1, 1)
        return send, _call("pp gather", "all_gather", all_groups["tp"], payload, pp_is_used, "forward", "none")
    return (send,)


def _call(name: str, op: CollectiveOp, group: Group, payload_byte: Num, count: Num, phase: Phase, hidden_under: Hide) -> Collective:
    return Collective(name=name, op=op, group=group, payload_byte=payload_byte, count=count, phase=phase, hidden_under=hidden_under)
