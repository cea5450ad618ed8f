"""From a description to a program: model, recipe and plan in; ops, collectives and memory out."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache, reduce

from foretrain.core.numeric import Num, first_largest
from foretrain.program import layers
from foretrain.program.communication import (
    context_parallel,
    expert_parallel,
    layer_widths,
    num_communicators,
    once_per_step,
    pipeline_transfer,
    sharded_weights,
    tensor_parallel,
)
from foretrain.program.convolutions import lower_convnet
from foretrain.program.layers import Local, local_shapes
from foretrain.program.memory import in_flight, kept_activations, saved_byte, stage_memory
from foretrain.program.offload import block_offload, offload_fields
from foretrain.program.optimizer import Matrix, optimizer_ops
from foretrain.program.program import Block, Collective, Program, StageKind
from foretrain.program.sharding import Held, ends_held, layer_held, table_parameters_per_rank
from foretrain.strategy.layout import Stage, lay_out
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet
from foretrain.workload.counting import (
    full_attention_flop,
    model_flop,
    num_active_parameters,
    num_parameters,
    num_trained_parameters,
    packing_efficiency,
    part_of,
    passes_back,
    whole_matrices,
)
from foretrain.workload.model import LayerKind, Model, kind_counts, layer_kinds
from foretrain.workload.recipe import Recipe, Workload

PEAK_MOMENT = "backward pass of the oldest microbatch in flight"


def lower(workload: Workload, strategy: Strategy) -> Program:
    """The program of one optimizer step.

    ``pp``, ``vpp``, schedule, recomputation, ZeRO stage, precision and build choose the path; all other degrees, batch sizes and the
    sequence length may be arrays over candidates and flow through it.
    """
    if isinstance(workload.model, ConvNet):
        return lower_convnet(workload.model, workload.recipe, strategy)
    return lower_transformer(workload.model, workload.recipe, strategy)


def lower_transformer(model: Model, recipe: Recipe, strategy: Strategy) -> Program:
    """The program of one optimizer step of a transformer."""
    local = local_shapes(model, recipe, strategy)
    kinds = tuple(kind for kind, _ in kind_counts(model))
    stages = _lay_out(model, strategy.pp, strategy.stage_layers)
    blocks = (
        *(_layer_block(model, recipe, strategy, kind) for kind in kinds),
        _embedding_block(model, recipe, strategy, local),
        _head_block(model, recipe, strategy, local),
    )
    built = [_stage_kind(model, recipe, strategy, stage, kinds) for stage in stages]
    heaviest = _heaviest([held for _, held in built])
    kept = _kept_by_longest_stage(model, recipe, strategy, stages)
    shares = model.tied_embeddings or model.mtp_layers > 0  # the token table stands at both ends of the pipeline
    sequences = strategy.microbatch_size * strategy.num_microbatches * strategy.dp
    tokens_per_step = recipe.seq_len * sequences
    parameters = num_parameters(model)
    flop = model_flop(model, recipe, sequences)
    return Program(
        blocks=blocks,
        stages=tuple(kind for kind, _ in built),
        once=optimizer_ops(heaviest, _matrices(model, strategy), recipe, strategy),
        step_collectives=tuple(once_per_step(heaviest, table_parameters_per_rank(model, strategy.tp), shares, recipe, strategy)),
        transfers=pipeline_transfer(model, recipe, strategy, local),
        num_microbatches=strategy.num_microbatches,
        pp=strategy.pp,
        vpp=strategy.vpp,
        overlap_p2p=strategy.overlap_p2p and strategy.vpp > 1,
        graph_capture=strategy.build.graph_capture,
        world_size=strategy.world_size,
        tokens_per_step=tokens_per_step,
        num_parameters=parameters,
        num_active_parameters=num_active_parameters(model),
        useful_tokens_per_step=tokens_per_step * packing_efficiency(recipe.seq_len, recipe.document_lens),
        model_flop=flop,
        recompute_flop=recompute_flop(model, recipe, strategy, flop, tokens_per_step),
        **offload_fields(heaviest, kept, in_flight(strategy, 0), recipe, strategy),
        input_byte=tokens_per_step * recipe.input_byte_per_token,
        checkpoint_byte=saved_byte(num_trained_parameters(model, recipe), recipe),
        num_communicators=num_communicators(strategy),
        peak_moment=PEAK_MOMENT,
        math_dtype=recipe.precision.math,
        flop_convention=recipe.flop_convention,
    )


@lru_cache(maxsize=1024)
def _lay_out(model: Model, pp: int, stage_layers: tuple[int, ...]) -> tuple[Stage, ...]:
    """The stages of a model, once per group of words."""
    return lay_out(layer_kinds(model), pp, stage_layers)


def recompute_flop(model: Model, recipe: Recipe, strategy: Strategy, flop: Num, tokens_per_step: Num) -> Num:
    """FLOP executed again.

    A third of the model FLOP (one more forward pass) in full, the attention core's forward pass in selective recomputation. The
    attention core is 4 h s per layer and token (2 h s causal); a fused kernel keeps no scores, so selective has nothing to repeat.
    """
    if strategy.recompute == "full":
        return flop / 3.0
    if strategy.recompute == "selective" and not strategy.flash_attention:
        return full_attention_flop(model, recipe.seq_len) / 3.0 * tokens_per_step
    return 0.0 * flop


def _heaviest(held: Sequence[Held]) -> Held:
    """The rank that holds the most parameters, whatever it needs else."""
    weights = first_largest([each.total for each in held])
    return reduce(operator.add, (each * weight for each, weight in zip(held, weights, strict=True)))


def _matrices(model: Model, strategy: Strategy) -> list[Matrix]:
    """The layers' matrices of one stage."""
    return [
        (inputs, outputs, count * number / strategy.pp, kind.experts and model.experts is not None and number == model.experts.num_experts)
        for kind, count in kind_counts(model)
        for inputs, outputs, number in whole_matrices(model, kind)
    ]


