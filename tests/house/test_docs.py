"""The pages name things that exist, are all reachable, and load nothing from elsewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def resolve(dotted: str) -> object:
    """The module, or the attribute of one, that a dotted name stands for."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise LookupError(dotted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for dotted in sorted(set(re.findall(r"`(foretrain(?:\.\w+)+)`", text))):
        assert resolve(dotted) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


def test_json_page_lists_every_key() -> None:
    """Every key of the report down to the second level stands on the page, and every key of the page is in the report."""
    from foretrain.report.json import as_document
    from foretrain.simulate.open import open_scenario
    from foretrain.simulate.simulate import simulate_scenario

    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 64, {"tp": 2})
    document = as_document(scenario, simulate_scenario(scenario))
    open_ended = {"subject", "number_kinds", "scenario"}
    keys = set()
    for name, value in document.items():
        inner = value if isinstance(value, dict) and name not in open_ended else {}
        keys |= {f"{name}.{key}" for key in inner if not key.endswith(("_low", "_high"))} or {name}
    rows = [line.split("|")[1] for line in (ROOT / "docs/json.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    words = {word.strip().removesuffix("[]") for row in rows for word in row.split(",")} - {"Key"}
    mentioned = words | {"program.flop_convention", "step.flop_convention", "step.peak_dtype", "cost.tenure", "carbon.accounting"}
    mentioned |= {"carbon.embodied_boundary"}
    assert keys <= mentioned
    assert words <= keys


@pytest.mark.extra
def test_pages_build_and_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    loads = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//|@import|url\((?:https?:)?//"
    )
    for path in [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.css")]:
        text = path.read_text(encoding="utf-8")
        assert not loads.search(text), path.name
