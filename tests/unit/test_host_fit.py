"""The fit of the host's launch times finds the times that made the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrain.validate.host import fit, load_steps, log_error, predict_s

HEADER = "id,layers,hidden,heads,ffn,vocab,seq_len,num_accelerators,nodes,tp,pp,dp,micro_batch,global_batch,step_time_s"
ROWS = ["a,4,512,8,2048,50304,512,4,1,4,1,1,1,4,1", "b,4,512,8,2048,50304,512,2,1,1,1,2,1,8,1", "c,8,512,8,2048,50304,512,2,1,1,2,1,1,4,1"]


def test_fit_recovers_the_times_that_made_the_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("\n".join([HEADER, *ROWS]), encoding="utf-8")
    truth = [predict_s(case, 30e-6, 20e-6) for case in load_steps(path)]
    measured = [row.rsplit(",", 1)[0] + f",{seconds!r}" for row, seconds in zip(ROWS, truth, strict=True)]
    path.write_text("\n".join([HEADER, *measured]), encoding="utf-8")
    cases = list(load_steps(path))
    kernel_s, collective_s, error = fit(cases, range(0, 50, 10))
    assert (kernel_s, collective_s) == (pytest.approx(30e-6), pytest.approx(20e-6))
    assert error == pytest.approx(0, abs=1e-12)
    assert log_error(cases, 6e-6, 20e-6) > error
    assert {case.num_servers for case in cases} == {1}
