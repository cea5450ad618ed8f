"""The report: one document per plan, and what is made of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from foretrain.carbon.account import Carbon
from foretrain.core.constants import GIB
from foretrain.cost.account import Cost
from foretrain.energy.account import Energy
from foretrain.program.lower import lower
from foretrain.report import csv as report_csv
from foretrain.report import figures, text
from foretrain.report.advice import suggestions
from foretrain.report.json import as_document, dumps
from foretrain.report.sources import current, kinds, replaced, source_list, value_at
from foretrain.run.phases import Busy, Phase, Run
from foretrain.simulate.open import open_scenario
from foretrain.simulate.result import Bill, Result
from foretrain.simulate.scenario import Scenario
from foretrain.step.fits import fit_memory, verdict
from foretrain.step.memory import Memory
from foretrain.step.step import Step
from foretrain.timeline.steptime import StepTime

PLAN = {
    "tp": 2, "pp": 1, "vpp": 1, "dp": 32, "cp": 1, "microbatch_size": 1, "zero": 1, "recompute": "none", "schedule": "1f1b",
}  # fmt: skip
STEP_PARTS = {
    "matmul": 2.0, "attention": 0.5, "memory_bound": 0.4, "recompute": 0.0, "host": 0.01, "tp_exposed": 0.2, "cp_exposed": 0.0,
    "pp_exposed": 0.05, "dp_exposed": 0.1, "bubble": 0.3, "optimizer": 0.04, "offload": 0.0,
}  # fmt: skip
MEMORY_GIB = {"weights": 10, "gradients": 20, "master": 2, "moments": 4, "activations": 15, "logits": 1}


def made_result(scenario: Scenario, *, scale: float = 1.0, step_s: float | None = None) -> Result:
    """A result of plain round numbers; ``scale`` multiplies the memory."""
    parts = {name: value * GIB * scale for name, value in MEMORY_GIB.items()}
    peak = sum(parts.values())
    memory = Memory(
        peak_byte=peak, reserved_byte=peak * 1.05, device_byte=peak * 1.05 + 2 * GIB, context_byte=1 * GIB, communicator_byte=1 * GIB,
        capacity_byte=79 * GIB, worst_stage=0, peak_moment="backward of the first microbatch", parts_byte=parts,
        stages={"only": peak}, stage_params={"only": 8e9},
    )  # fmt: skip
    seconds = sum(STEP_PARTS.values()) if step_s is None else step_s
    time = StepTime(
        step_s=seconds, parts_s=STEP_PARTS, hidden_s={"tp": 0.1, "cp": 0.0, "pp": 0.0, "dp": 0.4},
        matrix_s=1.8, memory_s=0.9, link_s=0.8, bubble_fraction=0.1,
    )  # fmt: skip
    step = Step(
        time=time, memory=memory, mfu=0.41, hfu=0.42, token_per_s=290000.0, token_per_s_per_chip=4530.0, useful_token_per_s=4530.0,
        model_flop_per_s_per_chip=405e12, peak_flop_per_s=989.4e12,
    )  # fmt: skip
    phases = tuple(
        Phase(purpose=purpose, duration_s=duration, num_chips=64.0, busy=Busy())
        for purpose, duration in (("steps", 8.0e6), ("checkpoint", 1.0e5), ("lost", 5.0e4), ("restart", 2.0e4))
    )
    run = Run(
        num_chips=64.0, num_steps=1000.0, phases=phases, wall_s=8.17e6, goodput=8.0 / 8.17, checkpoint_interval_s=3600.0, num_failures=12.0
    )
    energy = Energy(
        total_j=5.0e11, it_j=4.5e11, parts_j={"chips": 3.5e11, "host": 0.7e11, "network": 0.3e11, "facility": 0.5e11},
        mean_w_per_chip=880.0, peak_w=66e3,
    )  # fmt: skip
    cost = Cost(total_usd=363000.0, parts_usd={"rental": 363000.0}, rented_usd=363000.0, owned_usd=250000.0, usd_per_chip_hour=2.5)
    carbon = Carbon(
        total_kg=60e3, operational_location_kg=51e3, operational_market_kg=5e3, embodied_kg=9e3, embodied_boundary="cradle to gate",
        parts_kg={"operational": 51e3, "embodied": 9e3}, water_l=1e5,
    )  # fmt: skip
    bill = Bill(run=run, energy=energy, cost=cost, carbon=carbon)
    return Result(program=lower(scenario.workload, scenario.strategy), step=step, bill=bill)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return open_scenario("llama-3.1-8b", "dgx-h100", 64, PLAN)


@pytest.fixture(scope="module")
def document(scenario: Scenario) -> dict[str, Any]:
    return as_document(scenario, made_result(scenario))


TOTALS = (
    "memory.peak_byte", "step.step_s", "step.mfu", "step.hfu", "step.token_per_s", "step.token_per_s_per_chip", "run.wall_s",
    "run.chip_hour", "energy.total_j", "cost.total_usd", "carbon.total_kg", "carbon.operational_location_kg",
    "carbon.operational_market_kg", "carbon.embodied_kg",
)  # fmt: skip
KEYS = (
    *TOTALS, "verdict.status", "verdict.ok", "verdict.reasons", "program.params_total", "program.params_active",
    "program.model_flop_per_token", "memory.capacity_byte", "memory.worst_stage", "memory.parts", "step.parts",
    "run.goodput", "run.phases",
    "energy.parts", "cost.parts", "carbon.parts", "assumptions", "sources", "scenario",
)  # fmt: skip


@pytest.mark.parametrize("path", KEYS)
def test_promised_keys_are_there(document: dict[str, Any], path: str) -> None:
    assert value_at(document, path) is not None


@pytest.mark.parametrize("path", TOTALS)
def test_every_total_has_a_low_and_a_high(document: dict[str, Any], path: str) -> None:
    section, name = path.split(".")
    assert document[section][f"{name}_low"] is None
    assert document[section][f"{name}_high"] is None
    assert any("_low" in item["path"] for item in document["missing"])


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_document_is_finite_json(document: dict[str, Any]) -> None:
    again = json.loads(dumps(document))
    assert again == document
    assert all(math.isfinite(number) for number in numbers(again))


def test_a_number_that_is_not_finite_is_null_with_a_reason(scenario: Scenario) -> None:
    document = as_document(scenario, made_result(scenario, step_s=math.nan))
    assert document["step"]["step_s"] is None
    assert "step.step_s" in {item["path"] for item in document["missing"]}
    json.loads(dumps(document))


def test_parts_sum_to_totals(document: dict[str, Any]) -> None:
    assert sum(document["step"]["parts"].values()) == pytest.approx(document["step"]["step_s"], rel=1e-12)
    assert sum(document["memory"]["parts"].values()) == pytest.approx(document["memory"]["peak_byte"], rel=1e-12)


def test_out_of_memory_has_memory_and_advice_but_no_time_and_no_bill(scenario: Scenario) -> None:
    document = as_document(scenario, made_result(scenario, scale=3.0))
    assert document["verdict"]["status"] == "oom"
    assert not document["verdict"]["ok"]
    assert len(document["verdict"]["reasons"]) >= 2
    for section in ("step", "run", "energy", "cost", "carbon"):
        assert not list(numbers(document[section])), section
        assert section in {item["path"] for item in document["missing"]}
    assert document["memory"]["peak_byte"] > document["memory"]["capacity_byte"]
    assert document["program"]["params_total"] > 8e9
    screen = text.plain(text.screen(document))
    assert "OUT OF MEMORY" in screen
    assert "tokens/s" not in screen
    assert "CO2" not in screen


def test_advice_names_plans_that_fit() -> None:
    plan = {**PLAN, "tp": 1, "dp": 8, "zero": 0}
    tight = open_scenario("llama-3.1-8b", "dgx-h100", 8, plan)
    advice = suggestions(tight)
    assert 1 <= len(advice) <= 3
    for sentence in advice:
        assert sentence.startswith("would fit with --")
        options, settings = parsed(sentence)
        fixed = open_scenario("llama-3.1-8b", "dgx-h100", 8, {**plan, **options}, settings)
        assert verdict(fit_memory(lower(fixed.workload, fixed.strategy), fixed.cluster.server.chip, fixed.stack)).ok


def parsed(sentence: str) -> tuple[dict[str, str], list[str]]:
    """Options and settings of a suggestion."""
    said = sentence.removeprefix("would fit with ").partition(" (")[0].split()
    pairs = list(zip(said[::2], said[1::2], strict=True))
    options = {flag.lstrip("-").replace("-", "_"): value for flag, value in pairs if flag != "--set"}
    return options, [value for flag, value in pairs if flag == "--set"]


def test_advice_combines_changes_and_says_when_nothing_helps() -> None:
    plan = {**PLAN, "tp": 1, "dp": 8, "zero": 0, "microbatch_size": 8}
    small = open_scenario("llama-3.1-8b", "dgx-h100", 8, plan, ["system.server.chip.hbm_byte=24 GiB"])
    (together,) = suggestions(small)
    assert together.startswith("no single change is enough; would fit with --")
    smaller = open_scenario("llama-3.1-8b", "dgx-h100", 8, plan, ["system.server.chip.hbm_byte=4 GiB"])
    (never,) = suggestions(smaller)
    assert "more chips" in never


def test_screen_fits_and_has_no_escape_codes(document: dict[str, Any]) -> None:
    lines = text.plain(text.screen(document)).splitlines()
    assert len(lines) <= text.HEIGHT
    assert max(map(len, lines)) <= text.WIDTH
    assert "\x1b" not in "".join(lines)
    assert "".join(lines).isascii()


def test_screen_answers_the_first_questions(document: dict[str, Any]) -> None:
    screen = text.plain(text.screen(document))
    for words in ("FITS", "stage 0", "GiB", "tokens/s/chip", "MFU", "HFU", "dense bf16 peak", "convention", "goodput", "MWh", "CO2e",
                  "location-based", "market-based", "embodied", "owned", "rented", "chosen"):  # fmt: skip
        assert words in screen, words


def test_step_shares_on_the_screen_sum_to_100(document: dict[str, Any]) -> None:
    rows = [line.plain()[text.MARGIN : text.MARGIN + 46] for line in text.screen(document)]
    start = next(index for index, row in enumerate(rows) if row.startswith("STEP TIME"))
    end = next(index for index, row in enumerate(rows) if row.startswith("one step"))
    shares = [float(row.split()[-1]) for row in rows[start + 1 : end]]
    assert round(sum(shares), 6) == 100.0


def test_a_chip_without_memory_is_out_of_memory(scenario: Scenario) -> None:
    result = made_result(scenario)
    none = dataclasses.replace(result.step.memory, capacity_byte=0.0)
    document = as_document(scenario, dataclasses.replace(result, step=dataclasses.replace(result.step, memory=none)))
    assert "of 0.00 GiB on the device" in text.plain(text.screen(document))


def test_control_characters_in_names_are_not_printed(scenario: Scenario) -> None:
    named = dataclasses.replace(scenario, model_name="evil\x1b[31m\nname")
    screen = text.plain(text.screen(as_document(named, made_result(named))))
    assert "\x1b" not in screen
    assert "evil?[31m?name" in screen


def test_a_terminal_gets_styles_and_a_pipe_does_not(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, pipe = Terminal(), io.StringIO()
    lines = text.screen(document)
    text.show(lines, terminal)
    text.show(lines, pipe)
    assert "\x1b[" in terminal.getvalue()
    assert pipe.getvalue() == text.plain(lines)


def test_assumptions_list_everything(document: dict[str, Any]) -> None:
    listing = text.plain(text.assumptions(document))
    for item in document["assumptions"]:
        assert f"{item['field']} = " in listing
    for source in document["sources"]:
        assert source["key"] in listing
    assert all(len(line) <= text.WIDTH for line in listing.splitlines() if " " in line.strip())


def test_csv_is_one_flat_row_with_unit_names(document: dict[str, Any], scenario: Scenario) -> None:
    other = as_document(scenario, made_result(scenario, scale=3.0))
    rows = list(csv.DictReader(io.StringIO(report_csv.dumps([document, other]))))
    assert len(rows) == 2
    assert float(rows[0]["step_s"]) == document["step"]["step_s"]
    assert float(rows[0]["memory_weights_byte"]) == document["memory"]["parts"]["weights"]
    assert rows[1]["step_s"] == ""
    assert rows[1]["verdict"] == "oom"
    assert len({name for name, _ in report_csv.COLUMNS}) == len(report_csv.COLUMNS)


def test_csv_has_a_column_for_every_part(document: dict[str, Any], scenario: Scenario) -> None:
    names = {name for name, _ in report_csv.COLUMNS}
    assert {f"step_{part}_s" for part in STEP_PARTS} <= names
    program = lower(scenario.workload, scenario.strategy)
    assert {f"memory_{part}_byte" for part in program.stages[0].memory_byte} <= names


def test_sources_join_every_passport(scenario: Scenario) -> None:
    entries = source_list(scenario.document, scenario.passports)
    paths = [value["path"] for entry in entries for value in entry["values"]]
    assert sorted(paths) == sorted(scenario.passports)
    assert all(entry["title"] for entry in entries)


def test_a_replaced_number_loses_its_passport() -> None:
    path = "system.server.chip.hbm_byte"
    changed = open_scenario("llama-3.1-8b", "dgx-h100", 64, PLAN, [f"{path}=96 GiB"])
    assert path not in current(changed.document, changed.passports)
    assert path not in [value["path"] for entry in source_list(changed.document, changed.passports) for value in entry["values"]]
    if path in changed.passports:
        assert replaced(changed.document, changed.passports) == (path,)
        assert kinds(changed.document, changed.passports)["given"] == 1


@pytest.mark.parametrize(
    ("parts", "decimals"),
    [({"a": 1.0, "b": 1.0, "c": 1.0}, 1), ({"a": 1e-9, "b": 1.0}, 1), ({"a": 0.0, "b": 3.0}, 2), ({str(n): 1.0 for n in range(7)}, 0)],
)
def test_percents_sum_to_100(parts: dict[str, float], decimals: int) -> None:
    assert round(sum(map(float, figures.percents(parts, decimals).values())), 6) == 100


def test_percents_of_nothing_are_zero() -> None:
    assert figures.percents({"a": 0.0}) == {"a": "0.0"}


@pytest.mark.parametrize(
    ("value", "words"), [(1e-5, "10.0 us"), (59.0, "59.0 s"), (7200.0, "2.00 hours"), (86400.0 * 365, "365 days"), (0.0, "0 us")]
)
def test_durations(value: float, words: str) -> None:
    assert figures.duration(value) == words
