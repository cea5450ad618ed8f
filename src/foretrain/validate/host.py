"""The host's launch times, fitted on measured steps of models so small that the host is what they wait for."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from foretrain.core.record import record
from foretrain.program.lower import lower
from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario
from foretrain.step.step import simulate_step

SYSTEM, STACK = "dgx-a100", "megatron-2021"
MICROSECOND = 1e-6
CHIPS_PER_SERVER = 8
WIRE = "inter_node_bandwidth_gbit_per_s"


@record
class Measured:
    """One measured step [s] of a scenario; ``hidden_size`` and ``num_servers`` decide whether it may be fitted on."""

    id: str
    scenario: Scenario
    measured_s: float
    hidden_size: int
    num_servers: int


def load_steps(path: Path) -> Iterator[Measured]:
    """Rows of a CSV of GPT steps on A100 with full recomputation, fp16 and neither ZeRO nor interleaving.

    Columns: id, layers, hidden, heads, ffn, vocab, seq_len, num_accelerators, nodes, tp, pp, dp, micro_batch, global_batch, step_time_s;
    optional: inter_node_bandwidth_gbit_per_s of a server.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield Measured(
                id=row["id"],
                scenario=_scenario({name: int(float(row[name])) for name in _COLUMNS}, row.get(WIRE, "")),
                measured_s=float(row["step_time_s"]),
                hidden_size=int(row["hidden"]),
                num_servers=int(row["nodes"]),
            )


_COLUMNS = ("layers", "hidden", "heads", "ffn", "vocab", "seq_len", "num_accelerators", "tp", "pp", "dp", "micro_batch", "global_batch")


def _scenario(row: dict[str, int], wire_gbit_per_s: str) -> Scenario:
    """The row's model laid over a GPT of the catalogue, under the plan it was run with; the wire is a server's, shared by its chips."""
    model = {
        "num_layers": row["layers"],
        "hidden_size": row["hidden"],
        "num_heads": row["heads"],
        "num_kv_heads": row["heads"],
        "head_dim": row["hidden"] // row["heads"],
        "ffn_size": row["ffn"],
        "vocab_size": row["vocab"],
        "num_positions": row["seq_len"],
    }
    plan = {name: row[name] for name in ("tp", "pp", "dp", "seq_len")}
    options = {
        **plan,
        "cp": 1,
        "vpp": 1,
        "zero": 0,
        "schedule": "1f1b",
        "recompute": "full",
        "precision": "fp16",
        "stack": STACK,
        "microbatch_size": row["micro_batch"],
        "global_batch_size": row["global_batch"],
    }
    overrides = [f"model.{name}={value}" for name, value in model.items()]
    if wire_gbit_per_s:
        overrides.append(f"system.fabric.tiers.1.byte_per_s={float(wire_gbit_per_s) / CHIPS_PER_SERVER} Gbit/s")
    return open_scenario("megatron-1.7b", SYSTEM, row["num_accelerators"], options, overrides)


def predict_s(case: Measured, kernel_s: float, collective_s: float) -> float:
    """Step time [s] with the given host times."""
    scenario = case.scenario
    stack = dataclasses.replace(scenario.stack, host_kernel_s=kernel_s, host_collective_s=collective_s)
    program, models = lower(scenario.workload, scenario.strategy), scenario.models
    step = simulate_step(program, scenario.cluster, stack, models.compute, models.collective, models.schedule)
    return float(step.time.step_s)


def log_error(cases: Sequence[Measured], kernel_s: float, collective_s: float) -> float:
    """Mean ``|ln(predicted / measured)|``."""
    return sum(abs(math.log(predict_s(case, kernel_s, collective_s) / case.measured_s)) for case in cases) / len(cases)


def fit(cases: Sequence[Measured], grid_us: Iterable[int] = range(0, 110, 10)) -> tuple[float, float, float]:
    """Host seconds per kernel and per collective with the smallest error on a grid of microseconds, and that error."""
    points = [(kernel * MICROSECOND, collective * MICROSECOND) for kernel, collective in product(grid_us, repeat=2)]
    return min(((*point, log_error(cases, *point)) for point in points), key=lambda found: found[2])