def _kept_by_longest_stage(model: Model, recipe: Recipe, strategy: Strategy, stages: Sequence[Stage]) -> Num:
    """Bytes of one microbatch's stored activations on the stage with the most layers."""
    kinds = [kind for kind, _ in kind_counts(model) if not kind.mtp]
    most = max(stages, key=lambda stage: stage.num_layers)
    total: Num = 0.0
    for kind, count in zip(kinds, most.layers, strict=True):
        total = total + count * kept_activations(model, recipe, strategy, local_shapes(model, recipe, strategy, encoder=kind.encoder), kind)
    return total


def _layer_block(model: Model, recipe: Recipe, strategy: Strategy, kind: LayerKind) -> Block:
    local = local_shapes(model, recipe, strategy, encoder=kind.encoder)
    collectives: list[Collective] = [
        *tensor_parallel(recipe, strategy, local, layer_widths(model, kind), again=strategy.recompute == "full"),
        *context_parallel(model, recipe, strategy, local),
        *(expert_parallel(model, recipe, strategy, local) if kind.experts else ()),
        *sharded_weights(layer_held(model, recipe, strategy, kind), recipe, strategy),
    ]
    if not passes_back(model, recipe, part_of(kind)):
        collectives = [call for call in collectives if call.phase == "forward"]
    held = layer_held(model, recipe, strategy, kind)
    moves = block_offload(held, kept_activations(model, recipe, strategy, local, kind), recipe, strategy)
    ops = layers.layer(model, recipe, strategy, kind)
    return Block(name=_block_name(kind), ops=ops, collectives=tuple(collectives), offload=moves)


def _block_name(kind: LayerKind) -> str:
    """``layer``, with what sets the kind apart: ``expert layer (window 4096)``."""
    words = [word for word, holds in (("encoder", kind.encoder), ("mtp", kind.mtp), ("expert", kind.experts)) if holds]
    return " ".join([*words, "layer", *([f"(window {kind.window})"] if kind.window else [])])


def _embedding_block(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Block:
    """The vocabulary-parallel look-up sums its partial rows over tp, forward only."""
    pair = [(1.0 * model.hidden_size, 1.0 * model.hidden_size)]
    forward = [call for call in tensor_parallel(recipe, strategy, local, pair, again=False) if call.phase == "forward"]
    held = ends_held(model, recipe, strategy, embedding=True, head=False)
    calls = (*forward[-1:], *sharded_weights(held, recipe, strategy))
    moves = block_offload(held, 0.0, recipe, strategy)
    return Block(name="embedding", ops=layers.embedding(model, recipe, strategy), collectives=calls, offload=moves)


def _head_block(model: Model, recipe: Recipe, strategy: Strategy, local: Local) -> Block:
    """The vocabulary-parallel head gathers its input (sequence parallel) and reduces its input's gradient over tp."""
    pair = [(1.0 * model.hidden_size, 1.0 * model.hidden_size)]
    calls = tensor_parallel(recipe, strategy, local, pair, again=False)
    gather = [call for call in calls if call.phase == "forward" and call.op == "all_gather"]
    backward = [call for call in calls if call.phase == "backward" and call.op != "all_gather"]
    held = ends_held(model, recipe, strategy, embedding=False, head=True)
    talk = (*gather, *backward, *sharded_weights(held, recipe, strategy))
    moves = block_offload(held, 0.0, recipe, strategy)
    return Block(name="head", ops=layers.head(model, recipe, strategy), collectives=talk, offload=moves)


def _stage_kind(model: Model, recipe: Recipe, strategy: Strategy, stage: Stage, kinds: tuple[LayerKind, ...]) -> tuple[StageKind, Held]:
    """One stage: its layers by kind, then embedding and head if it owns them; and the parameters that one of its ranks holds.

    Modules of multi-token prediction stand on the last stage, each with a pass through embedding and head.
    """
    further = stage.head * model.mtp_layers
    numbers = (*stage.layers, *((further,) if model.mtp_layers else ()))
    own = [(kind, count) for kind, count in zip(kinds, numbers, strict=True) if count]
    table = stage.embedding or (stage.head and model.mtp_layers > 0)  # modules of multi-token prediction embed the next tokens
    ends = ends_held(model, recipe, strategy, embedding=table, head=stage.head)
    held = reduce(operator.add, (layer_held(model, recipe, strategy, kind) * count for kind, count in own), ends)
    repeats = (
        *((index, count) for index, count in enumerate(numbers) if count),
        *(((len(kinds), stage.embedding + further),) if stage.embedding or further else ()),
        *(((len(kinds) + 1, 1 + further),) if stage.head else ()),
    )
    last = stage.first + stage.count - 1
    built = StageKind(
        name=f"stage {stage.first}" if stage.count == 1 else f"stages {stage.first}-{last}",
        first=stage.first,
        count=stage.count,
        repeats=repeats,
        params=held.total,
        memory_byte=stage_memory(model, recipe, strategy, stage, own, held, ends),
    )
    return built, held
