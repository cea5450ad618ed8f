"""The command line: what it prints where, its exit codes, and how long it takes to start."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foretrain.cli import app
from foretrain.cli.main import main

PLAN = ("simulate", "llama-3.1-8b", "--on", "dgx-h100", "--chips", "64")
FULL = Path("/dev/full")
RUN = (sys.executable, "-m", "foretrain.cli.main")


def fresh(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **more})


def test_version_alone_imports_nothing_heavy() -> None:
    code = "import sys; from foretrain.cli.main import main; main(['--version']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("foretrain ")
    assert not {"numpy", "pydantic", "cyclopts", "rich", "yaml"} & set(out.split())


def best(words: tuple[str, ...], repeats: int) -> float:
    """Least wall-clock seconds of a command in fresh processes."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(words, capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def test_version_is_fast() -> None:
    bare = best((sys.executable, "-c", "pass"), 7)
    assert best((*RUN, "--version"), 7) < max(0.3, 12 * bare)


def test_simulate_does_not_import_numba_or_test_tools() -> None:
    code = f"import sys; from foretrain.cli.main import main; main({list(PLAN)!r}); print('MODULES', *sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    modules = set(out.rpartition("MODULES")[2].split())
    assert not {"numba", "torch", "matplotlib", "pandas", "pytest", "rich.console"} & modules


def test_simulate_prints_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PLAN) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err == ""
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("foretrain")
    assert lines[0].isascii()


def test_json_and_csv_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main([*PLAN, "--csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["step_s"]) == document["step"]["step_s"]
    assert row["model"] == document["subject"]["model"]


def test_step_parts_sum_to_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    main([*PLAN, "--json"])
    document = json.loads(capsys.readouterr().out)
    totals = {"step": "step_s", "energy": "total_j", "cost": "total_usd", "carbon": "total_kg", "memory": "peak_byte"}
    for section, total in totals.items():
        assert sum(document[section]["parts"].values()) == pytest.approx(document[section][total], rel=1e-9), section
    assert sum(phase["duration_s"] for phase in document["run"]["phases"]) == pytest.approx(document["run"]["wall_s"], rel=1e-9)


def test_assumptions_come_after_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    main(PLAN)
    screen = capsys.readouterr().out
    assert main([*PLAN, "--assumptions"]) == 0
    assert capsys.readouterr().out.startswith(screen)


def test_set_reaches_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    main([*PLAN, "--json", "--set", "site.pue=1.5", "--set", "system.server.chip.hbm_byte=96 GiB"])
    document = json.loads(capsys.readouterr().out)
    assert document["scenario"]["site"]["pue"] == 1.5
    assert document["memory"]["capacity_byte"] > 90 * 2**30


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_commands_and_options(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert "simulate" in capsys.readouterr().out
    assert main(["simulate", word]) == 0
    out = capsys.readouterr().out
    for option in ("--on", "--tp", "--microbatch-size", "--set", "--json", "--csv", "--assumptions"):
        assert option in out


def test_catalog_lists_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "list"]) == 0
    assert "systems: " in capsys.readouterr().out
    assert main(["catalog", "list", "models"]) == 0
    assert "llama-3.1-8b" in [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_interrupt_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "make_app", interrupted)
    assert main(PLAN) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader = "import sys; sys.stdin.readline()"
    shell = f'set -o pipefail; "{sys.executable}" -m foretrain.cli.main {" ".join(PLAN)} --json | "{sys.executable}" -c "{reader}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [PLAN, ("--version",), ("catalog", "list")])
def test_a_full_disk_is_said_so(words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*RUN, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: output: cannot be written: No space left on device"]


def test_output_survives_a_poor_encoding() -> None:
    done = fresh(*PLAN, "--set", "model.name=\u043c\u043e\u0434\u0435\u043b\u044c", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stderr == ""


def test_out_of_memory_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "llama-3.1-405b", "--on", "dgx-h100", "--chips", "8"]) == 0
    out = capsys.readouterr().out
    assert "OUT OF MEMORY" in out
    assert "MFU" not in out
