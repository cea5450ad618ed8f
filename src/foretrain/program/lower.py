"""From a description to a program: model, recipe and plan in; ops, collectives and memory out."""

from __future__ import annotations

from foretrain.core.numeric import Num, maximum, positive
from foretrain.program import layers
from foretrain.program.communication import (
    context_parallel,
    groups,
    once_per_step,
    pipeline_transfer,
    sharded_weights,
    tensor_parallel,
)
from foretrain.program.layers import Local, local_shapes
from foretrain.program.memory import OPTIMIZER_MOMENTS, in_flight, kept_activations, stage_memory
from foretrain.program.offload import block_offload, optimizer_offload, tier_bytes
from foretrain.program.optimizer import optimizer_ops
from foretrain.program.program import Block, Collective, Program, StageKind
from foretrain.program.sharding import end_parameters_per_rank, layer_parameters_per_rank, table_parameters_per_rank
from foretrain.strategy.layout import Stage, lay_out
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import model_flop, num_parameters, packing_efficiency
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe, Workload

PEAK_MOMENT = "backward pass of the oldest microbatch in flight"


def lower(workload: Workload, strategy: Strategy) -> Program:
    """The program of one optimizer step.

    ``pp``, ``vpp``, schedule, recomputation, ZeRO stage, precision and build choose the path; all other degrees, batch sizes and the
    sequence length may be arrays over candidates and flow through it.
    """
    model, recipe = workload.model, workload.recipe
    local = local_shapes(model, recipe, strategy)
    per_layer = layer_parameters_per_rank(model, strategy.tp)
    windows = tuple(dict.fromkeys(model.windows))
    stages = lay_out(model.num_layers, model.windows, strategy.pp, strategy.stage_layers)
    blocks = (
        *(_layer_block(model, recipe, strategy, local, window, per_layer) for window in windows),
        _embedding_block(model, recipe, strategy, local),
        _head_block(model, recipe, strategy, local),
    )
    kinds = tuple(_stage_kind(model, recipe, strategy, local, stage, per_layer, len(windows)) for stage in stages)
    heaviest: Num = 0.0
    for kind in kinds:
        heaviest = maximum(heaviest, kind.params)
    offload = optimizer_offload(heaviest, recipe, strategy)
    longest = max(stage.num_layers for stage in stages)
    kept = longest * kept_activations(model, recipe, strategy, local)
    streamed = block_offload(heaviest, kept, recipe, strategy)
    sequences = strategy.microbatch_size * strategy.num_microbatches * strategy.dp
    tokens_per_step = recipe.seq_len * sequences
    parameters = num_parameters(model)
    flop = model_flop(model, recipe.seq_len, sequences, recipe.flop_convention, recipe.document_lens)
    return Program(
        blocks=blocks,
        stages=kinds,
        once=optimizer_ops(heaviest, recipe, strategy),
        step_collectives=tuple(
            once_per_step(heaviest, table_parameters_per_rank(model, strategy.tp), model.tied_embeddings, recipe, strategy)
        ),
        transfers=pipeline_transfer(model, recipe, strategy, local),
        num_microbatches=strategy.num_microbatches,
        pp=strategy.pp,
        vpp=strategy.vpp,
        overlap_p2p=strategy.overlap_p2p and strategy.vpp > 1,
        graph_capture=strategy.build.graph_capture,
        world_size=strategy.world_size,
        tokens_per_step=tokens_per_step,
        num_parameters=parameters,
        num_active_parameters=parameters,
        useful_tokens_per_step=tokens_per_step * packing_efficiency(recipe.seq_len, recipe.document_lens),
        model_flop=flop,
        recompute_flop=recompute_flop(model, recipe, strategy, flop, tokens_per_step),
        offload_host_byte=offload.host_byte,
        offload_host_flop=offload.host_flop,
        offload_link_byte=offload.link_byte,
        offload_read_byte=offload.read_byte,
        offload_write_byte=offload.write_byte,
        offload_hidden_byte=sum(move.read_byte + move.write_byte for move in streamed) * strategy.num_microbatches,
        offload_tier=strategy.offload_tier,
        tier_byte=tier_bytes(heaviest, in_flight(strategy, 0) * kept, recipe, strategy),
        input_byte=tokens_per_step * recipe.input_byte_per_token,
        checkpoint_byte=parameters * sum(recipe.precision.byte(part) for part in ("weights", "master"))
        + parameters * recipe.precision.byte("moments") * OPTIMIZER_MOMENTS[recipe.optimizer],
        num_communicators=num_communicators(strategy),
        peak_moment=PEAK_MOMENT,
        math_dtype=recipe.precision.math,
        flop_convention=recipe.flop_convention,
    )


