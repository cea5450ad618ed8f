"""Nothing in the project depends on, or speaks of, the machine it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The patterns do not match themselves. A path inside a published link is no machine path.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:work|root|home|Users|opt)/\w+")
SHARED = re.compile(r"(?<![\w/-])(?:\.\./)?shared/(?:reference|design|cases|samples|formats)\b")


def tracked_text() -> list[tuple[str, str]]:
    """Name and text of every file under version control."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listing.split("\0") if name and (ROOT / name).is_file()]
    return [(name, (ROOT / name).read_text(encoding="utf-8", errors="replace")) for name in names]


def test_no_machine_paths() -> None:
    found = [
        f"{name}: {match[0]}"
        for name, text in tracked_text()
        if name != "LICENSE"
        for pattern in (MACHINE_PATH, SHARED)
        for match in pattern.finditer(text)
    ]
    assert not found
