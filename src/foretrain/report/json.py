"""A result as one plain document of finite numbers, text and nulls: the machine-readable report, and the only input of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR
from foretrain.core.numeric import Num
from foretrain.core.verdict import Verdict
from foretrain.program.memory import zero3_states_estimate
from foretrain.report.advice import suggestions
from foretrain.report.sources import kinds, source_list
from foretrain.simulate.result import Bill, Result
from foretrain.simulate.scenario import Scenario
from foretrain.step.fits import verdict
from foretrain.step.memory import Memory
from foretrain.step.step import Step
from foretrain.workload.convnet import ConvNet
from foretrain.workload.counting import largest_layer_parameters, num_parameters
from foretrain.workload.model import Model

ZERO3 = 3
SCHEMA = 1
"""Grows when a documented key changes its meaning or goes away; new keys do not change it."""

NO_INTERVAL = "no interval is computed; the ranges of the input numbers are under sources"

Document = dict[str, Any]


def as_document(scenario: Scenario, result: Result) -> Document:
    """The whole report of one plan.

    Every number is finite or null; ``missing`` lists each null, or family of them, with the reason. A plan that runs out of memory has
    no time and no bill, so ``step``, ``run``, ``energy``, ``cost`` and ``carbon`` keep their keys with null values. The page on
    reports lists all keys.
    """
    answer = verdict(result.step.memory)
    advice = () if answer.ok else suggestions(scenario)
    figures = sections(scenario, result)
    memory = {**figures.pop("memory"), "deepspeed_zero3_states_byte": _deepspeed_states(scenario)}
    document: Document = {
        "schema": SCHEMA,
        "verdict": {"status": answer.status, "ok": answer.ok, "reasons": [*answer.reasons, *advice]},
        "subject": _subject(scenario),
        "program": figures.pop("program"),
        "memory": memory,
        **figures,
        "warnings": list(scenario.warnings),
        "assumptions": [{"field": a.field, "value": _plain(a.value), "reason": a.reason} for a in scenario.assumptions],
        "number_kinds": kinds(scenario.document, scenario.passports),
        "sources": source_list(scenario.document, scenario.passports),
        "scenario": _plain(scenario.document),
    }
    missing = {"*_low, *_high": NO_INTERVAL, **_blank_impossible(document, answer)}
    document = _finite(document, "", missing)
    document["missing"] = [{"path": path, "reason": reason} for path, reason in missing.items()]
    return document


def sections(scenario: Scenario, result: Result) -> Document:
    """The figures of one plan, section by section, as the formulas returned them: floats or traced numbers."""
    return {
        "program": _program(result),
        "memory": _memory(result.step.memory),
        "step": _step(scenario, result.step),
        **_bill(scenario, result.bill, scenario.workload.recipe.tokens),
    }


def dumps(document: Mapping[str, Any]) -> str:
    """The document as JSON text in ASCII, without NaN or Infinity."""
    import json

    return json.dumps(document, indent=2, allow_nan=False)


def with_range(values: Mapping[str, Any], *totals: str) -> Document:
    """``values`` with ``_low`` and ``_high`` (null) after every one of ``totals``.

    >>> with_range({"a_s": 1.0}, "a_s")
    {'a_s': 1.0, 'a_s_low': None, 'a_s_high': None}
    """
    result: Document = {}
    for name, value in values.items():
        result[name] = value
        if name in totals:
            result[f"{name}_low"] = result[f"{name}_high"] = None
    return result


def _subject(scenario: Scenario) -> Document:
    """What was simulated, in the few values that identify it."""
    recipe, strategy, cluster = scenario.workload.recipe, scenario.strategy, scenario.cluster
    names = ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "microbatch_size", "num_microbatches", "zero")
    words = ("sequence_parallel", "recompute", "schedule", "flash_attention", "optimizer_offload", "activation_offload")
    offload = ("parameter_offload", "offload_tier", "offload_update", "live_params")
    return {
        "model": scenario.model_name,
        "system": scenario.system_name,
        "chip": cluster.server.chip.name,
        "num_chips": int(cluster.num_chips),
        "num_servers": -(-int(cluster.num_chips) // int(cluster.server.num_chips)),
        "fabric": cluster.fabric.name,
        "stack": scenario.stack.name,
        "site": scenario.site.name,
        "adapters": f"rank {recipe.lora.rank} on {', '.join(recipe.lora.targets)}" if recipe.lora else "",
        "weights": recipe.precision.weights,
        "dispatcher": strategy.dispatcher if isinstance(scenario.workload.model, Model) and scenario.workload.model.experts else "",
        "sample": "image" if isinstance(scenario.workload.model, ConvNet) else "sequence",
        "seq_len": int(recipe.seq_len),
        "global_batch_size": int(recipe.global_batch_size),
        "tokens": recipe.tokens,
        "num_steps": scenario.num_steps,
        "precision": recipe.precision.math,
        "optimizer": recipe.optimizer,
        **{name: int(getattr(strategy, name)) for name in names},
        **{name: getattr(strategy, name) for name in (*words, *offload)},
    }


def _program(result: Result) -> Document:
    program = result.program
    return {
        "params_total": program.num_parameters,
        "params_active": program.num_active_parameters,
        "model_flop_per_token": program.model_flop / program.tokens_per_step,
        "flop_convention": program.flop_convention,
        "model_flop_per_step": program.model_flop,
        "recompute_flop_per_step": program.recompute_flop,
        "token_per_step": program.tokens_per_step,
        "checkpoint_byte": program.checkpoint_byte,
        "input_byte_per_step": program.input_byte,
        "offload_byte_per_step": program.offload_hidden_byte
        + program.offload_link_byte
        + program.offload_read_byte
        + program.offload_write_byte,
    }


def _memory(memory: Memory) -> Document:
    values = {
        "peak_byte": memory.peak_byte,
        "reserved_byte": memory.reserved_byte,
        "context_byte": memory.context_byte,
        "communicator_byte": memory.communicator_byte,
        "device_byte": memory.device_byte,
        "capacity_byte": memory.capacity_byte,
        "worst_stage": int(memory.worst_stage),
        "peak_moment": memory.peak_moment,
        "parts": dict(memory.parts_byte),
        "tiers": [
            {"name": name, "need_byte": byte, "capacity_byte": capacity_or_none(memory.tier_capacity_byte[name])}
            for name, byte in memory.tier_byte.items()
        ],
        "stages": [
            {"name": name, "peak_byte": peak, "params": memory.stage_params[name]} for name, peak in memory.stages.items()
        ],
    }  # fmt: skip
    return with_range(values, "peak_byte", "reserved_byte", "device_byte")


def capacity_or_none(byte: Num) -> Num | None:
    """A capacity, or nothing where the data do not state one."""
    return byte if math.isfinite(byte) else None


def _deepspeed_states(scenario: Scenario) -> float | None:
    """DeepSpeed's own estimate of model states for a pure ZeRO-3 plan, which users compare with its printed table; else nothing."""
    strategy, model = scenario.strategy, scenario.workload.model
    if strategy.zero < ZERO3 or strategy.world_size != strategy.dp:
        return None
    shares = {"optimizer": strategy.optimizer_offload, "params": strategy.optimizer_offload * strategy.parameter_offload}
    offload = frozenset(name for name, share in shares.items() if share == 1)
    return float(zero3_states_estimate(num_parameters(model), largest_layer_parameters(model), strategy.dp, offload))


