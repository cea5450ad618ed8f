"""Parameters held by one rank, and by which rank."""

from __future__ import annotations

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.program.layers import kv_heads_per_rank
from foretrain.program.program import Group
from foretrain.strategy.strategy import Strategy
from foretrain.workload.counting import (
    embedding_parameters,
    final_norm_parameters,
    head_parameters,
    layer_parts,
    matrix_sizes,
    table_parameters,
)
from foretrain.workload.model import LayerKind, Model
from foretrain.workload.recipe import Lora, Recipe


@record
class Held:
    """Parameters of one rank before ZeRO sharding: all of ``params`` and ``experts``, of which ``trained`` and ``trained_experts`` learn.

    Experts are apart because fewer ranks hold the same ones; ``mixture`` says whether there are any.
    """

    mixture: bool = False

    params: Num = 0.0
    experts: Num = 0.0
    trained: Num = 0.0
    trained_experts: Num = 0.0

    @property
    def total(self) -> Num:
        """Everything the rank holds."""
        return self.params + self.experts

    def __add__(self, other: Held) -> Held:
        """Both."""
        return Held(
            mixture=self.mixture or other.mixture,
            params=self.params + other.params,
            experts=self.experts + other.experts,
            trained=self.trained + other.trained,
            trained_experts=self.trained_experts + other.trained_experts,
        )

    def __mul__(self, factor: Num) -> Held:
        """So many times as much."""
        return Held(
            mixture=self.mixture,
            params=self.params * factor,
            experts=self.experts * factor,
            trained=self.trained * factor,
            trained_experts=self.trained_experts * factor,
        )

    def parts(self, shard: Group, expert_shard: Group) -> tuple[tuple[Group, Num, Num], ...]:
        """Group that shares them, parameters and trained parameters: of the experts last, and only if there are any."""
        rest = (shard, self.params, self.trained)
        return (rest, (expert_shard, self.experts, self.trained_experts)) if self.mixture else (rest,)


def held_shard(held: Held, strategy: Strategy, stage: int) -> Num:
    """Parameters that one rank keeps when ZeRO ``stage`` divides them, experts over their own replicas."""
    return _shard(held.params, held.experts, strategy, stage)


def trained_shard(held: Held, strategy: Strategy, stage: int) -> Num:
    """Those of ``held_shard`` that learn."""
    return _shard(held.trained, held.trained_experts, strategy, stage)


def _shard(rest: Num, experts: Num, strategy: Strategy, stage: int) -> Num:
    if strategy.zero < stage:
        return rest + experts
    return rest / (strategy.dp * strategy.cp / strategy.dp_replicate) + experts / strategy.expert_replicas


def layer_held(model: Model, recipe: Recipe, strategy: Strategy, kind: LayerKind) -> Held:
    """Parameters of one layer on one rank: matrices are cut over tp, norms, routers and the biases after a row-parallel layer are copied.

    Key and value heads are copied once tp exceeds their number. Experts are cut over ep and etp, whatever tp is. Without parallelism it is
    ``counting.layer_parameters``, plus adapters.
    """
    tp = strategy.tp
    parts = layer_parts(model, kind)
    copied_heads = kv_heads_per_rank(model, tp) - model.num_kv_heads / tp if model.latent is None else 0.0
    per_head = 2 * (model.hidden_size + model.qkv_bias) + (model.qk_norm == "full")
    params = (parts.qkv + parts.output + parts.mlp) / tp + parts.replicated + copied_heads * model.head_dim * per_head
    experts = parts.experts / (strategy.ep * strategy.etp)
    mixture = kind.experts
    if recipe.lora is not None:
        adapters, expert_adapters = _adapters(model, recipe.lora, strategy, kind)
        held, routed = params + adapters, experts + expert_adapters
        return Held(mixture=mixture, params=held, experts=routed, trained=adapters, trained_experts=expert_adapters)
    learns = 1.0 * recipe.trains("encoder" if kind.encoder else "layers")
    return Held(mixture=mixture, params=params, experts=experts, trained=params * learns, trained_experts=experts * learns)


def _adapters(model: Model, lora: Lora, strategy: Strategy, kind: LayerKind) -> tuple[Num, Num]:
    """Adapter elements on one rank, beside the shared matrices and beside experts.

    The half that touches a cut side of its matrix is cut with it, the other is copied.
    """
    rest: Num = 0.0
    routed: Num = 0.0
    for name, rows, columns, count in matrix_sizes(model, kind):
        if name in lora.targets:
            of_experts = kind.experts and model.experts is not None and count == model.experts.num_experts
            cut = strategy.etp if of_experts else strategy.tp
            elements = lora.rank * (rows / cut + columns if name in ("o", "down") else rows + columns / cut)
            if of_experts:
                routed = routed + elements * count / strategy.ep
            else:
                rest = rest + elements * count
    return rest, routed


def table_parameters_per_rank(model: Model, tp: Num) -> Num:
    """The rank's rows of the token table."""
    return model.vocab_size / tp * model.hidden_size


def ends_held(model: Model, recipe: Recipe, strategy: Strategy, *, embedding: bool, head: bool) -> Held:
    """Parameters of embedding and head on the stage that owns them: tables are cut, positions and norms copied.

    A pipeline's last stage keeps its own copy of a tied table; on a single stage the head uses the embedding's.
    """
    tp = strategy.tp
    table = table_parameters_per_rank(model, tp)
    copied = embedding_parameters(model) - table_parameters(model)
    first = embedding * (table_parameters(model) / tp + copied)
    own_table = head and not (embedding and model.tied_embeddings)
    beside = (
        head_parameters(model) - (not model.tied_embeddings) * model.vocab_size * model.hidden_size - model.head_bias * model.vocab_size
    )
    last = own_table * table + head * (final_norm_parameters(model) + model.head_bias * model.vocab_size / tp + beside)
    adapters: Num = 0.0
    if recipe.lora is not None and "head" in recipe.lora.targets:
        adapters = head * recipe.lora.rank * (model.hidden_size + model.vocab_size / tp)
    trained = first * recipe.trains("embedding") + last * recipe.trains("head") + adapters
    return Held(params=first + last + adapters, trained=trained)
