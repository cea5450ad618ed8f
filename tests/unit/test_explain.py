"""Traced numbers and the explanations made of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from foretrain.cli.main import main
from foretrain.core.errors import NotFoundError
from foretrain.core.numeric import at_least, ceil_div, first_largest, log2, maximum, minimum, positive, sqrt, stack
from foretrain.core.traced import Graph, Traced, elasticities, evaluate, leaves, order
from foretrain.cost.finance import capital_recovery
from foretrain.report.explain import explain, screen
from foretrain.report.names import home
from foretrain.simulate.open import open_scenario

PLAN = ("llama-3.1-8b", "--on", "dgx-h100", "--chips", "64", "--tp", "2", "--pp", "2")
SCENARIO = open_scenario("llama-3.1-8b", "dgx-h100", 64, {"tp": 2, "pp": 2})


def two() -> tuple[Traced, Traced]:
    graph = Graph()
    return graph.leaf("a", 5.0), graph.leaf("b", 3.0)


def test_helpers_record_what_they_do() -> None:
    a, b = two()
    for value, expected in (
        (maximum(a, b), 5.0), (minimum(a, 2.0), 2.0), (ceil_div(a, b), 2.0), (sqrt(a * a), 5.0), (log2(a + b), 3.0),
        (positive(a), 1.0), (at_least(b, a), 0.0), (np.ceil(a / b), 2.0), (-a + 1, -4.0), (2**b, 8.0), (abs(-a), 5.0), (a % b, 2.0),
    ):  # fmt: skip
        assert isinstance(value, Traced)
        assert value.value == evaluate(value) == expected


def test_a_result_follows_its_leaves_through_a_maximum() -> None:
    a, b = two()
    assert evaluate(maximum(a, b) * 2.0, {"b": 7.0}) == 14.0


def test_steps_that_change_nothing_leave_no_node() -> None:
    a, b = two()
    assert a + 0 is a
    assert 0.0 + a is a
    assert 1 * a is a
    assert a / 1 is a
    assert 0.0 * a == 0.0
    assert not isinstance(0.0 * a, Traced)
    assert a + b is a + b
    assert a - b is not b - a


def test_arrays_of_traced_numbers() -> None:
    a, b = two()
    column = stack([a, 1.0, b])
    assert column.dtype == object
    summed = np.array([[1.0, 0.0, 1.0]]) @ maximum(column, 4.0)
    assert summed[0].value == 9.0
    assert {leaf.path for leaf in leaves(summed[0])} == {"a", "b"}
    assert [float(x) for x in np.ceil(column / 2.0)] == [3.0, 1.0, 2.0]


def test_words_read_a_traced_number_by_its_value() -> None:
    a, b = two()
    assert (a > b, a >= 5, a < b, a <= b, a == 5.0, bool(a - 5.0)) == (True, True, False, False, True, False)
    assert list(range(Graph().leaf("n", 2))) == [0, 1]
    assert (int(a), float(a), f"{a:.1f}") == (5, 5.0, "5.0")
    assert ((1,) * Graph().leaf("n", 2), [0] * Graph().leaf("n", 1)) == ((1, 1), [0])
    assert len({a, Graph().leaf("a", 5.0)}) == 2


def test_division_by_zero_is_that_of_arrays() -> None:
    a, b = two()
    assert (a / (b - 3.0)).value == math.inf
    assert math.isnan(((a - 5.0) / (b - 3.0)).value)


def test_the_first_of_equal_maxima_is_chosen() -> None:
    a, b = two()
    assert [float(weight) for weight in first_largest([b, a, a * 1.0])] == [0.0, 1.0, 0.0]


def test_elasticities() -> None:
    a, b = two()
    found = elasticities(a * a / b)
    assert found == {"a": pytest.approx(2.0), "b": pytest.approx(-1.0)}
    growth = elasticities(capital_recovery(Graph().leaf("rate", 0.05), 10.0))
    assert growth["rate"] == pytest.approx((capital_recovery(0.05001, 10.0) / capital_recovery(0.04999, 10.0) - 1) / 4e-4, rel=1e-3)
    assert elasticities(maximum(a, b)) == {"a": 1.0, "b": 0.0}


def test_nodes_know_the_function_and_the_name_they_were_given() -> None:
    payment = capital_recovery(Graph().leaf("rate", 0.05), 10.0)
    assert payment.place is not None
    found = home(payment.place)
    assert found.function == "foretrain.cost.finance.capital_recovery"
    assert found.name == "capital_recovery"


def test_step_is_the_sum_of_its_parts() -> None:
    tree = explain(SCENARIO, "step.step_s")["tree"]
    assert tree["home"] == "foretrain.schedule.closedform.ClosedForm.step_time"
    assert "step.parts.matmul" in tree["formula"]
    assert math.isclose(sum(part["value"] for part in tree["operands"]), tree["value"], rel_tol=1e-12)


def test_inputs_carry_their_passports() -> None:
    document = explain(SCENARIO, "step.mfu")
    rows = {row["path"]: row for row in document["inputs"]}
    peak = rows["system.server.chip.dense_flop_per_s.bf16"]
    assert (peak["kind"], peak["value_text"]) == ("datasheet", "989.4 TFLOP/s")
    assert peak["source"]
    assert rows["strategy.tp"]["kind"] == "given"
    assert rows["strategy.microbatch_size"]["kind"] == "chosen"
    assert rows["model.hidden_size"]["kind"] == "model"
    sizes = [abs(row["elasticity"]) for row in document["inputs"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_replaced_number_is_given() -> None:
    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 64, {"tp": 2}, ["site.pue=1.5"])
    rows = {row["path"]: row for row in explain(scenario, "energy.total_j")["inputs"]}
    assert rows["site.pue"]["kind"] == "given"
    assert rows["site.pue"]["value"] == 1.5
    assert rows["models.power.matrix"]["kind"] == "estimate"


@pytest.mark.parametrize("figure", ["cost.owned_usd", "memory.peak_byte", "carbon.total_kg", "step.time.bubble_fraction", "run.goodput"])
def test_other_figures_are_explained(figure: str) -> None:
    document = explain(SCENARIO, figure, depth=6)
    assert document["recomputed"] == pytest.approx(document["value"], rel=1e-12)
    assert screen(document)[0].startswith(f"{figure} = ")


def test_long_sums_are_folded() -> None:
    scenario = open_scenario("gpt3-175b", "dgx-h100", 512, {"tp": 8, "pp": 8, "microbatch_size": 1, "recompute": "full"})
    tree = explain(scenario, "step.parts.memory_bound", depth=4)["tree"]
    waiting, folded = [tree], 0
    while waiting:
        entry = waiting.pop()
        waiting += entry.get("operands", [])
        if entry.get("further_terms", {}).get("count"):
            folded += 1
            assert entry["formula"].endswith("further terms")
    assert folded


def test_depth_limits_the_tree() -> None:
    def deepest(entry: dict) -> int:
        return 1 + max(map(deepest, entry.get("operands", [])), default=0)

    assert [deepest(explain(SCENARIO, "cost.total_usd", depth)["tree"]) for depth in (1, 2, 3)] == [2, 3, 4]


def test_a_constant_is_called_one() -> None:
    document = explain(open_scenario("llama-3.1-8b", "dgx-h100", 64, {"tp": 2, "pp": 1, "recompute": "none"}), "step.parts.recompute")
    assert document["tree"]["kind"] == "literal"
    assert screen(document) == ["step.parts.recompute = 0 s  (constant)"]


def test_unknown_figure_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match=r"cost\.total_usd"):
        explain(SCENARIO, "cost.totl_usd")
    with pytest.raises(NotFoundError, match=r"step\.mfu"):
        explain(SCENARIO, "mfu")


def test_a_plan_out_of_memory_has_memory_to_explain_and_no_step() -> None:
    scenario = open_scenario("llama-3.1-405b", "dgx-h100", 8, {"tp": 8, "pp": 1, "recompute": "full"})
    assert explain(scenario, "memory.device_byte")["value"] > 80e9
    with pytest.raises(NotFoundError, match="does not fit"):
        explain(scenario, "step.step_s")


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", PLAN[0], "step.mfu", *PLAN[1:]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("step.mfu = 0.")
    assert "datasheet" in out
    assert out.isascii()
    assert main(["explain", PLAN[0], "step.mfu", *PLAN[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figure"] == "step.mfu"


@pytest.mark.parametrize("more", [("nonsense",), ("step.mfu", "--depth", "0"), ("step.mfu", "--depth", "many")])
def test_command_refuses(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", PLAN[0], *more, *PLAN[1:]]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_every_node_can_be_reached_and_evaluated() -> None:
    a, b = two()
    nodes = order(maximum(a * b, a + b) - sqrt(b))
    assert [node.op for node in nodes][-1] == "-"
    assert len(nodes) == 7
