"""One plan as one flat row, with the unit at the end of every column's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SUBJECT = (
    "model", "system", "chip", "num_chips", "stack", "site", "seq_len", "global_batch_size", "tokens", "precision",
    "tp", "pp", "vpp", "dp", "cp", "ep", "etp", "microbatch_size", "num_microbatches", "zero", "recompute", "schedule", "sequence_parallel",
)  # fmt: skip
_STEP_PARTS = (
    "matmul", "attention", "memory_bound", "recompute", "host", "tp_exposed", "cp_exposed", "ep_exposed", "pp_exposed",
    "dp_exposed", "bubble", "optimizer", "offload",
)  # fmt: skip
_MEMORY_PARTS = (
    "weights", "gradients", "master", "moments", "weight_copies", "activations", "logits", "working", "gathered", "pipeline_buffers",
)  # fmt: skip

COLUMNS: tuple[tuple[str, str], ...] = (
    *((name, f"subject.{name}") for name in _SUBJECT),
    ("verdict", "verdict.status"),
    ("params_total", "program.params_total"),
    ("params_active", "program.params_active"),
    ("model_flop_per_token", "program.model_flop_per_token"),
    ("flop_convention", "program.flop_convention"),
    ("worst_stage", "memory.worst_stage"),
    ("peak_byte", "memory.peak_byte"),
    ("reserved_byte", "memory.reserved_byte"),
    ("device_byte", "memory.device_byte"),
    ("capacity_byte", "memory.capacity_byte"),
    *((f"memory_{name}_byte", f"memory.parts.{name}") for name in _MEMORY_PARTS),
    ("step_s", "step.step_s"),
    *((f"step_{name}_s", f"step.parts.{name}") for name in _STEP_PARTS),
    ("mfu", "step.mfu"),
    ("hfu", "step.hfu"),
    ("peak_flop_per_s", "step.peak_flop_per_s"),
    ("token_per_s", "step.token_per_s"),
    ("token_per_s_per_chip", "step.token_per_s_per_chip"),
    ("wall_s", "run.wall_s"),
    ("chip_hour", "run.chip_hour"),
    ("goodput", "run.goodput"),
    ("energy_j", "energy.total_j"),
    ("mean_w_per_chip", "energy.mean_w_per_chip"),
    ("peak_w", "energy.peak_w"),
    ("tenure", "cost.tenure"),
    ("cost_usd", "cost.total_usd"),
    ("rented_usd", "cost.rented_usd"),
    ("owned_usd", "cost.owned_usd"),
    ("accounting", "carbon.accounting"),
    ("carbon_kg", "carbon.total_kg"),
    ("operational_location_kg", "carbon.operational_location_kg"),
    ("operational_market_kg", "carbon.operational_market_kg"),
    ("embodied_kg", "carbon.embodied_kg"),
    ("water_l", "carbon.water_l"),
    ("memory_offload_buffers_byte", "memory.parts.offload_buffers"),
    ("step_host_optimizer_s", "step.parts.host_optimizer"),
)
"""Column name and its path in the document. New columns are added at the end; names and order stay."""


def row(document: Mapping[str, Any]) -> list[Any]:
    """The values of one plan in the order of ``COLUMNS``; what the plan does not have is empty."""
    return [_value(document, path) for _, path in COLUMNS]


def _value(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document.get(key)
        if document is None:
            return ""
    return document


def dumps(documents: Sequence[Mapping[str, Any]]) -> str:
    """A header line and one line per document, comma-separated, quoted where needed."""
    import csv
    import io

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([name for name, _ in COLUMNS])
    writer.writerows(row(document) for document in documents)
    return stream.getvalue()
