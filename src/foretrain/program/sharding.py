"""Parameters held by one rank, and by which rank."""

from __future__ import annotations

from foretrain.core.numeric import Num
from foretrain.program.layers import kv_heads_per_rank
from foretrain.workload.counting import NORM_PARAMETERS
from foretrain.workload.model import Model


def layer_parameters_per_rank(model: Model, tp: Num) -> Num:
    """Parameters of one layer on one of ``tp`` ranks: matrices are cut, norms and the biases after a row-parallel layer are copied.

    Key and value heads are copied once tp exceeds their number. With ``tp = 1`` it is ``counting.layer_parameters``.
    """
    h, d = model.hidden_size, model.head_dim
    qkv_columns = (model.num_heads / tp + 2 * kv_heads_per_rank(model, tp)) * d
    projection = model.num_heads * d / tp * h
    width = model.ffn_size * (2 if model.gated_mlp else 1) / tp
    biases = model.qkv_bias * qkv_columns + model.attention_output_bias * h + model.mlp_bias * (width + h)
    norms = NORM_PARAMETERS[model.norm] * h * model.norms_per_layer
    qk_norm = {"none": 0.0, "head": 2.0 * d, "full": (model.num_heads / tp + kv_heads_per_rank(model, tp)) * d}[model.qk_norm]
    return h * qkv_columns + projection + h * width + model.ffn_size / tp * h + biases + norms + qk_norm


def table_parameters_per_rank(model: Model, tp: Num) -> Num:
    """The rank's rows of the token table."""
    return model.vocab_size / tp * model.hidden_size


def end_parameters_per_rank(model: Model, tp: Num, *, embedding: bool, head: bool) -> Num:
    """Parameters of embedding and head on the stage that owns them.

    A pipeline's last stage keeps its own copy of a tied table; on a single stage the head uses the embedding's.
    """
    h = model.hidden_size
    norm = NORM_PARAMETERS[model.norm] * h
    table = table_parameters_per_rank(model, tp)
    own_head = head and not (embedding and model.tied_embeddings)
    first = embedding * (table + model.num_positions * h + model.embedding_norm * norm)
    last = head * (model.final_norm * norm + model.head_bias * model.vocab_size / tp)
    return first + last + own_head * table
