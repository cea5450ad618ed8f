"""The floor plan holds: the import rules of ``pyproject.toml``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_import_rules_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-logo", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_a_place() -> None:
    """A new package under ``foretrain`` must be drawn into the layers (the contract is exhaustive; this one says which is missing)."""
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")
    assert layers["exhaustive"]
    drawn = {room.strip(" ()") for layer in layers["layers"] for room in layer.split("|")}
    rooms = {path.parent.name for path in (ROOT / "src/foretrain").glob("*/__init__.py")}
    assert rooms <= drawn
