"""Variants of a scenario and inverse questions about it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from foretrain.cli.main import main
from foretrain.core.errors import InputError
from foretrain.report.compare import blocks, comparison, differs, figures, limits, table
from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.step.fits import verdict
from foretrain.sweep.solve import largest, max_microbatch_size, max_seq_len, min_chips
from foretrain.sweep.variants import Variant, changed, knobs, set_one

OPTIONS = {"dp": "8", "zero": "3", "seq_len": "8192", "microbatch_size": "1", "recompute": "selective"}
FSDP = open_scenario("llama-3-8b", "dgx-h100", 8, OPTIONS)
"""O-MEM-13: Llama 3 8B on eight H100 with FSDP."""
COMMAND = (
    "llama-3-8b",
    "--on",
    "dgx-h100",
    "--chips",
    "8",
    *(word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", value)),
)


def ok(scenario: Scenario) -> bool:
    return verdict(simulate_scenario(scenario).step.memory).ok


def need(scenario: Scenario) -> float:
    return float(simulate_scenario(scenario).step.memory.device_byte)


def batch(scenario: Scenario, size: int) -> Scenario:
    """The scenario with another microbatch and the same number of microbatches."""
    plan = scenario.strategy
    return changed(scenario, {"microbatch_size": size}, {"global_batch_size": size * plan.dp * plan.num_microbatches})


@pytest.mark.parametrize("plan", [{}, {"recompute": "full"}, {"zero": 2}, {"recompute": "full", "optimizer_offload": 1.0}])
def test_largest_microbatch_fits_and_the_next_does_not(plan: dict[str, object]) -> None:
    scenario = changed(FSDP, plan)
    size = max_microbatch_size(scenario)
    assert size >= 1
    assert ok(batch(scenario, size))
    assert not ok(batch(scenario, size + 1))


@pytest.mark.parametrize("plan", [{}, {"recompute": "full"}, {"dp": 1, "tp": 8, "sequence_parallel": True}, {"dp": 2, "cp": 4}])
def test_longest_sequence_fits_and_a_tenth_more_does_not(plan: dict[str, object]) -> None:
    scenario = changed(FSDP, plan)
    length = max_seq_len(scenario)
    pieces = int(scenario.strategy.cp) * (int(scenario.strategy.tp) if scenario.strategy.sequence_parallel else 1)
    assert length % pieces == 0
    assert ok(changed(scenario, None, {"seq_len": length}))
    assert not ok(changed(scenario, None, {"seq_len": -(-int(length * 1.1) // pieces) * pieces}))


@pytest.mark.parametrize("plan", [{}, {"dp": 16}, {"dp": 64, "recompute": "full"}])
def test_fewest_chips_fit_and_the_next_fewer_do_not(plan: dict[str, object]) -> None:
    scenario = changed(FSDP, plan)
    chips = min_chips(scenario)
    assert chips is not None
    assert ok(changed(scenario, {"dp": chips}))
    assert all(not ok(changed(scenario, {"dp": fewer})) for fewer in (1, 2, 4, 8, 16, 32) if fewer < chips)


def test_fewest_chips_obey_the_rules() -> None:
    """Interleaved microbatches come in multiples of four on four stages: a batch of 14 has no valid number of ranks, one of 12 has."""
    scenario = open_scenario("llama-3-8b", "dgx-h100", 32, {"tp": 8, "pp": 4, "vpp": 2, "microbatch_size": 1, "global_batch_size": 12})
    recipe = dataclasses.replace(scenario.workload.recipe, global_batch_size=14)
    odd = dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, recipe=recipe))
    assert min_chips(scenario) == 32
    assert min_chips(odd) is None


def test_what_cannot_fit_has_no_answer() -> None:
    scenario = changed(open_scenario("llama-3.1-405b", "dgx-h100", 8, {"tp": 8, "pp": 1, "zero": 0, "microbatch_size": 1}))
    assert max_microbatch_size(scenario) == 0
    assert max_seq_len(scenario) == 0
    assert min_chips(scenario) is None
    assert limits(scenario) == {"max_microbatch_size": None, "max_seq_len": None, "min_chips": None}


def test_a_learned_position_table_bounds_the_sequence() -> None:
    scenario = open_scenario("gpt3-175b", "dgx-h100", 512, {"tp": 8, "pp": 8, "microbatch_size": 1, "recompute": "full"})
    assert max_seq_len(scenario) == 2048


@pytest.mark.parametrize("last", [0, 1, 2, 31, 1000, 2**20, 2**24])
def test_largest_finds_the_edge(last: int) -> None:
    assert largest(lambda n: n <= last) == last


def test_more_ranks_hold_less_and_wider_gradients_hold_more() -> None:
    assert need(changed(FSDP, {"dp": 16})) < need(FSDP)
    narrow = dataclasses.replace(FSDP.workload.recipe.precision, grads="bf16")
    assert need(FSDP) >= need(changed(FSDP, None, {"precision": narrow}))


def test_knobs_cover_the_questions() -> None:
    names = {variant.name.split()[0] for variant in knobs(FSDP)}
    assert names == {"microbatch_size", "dp", "global_batch_size", "seq_len", "zero", "recompute", "grads", "optimizer_offload"}
    lines = table(comparison(FSDP, knobs(FSDP)))
    assert len(lines) == 2 + len(knobs(FSDP))


def test_a_knob_that_breaks_a_rule_says_so() -> None:
    scenario = open_scenario("gpt3-175b", "dgx-h100", 64, {"tp": 8, "pp": 8, "microbatch_size": 1})
    longer = next(variant for variant in knobs(scenario) if variant.name == "seq_len 2048 -> 4096")
    assert longer.scenario is None
    assert "position" in longer.problems[0]
    assert any("not possible" in line for line in table(comparison(scenario, knobs(scenario))))


def test_a_changed_scenario_equals_one_opened_so() -> None:
    opened = open_scenario("llama-3-8b", "dgx-h100", 16, {**OPTIONS, "dp": "16"})
    made = changed(FSDP, {"dp": 16}, {"global_batch_size": opened.workload.recipe.global_batch_size})
    assert figures(made) == figures(opened)
    assert made.document == opened.document


def reopen(settings: Sequence[str]) -> Scenario:
    return open_scenario("llama-3.1-8b", "dgx-h100", 64, {"tp": "2"}, settings)


def test_a_setting_changes_itself_and_what_follows_from_it() -> None:
    base = reopen(())
    settings = ["site.pue=1.5", "strategy.tp=4"]
    document = comparison(base, set_one(reopen, base, settings))
    pue, tp = document["variants"]
    assert [(row["path"], row["value"]) for row in pue["differs"]] == [("site.pue", 1.5)]
    assert pue["change"]["step_s"] == {"absolute": 0.0, "relative": 0.0}
    assert pue["change"]["total_j"]["relative"] == pytest.approx(1.5 / float(base.site.pue) - 1)
    assert [row["path"] for row in tp["differs"]] == ["strategy.tp", "strategy.dp", "strategy.num_microbatches"]
    assert any("strategy.tp: 2 -> 4" in line for line in blocks(document))


def test_every_bad_setting_is_named() -> None:
    base = reopen(())
    with pytest.raises(InputError) as caught:
        set_one(reopen, base, ["site.pue=0.5", "strategy.tp=3"])
    assert {problem.field for problem in caught.value.problems} >= {"site.pue", "strategy.tp"}


def test_a_variant_out_of_memory_has_memory_only() -> None:
    variant = Variant(name="no sharding", scenario=changed(FSDP, {"zero": 0}))
    (row,) = comparison(FSDP, [variant])["variants"]
    assert row["status"] == "oom"
    assert row["change"]["device_byte"]["absolute"] > 0
    assert row["change"]["step_s"] == {"absolute": None, "relative": None}


def test_a_scenario_differs_from_itself_in_nothing() -> None:
    assert differs(FSDP.document, FSDP.document) == []
    document = comparison(FSDP, [Variant(name="same", scenario=FSDP)])
    assert all(change["absolute"] == 0 for change in document["variants"][0]["change"].values())


def test_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = []
    for name, pue in (("a", 1.1), ("b", 1.3)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"model: llama-3-8b\nsystem: dgx-h100\nchips: 8\nsite:\n  pue: {pue}\nstrategy:\n  tp: 8\n", encoding="utf-8")
        paths.append(str(path))
    assert main(["compare", *paths]) == 0
    out = capsys.readouterr().out
    assert "b.yaml against a.yaml" in out
    assert "site.pue: 1.1 -> 1.3" in out
    assert main(["compare", *COMMAND, "--knobs"]) == 0
    assert "longest sequence that fits" in capsys.readouterr().out
    assert main(["compare", *COMMAND, "--knobs", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["limits"]) == {"max_microbatch_size", "max_seq_len", "min_chips"}


@pytest.mark.parametrize("more", [(), ("--knobs", "--set", "site.pue=1.1"), ("--set", "site.pue=0.1")])
def test_commands_refuse(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *COMMAND, *more]) == 2
    assert capsys.readouterr().err.startswith("error: ")
