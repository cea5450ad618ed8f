"""Parameters held by one rank, and by which rank."""

from __future__ import annotations

from foretrain.core.numeric import Num
from foretrain.program.layers import kv_heads_per_rank
from foretrain.workload.counting import embedding_parameters, final_norm_parameters, layer_parts
from foretrain.workload.model import Model


def layer_parameters_per_rank(model: Model, tp: Num) -> Num:
    """Parameters of one layer on one of ``tp`` ranks: matrices are cut, norms and the biases after a row-parallel layer are copied.

    Key and value heads are copied once tp exceeds their number. With ``tp = 1`` it is ``counting.layer_parameters``.
    """
    parts = layer_parts(model)
    copied_heads = kv_heads_per_rank(model, tp) - model.num_kv_heads / tp
    per_head = 2 * (model.hidden_size + model.qkv_bias) + (model.qk_norm == "full")
    return (parts.qkv + parts.output + parts.mlp) / tp + parts.replicated + copied_heads * model.head_dim * per_head


def table_parameters_per_rank(model: Model, tp: Num) -> Num:
    """The rank's rows of the token table."""
    return model.vocab_size / tp * model.hidden_size


def end_parameters_per_rank(model: Model, tp: Num, *, embedding: bool, head: bool) -> Num:
    """Parameters of embedding and head on the stage that owns them: tables are cut, positions and norms copied.

    A pipeline's last stage keeps its own copy of a tied table; on a single stage the head uses the embedding's.
    """
    table = table_parameters_per_rank(model, tp)
    copied = embedding_parameters(model) - model.vocab_size * model.hidden_size
    own_table = head and not (embedding and model.tied_embeddings)
    last = head * (final_norm_parameters(model) + model.head_bias * model.vocab_size / tp)
    return embedding * (table + copied) + own_table * table + last