def _step(scenario: Scenario, step: Step) -> Document:
    values = {
        "step_s": step.time.step_s,
        "parts": dict(step.time.parts_s),
        "hidden": dict(step.time.hidden_s),
        "bubble_fraction": step.time.bubble_fraction,
        "mfu": step.mfu,
        "hfu": step.hfu,
        "flop_convention": scenario.workload.recipe.flop_convention,
        "peak_flop_per_s": step.peak_flop_per_s,
        "peak_dtype": scenario.workload.recipe.precision.math,
        "model_flop_per_s_per_chip": step.model_flop_per_s_per_chip,
        "token_per_s": step.token_per_s,
        "token_per_s_per_chip": step.token_per_s_per_chip,
        "useful_token_per_s": step.useful_token_per_s,
    }
    return with_range(values, "step_s", "mfu", "hfu", "model_flop_per_s_per_chip", "token_per_s", "token_per_s_per_chip")


def _bill(scenario: Scenario, bill: Bill, tokens: Num) -> Document:
    """Run, energy, cost and carbon, with their intensities per token."""
    run, energy, cost, carbon = bill.run, bill.energy, bill.cost, bill.carbon
    return {
        "run": with_range(
            {
                "wall_s": run.wall_s,
                "chip_hour": run.chip_s / SECOND_PER_HOUR,
                "goodput": run.goodput,
                "phases": [
                    {"purpose": phase.purpose, "duration_s": phase.duration_s, "num_chips": phase.num_chips} for phase in run.phases
                ],
                "num_steps": run.num_steps,
                "num_failures": run.num_failures,
                "checkpoint_interval_s": run.checkpoint_interval_s,
            },
            "wall_s", "chip_hour", "goodput",
        ),
        "energy": with_range(
            {
                "total_j": energy.total_j,
                "parts": dict(energy.parts_j),
                "it_j": energy.it_j,
                "mean_w_per_chip": energy.mean_w_per_chip,
                "peak_w": energy.peak_w,
                "kwh_per_million_token": energy.total_j / J_PER_KWH / tokens * 1e6,
            },
            "total_j", "it_j", "mean_w_per_chip", "peak_w", "kwh_per_million_token",
        ),
        "cost": with_range(
            {
                "total_usd": cost.total_usd,
                "tenure": scenario.prices.tenure,
                "parts": dict(cost.parts_usd),
                "rented_usd": cost.rented_usd,
                "owned_usd": cost.owned_usd,
                "usd_per_chip_hour": cost.usd_per_chip_hour,
                "usd_per_million_token": cost.total_usd / tokens * 1e6,
            },
            "total_usd", "rented_usd", "owned_usd", "usd_per_chip_hour", "usd_per_million_token",
        ),
        "carbon": with_range(
            {
                "total_kg": carbon.total_kg,
                "accounting": scenario.amortisation.accounting,
                "operational_location_kg": carbon.operational_location_kg,
                "operational_market_kg": carbon.operational_market_kg,
                "embodied_kg": carbon.embodied_kg,
                "embodied_boundary": carbon.embodied_boundary,
                "parts": dict(carbon.parts_kg),
                "water_l": carbon.water_l,
                "kg_per_million_token": carbon.total_kg / tokens * 1e6,
            },
            "total_kg", "operational_location_kg", "operational_market_kg", "embodied_kg", "water_l", "kg_per_million_token",
        ),
    }  # fmt: skip


def _blank_impossible(document: Document, answer: Verdict) -> dict[str, str]:
    """Nulls for every number that a plan out of memory cannot have; returns their sections with the reason."""
    if answer.ok:
        return {}
    sections = ("step", "run", "energy", "cost", "carbon")
    for section in sections:
        document[section] = {name: _blank(value) for name, value in document[section].items()}
    return dict.fromkeys(sections, "the plan runs out of memory, so it has no step, no run and no bill")


def _blank(value: Any) -> Any:
    """Words stay; numbers become null, tables of them empty."""
    return value if isinstance(value, str) else {} if isinstance(value, dict) else [] if isinstance(value, list) else None


def _plain(value: Any) -> Any:
    """Nested mappings, lists, text, numbers and nulls only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def _finite(value: Any, path: str, missing: dict[str, str]) -> Any:
    """``value`` with plain numbers; one that is not finite becomes null and its path enters ``missing``."""
    value = _plain(value)
    if isinstance(value, dict):
        return {key: _finite(item, f"{path}.{key}" if path else key, missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, f"{path}.{index}", missing) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        missing[path] = "the formula gives no finite number here"
        return None
    return value
