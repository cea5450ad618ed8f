"""Answers come fast: bounds are ratios to plain Python in the same run, or generous times, whichever the machine meets."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/run.py"
    spec = importlib.util.spec_from_file_location("foretrain_benchmarks", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(bench: ModuleType) -> dict[str, float]:
    return bench.measure()


def test_version_starts_fast(measured: dict[str, float]) -> None:
    assert measured["version_s"] < max(0.3, 12 * measured["bare_s"])


def test_simulate_answers_within_a_second(measured: dict[str, float]) -> None:
    assert measured["simulate_s"] < max(1.0, 150 * measured["bare_s"])


def test_one_evaluation_takes_less_than_two_milliseconds(measured: dict[str, float]) -> None:
    assert measured["evaluation_s"] < max(2e-3, 0.4 * measured["loop_s"])


def test_a_process_answers_for_two_hundred_thousand_plans_a_second(measured: dict[str, float]) -> None:
    assert measured["array_plan_per_s"] > min(200_000, 100 * measured["single_plan_per_s"])
