"""Published training steps as scenarios: every row goes through the door that users use."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

from foretrain.core.record import record
from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario

TERA = 1e12


@record
class Row:
    """One measured step: the scenario it was run with and its time [s]."""

    id: str
    scenario: Scenario
    measured_s: float


def load_rows(table: str) -> list[Row]:
    """All rows of one table of ``catalog/data/measurements``.

    A throughput is turned into a time with the table's own FLOP formula, so that like is compared with like.
    """
    text = files("foretrain.catalog").joinpath("data", "measurements", f"{table}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    common = document["common"]
    rows = []
    for entry in document["rows"]:
        scenario = open_scenario(
            entry["model"],
            common["system"],
            entry["chips"],
            {**common["options"], **entry["options"], "stack": common["stack"]},
            [*common["set"], *entry.get("set", [])],
        )
        measured = float(entry["measured"])
        if document["definition"]["quantity"] == "flop_per_s_per_chip":
            measured = narayanan_flop(scenario) / (measured * TERA * entry["chips"])
        rows.append(Row(id=entry["id"], scenario=scenario, measured_s=measured))
    return rows


def narayanan_flop(scenario: Scenario) -> float:
    """FLOP of one iteration with full recomputation, ``96 B s l h^2 (1 + s / 6h + V / 16 l h)`` (arXiv 2104.04473, equation 3)."""
    model, recipe = scenario.workload.transformer, scenario.workload.recipe
    batch, s, layers, h = float(recipe.global_batch_size), float(recipe.seq_len), model.num_layers, model.hidden_size
    return 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + model.vocab_size / (16 * layers * h))
