"""The report as a page: well formed, complete in itself, true to the document, safe whatever a name contains."""

from __future__ import annotations

import copy
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from foretrain.cli.main import main
from foretrain.report import html
from foretrain.report.charts import pipeline
from foretrain.report.json import as_document
from foretrain.report.sources import value_at
from foretrain.simulate.open import open_scenario
from foretrain.simulate.simulate import simulate_scenario

VOID = {"meta", "link", "br"}
LOADS = ("src", "srcset", "poster", "data", "action", "formaction", "background", "xlink:href")
LARGEST_BYTE = 500_000
TEXT_CONTRAST, SHAPE_CONTRAST = 4.5, 3.0


class Page(HTMLParser):
    """What a page consists of, and whether every element is closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.figures: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.faults.append(f"attribute twice in {tag}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] == "data":
            about = self.elements[-1][1]
            self.figures.append((about["data-path"] or "", about["value"] or "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [about for name, about in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def document_of(model: str, chips: int, options: dict[str, object] | None = None, settings: tuple[str, ...] = ()) -> dict[str, Any]:
    scenario = open_scenario(model, "dgx-h100", chips, options, settings)
    return as_document(scenario, simulate_scenario(scenario))


CASES = {
    "pipeline": ("llama-3.1-70b", 64, {"tp": 8, "pp": 4, "recompute": "full"}, ("strategy.sequence_parallel=true",)),
    "small": ("gpt2-124m", 1, {}, ()),
    "owned": ("llama-3.1-8b", 8, {}, ("prices.tenure=owned",)),
    "oom": ("llama-3.1-405b", 8, {}, ()),
    "never": ("llama-3.1-8b", 8, {}, ("system.reliability.failure_per_chip_s=1 1/s",)),
}


@pytest.fixture(scope="module", params=CASES)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    return document_of(*CASES[request.param])


@pytest.fixture(scope="module")
def piped() -> dict[str, Any]:
    return document_of(*CASES["pipeline"])


@pytest.fixture(scope="module")
def crowded() -> dict[str, Any]:
    return document_of(*CASES["oom"])


def test_is_well_formed(document: dict[str, Any]) -> None:
    text = html.page(document, "foretrain simulate x")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert not page.faults
    names = [about["id"] for _, about in page.elements if "id" in about]
    assert len(set(names)) == len(names)
    targets = [about["href"] for about in page.all("a") if (about["href"] or "").startswith("#")]
    assert targets
    assert {target.removeprefix("#") for target in targets if target} <= set(names)


def test_loads_nothing_and_runs_nothing(document: dict[str, Any]) -> None:
    text = html.page(document)
    page = Page(text)
    assert not page.all("script")
    assert not [name for _, about in page.elements for name in about if name.startswith("on") or name in LOADS]
    assert [about["href"] for about in page.all("link")] == ["data:,"]
    assert "url(" not in html.style()
    assert "@import" not in html.style()
    (policy,) = (about for about in page.all("meta") if about.get("http-equiv") == "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none'")
    assert not [about for _, about in page.elements if "style" in about]


def test_is_small_and_always_the_same(document: dict[str, Any]) -> None:
    text = html.page(document, "foretrain simulate x")
    assert len(text.encode()) < LARGEST_BYTE
    assert html.page(copy.deepcopy(document), "foretrain simulate x") == text


def test_numbers_are_those_of_the_document(document: dict[str, Any]) -> None:
    page = Page(html.page(document))
    assert len(page.figures) > 10
    for path, value, shown in page.figures:
        assert json.loads(value) == value_at(document, path), path
        assert shown.strip(), path


def test_figures_asked_for_first_are_there(piped: dict[str, Any]) -> None:
    shown = {path for path, _, _ in Page(html.page(piped)).figures}
    assert shown >= {
        "step.step_s", "step.mfu", "step.hfu", "step.token_per_s", "run.wall_s", "run.chip_hour", "run.goodput", "memory.device_byte",
        "memory.capacity_byte", "energy.total_j", "energy.peak_w", "cost.total_usd", "cost.rented_usd", "cost.owned_usd",
        "carbon.total_kg", "carbon.operational_location_kg", "carbon.operational_market_kg", "carbon.embodied_kg", "carbon.water_l",
    }  # fmt: skip
    for section in ("step", "memory", "energy", "cost", "carbon"):
        parts = {f"{section}.parts.{name}" for name, value in piped[section]["parts"].items() if value > 0}
        assert parts <= shown


def test_every_source_and_every_choice_is_there(document: dict[str, Any]) -> None:
    page = Page(html.page(document, "foretrain simulate 'a b'"))
    for source in document["sources"]:
        assert not source.get("url") or source["url"] in {about["href"] for about in page.all("a")}
        assert all(value["path"] in page.text for value in source["values"])
    assert all(item["field"] in page.text for item in document["assumptions"])
    assert "foretrain simulate 'a b'" in page.text
    assert "hbm_byte:" in page.text


def test_tables_and_pictures_speak(document: dict[str, Any]) -> None:
    page = Page(html.page(document))
    assert all(about.get("scope") in {"row", "col"} for about in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    pictures = [about for about in page.all("svg") if about.get("aria-hidden") != "true"]
    assert pictures
    assert all(about["role"] == "img" and about["aria-label"] for about in pictures)
    assert len(page.all("title")) > len(pictures)


def test_bars_stay_inside_their_pictures(document: dict[str, Any]) -> None:
    for about in Page(html.page(document)).all("rect"):
        assert float(about["x"] or 0) >= 0
        assert float(about["x"] or 0) + float(about["width"] or 0) <= 1000.5


def test_waterfall_is_without_gaps(piped: dict[str, Any]) -> None:
    text = html.page(piped).partition('id="step"')[2].partition("</table>")[0]
    spans = [(float(about["x"] or 0), float(about["width"] or 0)) for about in Page(text).all("rect")]
    assert spans[0][0] == 0
    for (start, length), (following, _) in itertools.pairwise(spans):
        assert following == pytest.approx(start + length, abs=0.03)
    assert sum(length for _, length in spans) == pytest.approx(1000, abs=0.1)


def test_pipeline_adds_up_to_the_step(piped: dict[str, Any]) -> None:
    found = pipeline(piped["step"])
    assert found is not None
    whole = found.microbatches_s + found.bubble_s + found.transfer_s + found.reduce_s + found.optimizer_s + found.offload_s
    assert whole == pytest.approx(piped["step"]["step_s"], rel=1e-12)
    assert 'id="pipeline"' in html.page(piped)


def test_no_pipeline_without_stages() -> None:
    assert 'id="pipeline"' not in html.page(document_of(*CASES["small"]))


def test_out_of_memory_shows_memory_and_advice(crowded: dict[str, Any]) -> None:
    page = Page(html.page(crowded))
    assert "OUT OF MEMORY" in page.text
    assert all(reason in page.text for reason in crowded["verdict"]["reasons"][1:])
    assert "has no step, no run and no bill" in page.text
    assert not [path for path, _, _ in page.figures if path.startswith(("step.", "energy.", "cost.", "carbon.", "run."))]


def test_a_run_that_never_ends_says_so(piped: dict[str, Any]) -> None:
    assert "NEVER ENDS" in Page(html.page(document_of(*CASES["never"]))).text
    assert "NEVER ENDS" not in Page(html.page(piped)).text


def test_a_number_that_does_not_exist_says_why(piped: dict[str, Any]) -> None:
    broken = copy.deepcopy(piped)
    for path in ("step.step_s", "step.bubble_fraction", "run.wall_s", "run.goodput", "energy.total_j", "cost.total_usd"):
        section, name = path.split(".")
        broken[section][name] = None
        broken["missing"].append({"path": path, "reason": "the formula gives no finite number here"})
    broken["step"]["parts"]["matmul"] = broken["run"]["phases"][0]["duration_s"] = None
    page = Page(html.page(broken))
    assert not page.faults
    assert "the formula gives no finite number here" in {about.get("title") for about in page.all("em")}


EVIL = "<script>alert(1)</script>\"'&\x1b[1m\u202e</title></style><img src=x onerror=alert(1)>"


def poisoned(value: Any) -> Any:
    """The same document with ``EVIL`` in every text that is not a choice between fixed words."""
    if isinstance(value, dict):
        return {key: item if key in {"status", "accounting"} else poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return f"{value}{EVIL}" if isinstance(value, str) else value


def test_nothing_in_a_document_becomes_markup(document: dict[str, Any]) -> None:
    bad = poisoned({**document, "warnings": ["careful"]})
    page = Page(html.page(bad, EVIL))
    assert not page.faults
    assert not page.all("script")
    assert not page.all("img")
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert "<script>alert(1)</script>" in page.text


def test_only_addresses_of_pages_are_links(piped: dict[str, Any]) -> None:
    bad = copy.deepcopy(piped)
    for source in bad["sources"]:
        source["url"] = "javascript:alert(1)"
    assert not [about for about in Page(html.page(bad)).all("a") if "javascript" in (about["href"] or "")]


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_colours_can_be_told_from_their_ground(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", html.style(), re.DOTALL)
    named = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[("light", "dark", "print").index(scheme)]))
    for ink in ("ink", "soft", "link"):
        assert contrast(named[ink], named["ground"]) >= TEXT_CONTRAST, ink
    assert contrast(named["ink"], named["raised"]) >= TEXT_CONTRAST
    for word in ("good", "fair", "bad"):
        assert contrast(named[word], named[f"{word}-ground"]) >= TEXT_CONTRAST, word
    for number in range(1, 13):
        assert contrast(named[f"c{number}"], named["ground"]) >= SHAPE_CONTRAST, number


PLAN = ["simulate", "gpt2-124m", "--on", "dgx-h100", "--chips", "8", "--set", "prices.rental_usd_per_chip_s=2 USD/h"]


def test_command_writes_the_page_and_says_how_to_make_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.html"
    assert main([*PLAN, "--json", "--html", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("{")
    assert f"wrote {target}" in printed.err
    page = Page(target.read_text(encoding="utf-8"))
    again = "foretrain simulate gpt2-124m --on dgx-h100 --chips 8 --set 'prices.rental_usd_per_chip_s=2 USD/h'"
    assert again in page.text


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (tmp_path / "missing" / "page.html", tmp_path):
        assert main([*PLAN, "--html", str(target)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: --html: cannot be written")
        assert str(target) in error
    assert main([*PLAN, "--html", "--json"]) == 2
