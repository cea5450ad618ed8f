"""Two published tables of Megatron-LM steps on A100, beside a null model. Nothing is fitted on them."""

from __future__ import annotations

import pytest

from foretrain.simulate.simulate import simulate_scenario
from foretrain.validate.measurements import load_rows
from foretrain.validate.metrics import Errors, errors
from foretrain.validate.null_model import null_step_s


def compare(table: str) -> tuple[Errors, Errors]:
    rows = load_rows(table)
    predicted = [float(simulate_scenario(row.scenario).step.time.step_s) for row in rows]
    null = [null_step_s(row.scenario) for row in rows]
    measured = [row.measured_s for row in rows]
    print(f"\n{table}: measured, predicted, error, null model, error")
    for row, p, n in zip(rows, predicted, null, strict=True):
        m = row.measured_s
        print(f"  {row.id:<16} {m:8.3f} s  {p:8.3f} s {p / m - 1:+7.1%}   {n:8.3f} s {n / m - 1:+7.1%}")
    ours, theirs = errors(predicted, measured), errors(null, measured)
    for name, e in (("foretrain", ours), ("null model", theirs)):
        print(f"  {name:<12} n={e.n} mean absolute {e.mean:.2%} largest {e.largest:.2%} bias {e.bias:+.2%}")
    return ours, theirs


@pytest.mark.parametrize(
    ("table", "mean", "largest"),
    [("korthikanti-table-5", 0.05, 0.12), ("narayanan-table-1", 0.08, 0.15)],
)
def test_step_times_are_within_tolerance_and_beat_the_null_model(table: str, mean: float, largest: float) -> None:
    ours, null = compare(table)
    assert ours.mean <= mean
    assert ours.largest <= largest
    assert ours.mean < null.mean