def recompute_flop(model: Model, recipe: Recipe, strategy: Strategy, flop: Num, tokens_per_step: Num) -> Num:
    """FLOP executed again.

    A third of the model FLOP (one more forward pass) in full, the attention core's forward pass in selective recomputation. The
    attention core is 4 h s per layer and token (2 h s causal); a fused kernel keeps no scores, so selective has nothing to repeat.
    """
    if strategy.recompute == "full":
        return flop / 3.0
    if strategy.recompute == "selective" and not strategy.flash_attention:
        return 4.0 * model.num_layers * model.num_heads * model.head_dim * recipe.seq_len * tokens_per_step
    return 0.0 * flop


def num_communicators(strategy: Strategy) -> Num:
    """Communicators one rank belongs to: one for every axis with more than one rank, each with memory of its own."""
    count: Num = 0.0
    for name, group in groups(strategy).items():
        count = count + positive(group.size - 1) * (name != "ends")
    return count


def _layer_block(model: Model, recipe: Recipe, strategy: Strategy, local: Local, window: int, params: Num) -> Block:
    collectives: list[Collective] = [
        *tensor_parallel(model, recipe, strategy, local, 1 if model.parallel_block else 2, again=strategy.recompute == "full"),
        *context_parallel(model, recipe, strategy, local),
        *sharded_weights(params, recipe, strategy),
    ]
    name = f"layer (window {window})" if window else "layer"
    moves = block_offload(params, kept_activations(model, recipe, strategy, local), recipe, strategy)
    return Block(name=name, ops=layers.layer(model, recipe, strategy, window), collectives=tuple(collectives), offload=moves)


def _embedding_block(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Block:
    """The vocabulary-parallel look-up sums its partial rows over tp, forward only."""
    forward = [call for call in tensor_parallel(model, recipe, strategy, local, 1, again=False) if call.phase == "forward"]
    reduce = forward[-1:]
    table = table_parameters_per_rank(model, strategy.tp)
    gathered = sharded_weights(table, recipe, strategy)
    moves = block_offload(table, 0.0, recipe, strategy)
    return Block(name="embedding", ops=layers.embedding(model, recipe, strategy), collectives=(*reduce, *gathered), offload=moves)


def _head_block(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Block:
    """The vocabulary-parallel head gathers its input (sequence parallel) and reduces its input's gradient over tp."""
    calls = tensor_parallel(model, recipe, strategy, local, 1, again=False)
    gather = [call for call in calls if call.phase == "forward" and call.op == "all_gather"]
    backward = [call for call in calls if call.phase == "backward" and call.op != "all_gather"]
    table = table_parameters_per_rank(model, strategy.tp)
    gathered = sharded_weights(table, recipe, strategy)
    moves = block_offload(table, 0.0, recipe, strategy)
    return Block(name="head", ops=layers.head(model, recipe, strategy), collectives=(*gather, *backward, *gathered), offload=moves)


def _stage_kind(
    model: Model, recipe: Recipe, strategy: Strategy, local: Local, stage: Stage, per_layer: Num, num_windows: int
) -> StageKind:
    """One stage: its layers by window, then embedding and head if it owns them."""
    params = stage.num_layers * per_layer + end_parameters_per_rank(model, strategy.tp, embedding=stage.embedding, head=stage.head)
    repeats = (
        *((index, count) for index, count in enumerate(stage.layers) if count),
        *(((num_windows, 1),) if stage.embedding else ()),
        *(((num_windows + 1, 1),) if stage.head else ()),
    )
    last = stage.first + stage.count - 1
    return StageKind(
        name=f"stage {stage.first}" if stage.count == 1 else f"stages {stage.first}-{last}",
        first=stage.first,
        count=stage.count,
        repeats=repeats,
        params=params,
        memory_byte=stage_memory(model, recipe, strategy, local, stage, params, per_layer),
    )
