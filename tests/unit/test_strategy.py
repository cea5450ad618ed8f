"""Layout, mesh and rules."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.strategy import rules
from foretrain.strategy.layout import lay_out, split_layers
from foretrain.strategy.mesh import strides
from foretrain.strategy.strategy import Strategy
from foretrain.workload.model import Model
from foretrain.workload.recipe import Recipe, Workload

MODEL = Model(name="m", num_layers=24, hidden_size=1024, num_heads=16, num_kv_heads=4, head_dim=64, ffn_size=4096, vocab_size=32000)
RECIPE = Recipe(seq_len=2048, global_batch_size=16, tokens=1e9)
PLAN = Strategy(tp=2, pp=2, dp=2, microbatch_size=1, num_microbatches=8)


def broken(plan: Strategy, model: Model = MODEL, recipe: Recipe = RECIPE, chips: int | None = None) -> set[str]:
    problems = rules.check(Workload(model=model, recipe=recipe), plan, int(plan.world_size) if chips is None else chips)
    return {problem.field for problem in problems}


@given(st.integers(1, 200), st.integers(1, 64))
def test_a_split_has_every_layer_once(num_layers: int, pp: int) -> None:
    split = split_layers(num_layers, pp)
    assert len(split) == pp
    assert sum(split) == num_layers
    assert max(split) - min(split) <= 1


@given(st.integers(8, 130), st.sampled_from([1, 2, 4, 8]), st.sampled_from([(0,), (512, 0), (1, 1, 0)]))
def test_stage_kinds_cover_the_layers(num_layers: int, pp: int, windows: tuple[int, ...]) -> None:
    stages = lay_out([windows[index % len(windows)] for index in range(num_layers)], pp)
    assert sum(stage.count * stage.num_layers for stage in stages) == num_layers
    assert sum(stage.count for stage in stages) == pp
    assert stages[0].embedding
    assert stages[-1].head


def test_mesh_strides_follow_the_order() -> None:
    plan = Strategy(tp=4, cp=2, dp=8, pp=3)
    assert strides(plan) == {"tp": (4, 1), "cp": (2, 4), "dp": (8, 8), "pp": (3, 64)}
    other = dataclasses.replace(plan, mesh=("pp", "tp", "cp", "dp"))
    assert strides(other)["pp"] == (3, 1)
    assert strides(other)["dp"] == (8, 24)


def test_a_valid_plan_breaks_no_rule() -> None:
    assert broken(PLAN) == set()


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"tp": 3}, {"strategy.tp"}),
        ({"tp": 8}, {"strategy.tp"}),
        ({"pp": 32}, {"strategy.pp"}),
        ({"pp": 1, "dp": 3}, {"recipe.global_batch_size", "strategy.dp", "strategy.microbatch_size"}),
        ({"vpp": 2}, {"strategy.schedule"}),
        ({"schedule": "interleaved"}, {"strategy.vpp"}),
        ({"ep": 2}, {"strategy.ep"}),
        ({"etp": 2}, {"strategy.etp"}),
        ({"cp": 3}, {"recipe.seq_len"}),
        ({"cp": 2, "flash_attention": False}, {"strategy.flash_attention"}),
        ({"mesh": ("tp", "tp", "dp", "pp")}, {"strategy.mesh"}),
        ({"stage_layers": (12, 11)}, {"strategy.stage_layers"}),
        ({"stage_layers": (24,)}, {"strategy.stage_layers"}),
    ],
)
def test_each_rule_names_its_field(change: dict[str, object], fields: set[str]) -> None:
    plan = dataclasses.replace(PLAN, **change)  # type: ignore[arg-type]
    problems = rules.check(Workload(model=MODEL, recipe=RECIPE), plan, 8) if change.get("mesh") else None
    found = {problem.field for problem in problems} if problems is not None else broken(plan)
    assert fields <= found


def test_degrees_multiply_to_the_chips() -> None:
    problems = rules.check(Workload(model=MODEL, recipe=RECIPE), PLAN, 16)
    assert [(p.field, p.nearest) for p in problems] == [("strategy.dp", (4,))]


def test_learned_positions_bound_the_sequence() -> None:
    model = dataclasses.replace(MODEL, position="learned", num_positions=1024)
    assert broken(PLAN, model) == {"recipe.seq_len"}


def test_replicated_heads_need_a_multiple() -> None:
    eight = dataclasses.replace(PLAN, tp=8, kv_replication=True)
    assert broken(eight) == set()
    assert rules.warnings(Workload(model=MODEL, recipe=RECIPE), dataclasses.replace(PLAN, num_microbatches=1))
