"""What the README and the pages tell a reader to type works: every command in a ``shell`` fence, every ``python`` and ``yaml`` fence."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
FILES = {"config.json": "docs/examples/config.json", "scenario.yaml": "docs/examples/scenario.yaml"}


def fences(language: str) -> list[tuple[str, str]]:
    """Page and text of every fence in ``language``."""
    found = [(page.name, match) for page in PAGES if page.exists() for match in FENCE.findall(page.read_text(encoding="utf-8"))]
    return [(name, text) for name, (kind, text) in found if kind == language]


def files_of(page: str) -> dict[str, str]:
    """The files that a page tells its reader to write: ``yaml`` fences whose first line is the path as a comment."""
    found = {text.splitlines()[0]: text for name, text in fences("yaml") if name == page}
    return {first.removeprefix("# "): text for first, text in found.items() if first.startswith("# ") and first.endswith(".yaml")}


def scenarios() -> list[tuple[str, str]]:
    """Page and text of every scenario: the ``yaml`` fences that are no such file."""
    return [(page, text) for page, text in fences("yaml") if text not in files_of(page).values()]


def commands() -> list[tuple[str, str]]:
    """Page and command line of every call of ``foretrain``; a backslash joins lines."""
    lines = [(page, line.strip()) for page, text in fences("shell") for line in text.replace("\\\n", " ").splitlines()]
    return [(page, line) for page, line in lines if line.startswith("foretrain ")]


def run_main(words: list[str]) -> tuple[int, str]:
    """Exit code and output of a command line in this process."""
    from foretrain.cli.main import main

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return code or 0, output.getvalue()


def test_there_is_something_to_check() -> None:
    assert {page for page, _ in commands()} >= {"README.md", "cli.md"}
    assert fences("python")


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda value: value)
def test_command_works(page: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = shlex.split(line, comments=True)[1:]
    pipe = next((index for index, word in enumerate(words) if word in ("|", ">")), len(words))
    for name, source in FILES.items():
        if name in words:
            (tmp_path / name).write_bytes((ROOT / source).read_bytes())
    for name, text in files_of(page).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, output = run_main(words[:pipe])
    assert code == 0, output
    assert output.strip()


@pytest.mark.parametrize("page", sorted({page for page, _ in fences("python")}))
def test_python_works(page: str, tmp_path: Path) -> None:
    """The ``python`` fences of a page run one after another in one fresh process."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(text for name, text in fences("python") if name == page), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=os.environ.copy(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(("page", "text"), scenarios(), ids=lambda value: value.split("\n")[0])
def test_scenario_works(page: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    code, output = run_main(["simulate", str(path)])
    assert code == 0, output


def test_readme_says_how_to_test() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test", "pip install ."):
        assert command in text


def test_readme_shows_present_output_and_accuracy() -> None:
    """After predictions have moved: ``python docs/update_readme.py``."""
    spec = importlib.util.spec_from_file_location("update_readme", ROOT / "docs/update_readme.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert module.OUTPUT.search(text)
    assert module.ACCURACY.search(text)
    assert module.updated(text) == text
