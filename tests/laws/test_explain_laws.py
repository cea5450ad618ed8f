"""An explanation is the computation: it gives the plain result, and follows every input as a new simulation does."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from foretrain.core.traced import Traced, elasticities, evaluate, leaves, order, plain
from foretrain.report.names import figures
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.simulate.trace import converted, trace
from tests.families import FAMILIES, family
from tests.plans import base, random_plans, with_plan

COUNT = 50
MODELS = ("llama-3.1-70b", "gpt3-175b", "llama-3.1-8b")


def cases(seed: int) -> Iterator[Scenario]:
    """Random valid plans of several models and of every family."""
    for model in MODELS:
        scenario = base(model)
        for plan in random_plans(COUNT // len(MODELS) + 1, seed, scenario):
            yield with_plan(scenario, plan)
    for name in FAMILIES:
        for plan in random_plans(2, seed, family(name)):
            yield with_plan(family(name), plan)


def figures_of(scenario: Scenario) -> dict[str, Any]:
    return figures(scenario, simulate_scenario(scenario))


def by_hand(node: Any, values: dict[int, float]) -> float:
    """The value of an expression from its leaves, by an evaluator of its own."""
    if not isinstance(node, Traced):
        return float(node)
    for inner in order(node):
        numbers = [values[id(operand)] if isinstance(operand, Traced) else float(operand) for operand in inner.operands]
        values[id(inner)] = float(inner.value) if inner.op == "leaf" else OWN[inner.op](*numbers)
    return values[id(node)]


OWN: dict[str, Any] = {
    "+": lambda a, b: math.fsum((a, b)),
    "-": lambda a, b: math.fsum((a, -b)),
    "*": lambda a, b: math.prod((a, b)),
    "/": lambda a, b: a / b,
    "//": lambda a, b: float(math.floor(a / b)),
    "**": lambda a, b: math.exp(b * math.log(a)) if a > 0 else 0.0**b,
    "neg": lambda a: 0.0 - a,
    "max": lambda a, b: max((a, b)),
    "min": lambda a, b: min((a, b)),
    "ceil": math.ceil,
    "log2": math.log2,
    "log1p": math.log1p,
    "expm1": math.expm1,
    "sqrt": math.sqrt,
    "positive": lambda a: float(a > 0),
    "at_least": lambda a, b: float(a >= b),
}


def test_every_traced_figure_recomputes_to_the_plain_one() -> None:
    compared = 0
    for scenario in cases(7):
        known, traced = figures_of(scenario), figures_of(trace(scenario))
        assert known.keys() == traced.keys()
        for name, value in known.items():
            assert math.isclose(float(plain(traced[name])), float(value), rel_tol=1e-12, abs_tol=1e-300), (name, scenario.strategy)
        for name in random.Random(compared).sample(sorted(known), 3):  # noqa: S311 - test data
            assert math.isclose(by_hand(traced[name], {}), float(known[name]), rel_tol=1e-12, abs_tol=1e-300), (name, scenario.strategy)
            compared += 1
    assert compared >= COUNT


def test_a_changed_input_changes_the_expression_as_it_changes_the_simulation() -> None:
    rng = random.Random(11)  # noqa: S311 - test data
    for scenario in cases(11):
        name = rng.choice(("step.step_s", "step.mfu", "memory.peak_byte", "cost.owned_usd", "carbon.total_kg", "energy.total_j"))
        root = figures_of(trace(scenario))[name]
        leaf = rng.choice(leaves(root))
        value = leaf.value * 1.01

        def change(path: str, old: Any, leaf: Traced = leaf, value: float = value) -> Any:
            return value if path == leaf.path else old

        changed = converted(scenario, change)
        if leaf.path == "num_steps":
            changed = dataclasses.replace(changed, num_steps=value)
        again = figures_of(changed)[name]
        assert math.isclose(evaluate(root, {leaf.path: value}), float(again), rel_tol=1e-12), (name, leaf.path, scenario.strategy)


def test_elasticities_are_the_slopes_of_small_changes() -> None:
    step = 1e-6
    for scenario in list(cases(13))[::5]:
        root = figures_of(trace(scenario))["energy.total_j"]
        for path, elasticity in elasticities(root).items():
            (leaf,) = (leaf for leaf in leaves(root) if leaf.path == path)
            up, down = (evaluate(root, {path: leaf.value * (1 + side * step)}) for side in (1, -1))
            measured = (up - down) / (2 * step * root.value)
            smooth = math.isclose(up - root.value, root.value - down, rel_tol=1e-4, abs_tol=1e-12 * abs(root.value))
            assert not smooth or math.isclose(measured, elasticity, rel_tol=1e-3, abs_tol=1e-5), (path, measured, elasticity)


@pytest.mark.parametrize("model", MODELS)
def test_tracing_leaves_no_trace(model: str) -> None:
    """A traced run in between does not change plain runs: nothing traced stays behind in a cache."""
    scenario = base(model)
    before = figures_of(scenario)
    figures_of(trace(scenario))
    after = figures_of(scenario)
    assert before == after
    assert not any(isinstance(value, Traced) for value in after.values())
