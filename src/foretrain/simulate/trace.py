"""A scenario whose numbers remember the field they came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from foretrain.core.traced import Graph
from foretrain.run.run import num_steps
from foretrain.simulate.batch import NUMBERS
from foretrain.simulate.open import ramp_steps
from foretrain.simulate.scenario import Scenario
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet

WORDS = frozenset(
    {
        *(f"strategy.{field.name}" for field in dataclasses.fields(Strategy) if field.name not in NUMBERS),
        "recipe.document_lens",
        "recipe.batch_ramp",
    }
)
"""Fields that choose the path or count its pieces, beside counts and patterns of layers and whole lists of convolutions: they stand as
literals in the formulas."""

Convert = Callable[[str, Any], Any]


def trace(scenario: Scenario) -> Scenario:
    """The same scenario with a leaf of one new graph in place of every number; leaves are named by the paths that ``--set`` takes.

    The numbers of the chosen models are under ``models`` (``models.power.matrix``). Figures of the result are ``Traced`` numbers.
    """
    graph = Graph()
    traced = converted(scenario, graph.leaf)
    recipe = traced.workload.recipe
    steps = num_steps(recipe.tokens, recipe.seq_len * recipe.global_batch_size) + ramp_steps(recipe)
    known = float(steps) == float(scenario.num_steps)
    leaf: Any = steps if known else graph.leaf("num_steps", float(scenario.num_steps))
    return dataclasses.replace(traced, num_steps=leaf)


def converted(scenario: Scenario, convert: Convert) -> Scenario:
    """The scenario with ``convert(path, value)`` in place of every number that flows through the formulas."""
    workload = dataclasses.replace(
        scenario.workload,
        model=_convert(scenario.workload.model, "model", convert),
        recipe=_convert(scenario.workload.recipe, "recipe", convert),
    )
    roots = {"strategy": "strategy", "cluster": "system", "stack": "stack", "site": "site", "prices": "prices"}
    roots |= {"amortisation": "amortisation", "models": "models"}
    changes = {name: _convert(getattr(scenario, name), path, convert) for name, path in roots.items()}
    return dataclasses.replace(scenario, workload=workload, **changes)


def _convert(value: Any, path: str, convert: Convert) -> Any:
    """Records, mappings and tuples of records are walked; words, flags and text stay."""
    if path in WORDS or path.endswith(("_layers", "_layer", ".every")) or isinstance(value, (bool, str, ConvNet)):
        return value
    if isinstance(value, (int, float)):
        return convert(path, value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: _convert(getattr(value, name), f"{path}.{name}", convert) for name in fields})
    if isinstance(value, Mapping):
        return {key: _convert(item, f"{path}.{key}", convert) for key, item in value.items()}
    if isinstance(value, tuple) and all(dataclasses.is_dataclass(item) for item in value):
        return tuple(_convert(item, f"{path}.{index}", convert) for index, item in enumerate(value))
    return value
