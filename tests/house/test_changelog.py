"""Changelog fragments can be put together at a release."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
FRAGMENTS = sorted(path for path in (ROOT / CONFIG["directory"]).iterdir() if path.name != "README.md")


def test_fragments_have_a_known_kind_and_a_text() -> None:
    kinds = {kind["directory"] for kind in CONFIG["type"]}
    for path in FRAGMENTS:
        slug, kind, suffix = path.name.split(".")
        assert slug.startswith("+") or slug.isdecimal(), path.name
        assert kind in kinds, path.name
        assert suffix == "md", path.name
        assert path.read_text(encoding="utf-8").strip(), path.name


def test_changelog_has_a_place_for_them() -> None:
    assert CONFIG["start_string"].strip() in (ROOT / CONFIG["filename"]).read_text(encoding="utf-8")


def test_towncrier_builds_a_draft() -> None:
    pytest.importorskip("towncrier")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not FRAGMENTS or "### " in done.stdout
