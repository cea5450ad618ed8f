"""What a command loads: answers that need no arithmetic do not wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from foretrain.cli.main import main
try:
    code = main({words!r})
except SystemExit as stop:
    code = stop.code or 0
print("loaded:", *sorted({{name.partition(".")[0] for name in sys.modules}}))
sys.exit(code)
"""


def loaded_by(*words: str) -> tuple[int, set[str]]:
    """Exit code of a command line in a fresh process, and the top-level packages it left in memory."""
    script = SCRIPT.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert "loaded:" in done.stdout, done.stderr
    return done.returncode, set(done.stdout.rsplit("loaded:", 1)[1].split())


def test_version_loads_nothing_heavy() -> None:
    code, loaded = loaded_by("--version")
    assert code == 0
    assert not loaded & {"numpy", "pydantic", "numba", "yaml", "rich", "cyclopts"}


def test_package_alone_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, foretrain; print(*sys.modules)"], capture_output=True, text=True, timeout=60, check=True
    )
    assert not {name.partition(".")[0] for name in done.stdout.split()} & {"numpy", "pydantic", "numba", "yaml", "rich", "cyclopts"}


@pytest.mark.parametrize("output", [(), ("--json",), ("--csv",)])
def test_simulate_does_not_load_numba(output: tuple[str, ...]) -> None:
    code, loaded = loaded_by("simulate", "llama-3.1-8b", "--on", "dgx-h100", "--chips", "64", *output)
    assert code == 0
    assert not loaded & {"numba", "llvmlite", "scipy", "pandas", "matplotlib"}
