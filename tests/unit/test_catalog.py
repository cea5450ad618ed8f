"""The catalogue: sound entries, helpful errors, and a door that no file breaks."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foretrain.catalog import loader, yamlfile
from foretrain.catalog.check import check, check_entry, check_source
from foretrain.catalog.provenance import KINDS, split
from foretrain.catalog.schema import mark_at, plain, validate
from foretrain.core.errors import InputError, NotFoundError
from foretrain.strategy.strategy import Strategy
from foretrain.system.chip import Chip
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site
from foretrain.workload.recipe import Recipe


def test_every_entry_is_sound() -> None:
    assert check() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(tdp_w="400 W"), "has no passport"),
        (lambda d: d["tdp_w"].pop("source"), "has no passport"),
        (lambda d: d["tdp_w"].update(source="nobody"), "not in sources.yaml"),
        (lambda d: d["tdp_w"].update(kind="guess"), "kind 'guess'"),
        (lambda d: d["tdp_w"].update(kind="estimate"), "without low and high"),
        (lambda d: d["tdp_w"].update(value="400"), "bare number"),
        (lambda d: d["tdp_w"].update(value="400 GB"), "expected W"),
        (lambda d: d["tdp_w"].update(low="500 W", high="600 W"), "low <= value <= high"),
        (lambda d: d["tdp_w"].update(high="300 W"), "low <= value <= high"),
        (lambda d: d["tdp_w"].update(date="last year"), "date"),
        (lambda d: d["tdp_w"].update(remark="x"), "not a passport field"),
        (lambda d: d.update(colour={"value": 1, "source": "assumption", "kind": "datasheet"}), "is not a number of its record"),
        (lambda d: d.update(wheels="four"), "is not a known field"),
        (lambda d: d.pop("num_sm"), "is missing"),
        (lambda d: d.update(kernels={"like": "ampere", "wave_s": "1 us"}), "has no passport"),
        (lambda d: d.update(kernels="volcanic"), "is not in the catalogue of kernels"),
    ],
)
def test_planted_faults_are_found(change: Any, message: str) -> None:
    document = copy.deepcopy(loader.raw("chips", "a100-sxm4-80gb"))
    change(document)
    assert any(message in problem for problem in check_entry("chips", "a100-sxm4-80gb", document, loader.sources()))


def test_faults_of_systems_models_and_sources_are_found() -> None:
    system = {**loader.raw("systems", "dgx-a100"), "site": "mars"}
    (problem,) = check_entry("systems", "x", system, {})
    assert problem.startswith("systems.x.site: is not in the catalogue of sites (got 'mars')")
    model = {**loader.raw("models", "gpt2-124m"), "source": "nobody"}
    assert check_entry("models", "x", model, loader.sources())
    assert check_source("x", {"title": "t"}) == [f"sources.x: {field} is missing" for field in ("authors", "year", "url", "licence")]


@pytest.mark.parametrize("kind", [kind for kind in loader.KINDS if kind != "systems"])
def test_every_entry_loads(kind: str) -> None:
    for name in loader.ids(kind):
        record, passports = loader.load(kind, name)
        document = loader.record_document(kind, loader.entry(kind, name, "").document)
        assert isinstance(record, loader.record_type(kind, document))
        assert all(passport.kind in KINDS for passport in passports.values())


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200"])
def test_systems_are_whole_and_their_peaks_are_dense(name: str) -> None:
    cluster, passports = loader.load_system(name, 16)
    chip = cluster.server.chip
    assert cluster.num_chips == 16
    assert chip.dense_flop_per_s["bf16"] == {"dgx-a100": 312e12, "dgx-h100": 989.4e12, "dgx-b200": 2250e12}[name]
    assert cluster.fabric.tiers[0].size == cluster.server.num_chips == 8
    assert passports["system.server.chip.tdp_w"].kind == "datasheet"
    assert {path.split(".")[0] for path in passports} == {"system"}


def test_unknown_names_get_the_nearest_and_all() -> None:
    with pytest.raises(NotFoundError) as caught:
        loader.load("models", "llama-3.1-405")
    (problem,) = caught.value.problems
    assert problem.field == "model"
    assert problem.nearest[0] == "llama-3.1-405b"
    assert "gpt3-175b" in problem.allowed
    for name in ("../sources", "", "a/b", "NVIDIA FOO9000"):
        with pytest.raises(NotFoundError):
            loader.raw("chips", name)


def test_passports_are_split_from_values() -> None:
    document, passports = split(
        {"a": [{"b": {"value": "1 W", "source": "s", "kind": "estimate", "low": "0 W", "high": "2 W"}}], "c": 3}, "root"
    )
    assert document == {"a": [{"b": "1 W"}], "c": 3}
    assert passports["root.a.0.b"].low == "0 W"


def test_importing_the_catalogue_is_light() -> None:
    code = "import sys, foretrain.catalog.loader, foretrain.formats.hf; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert done.stdout.strip() == "False"


SITE = {
    "name": "here", "pue": 1.1, "location_kg_per_j": "100 g/kWh", "market_kg_per_j": "0 g/kWh", "intensity_definition": "x",
    "electricity_usd_per_j": "0.1 USD/kWh", "wue_l_per_j": "0.1 l/kWh",
}  # fmt: skip


def site_problem(**changes: Any) -> Any:
    with pytest.raises(InputError) as caught:
        validate(Site, {**SITE, **changes}, "site")
    (problem,) = caught.value.problems
    return problem


def test_the_door_reads_units_and_names_what_is_wrong() -> None:
    assert validate(Site, SITE, "site").electricity_usd_per_j == pytest.approx(0.1 / 3.6e6)
    assert site_problem(pue=0.9).nearest == ("1",)
    assert site_problem(pue=0.9).allowed == "number >= 1 and <= 5"
    assert site_problem(pue=6).nearest == ("5",)
    assert site_problem(location_kg_per_j=100).field == "site.location_kg_per_j"
    assert "g/kWh" in site_problem(location_kg_per_j=100).message
    assert site_problem(location_kg_per_j="-1 g/kWh").nearest == ("0 kg/J",)
    misspelt = site_problem(peu=1.1)
    assert (misspelt.message, misspelt.nearest) == ("is not a known field", ("pue",))


def test_all_problems_come_at_once_with_their_places() -> None:
    text = "name: here\npue: 0.5\nwue_l_per_j: 3\n"
    document, where = yamlfile.parse(text, "site.yaml", "site")
    with pytest.raises(InputError) as caught:
        validate(Site, document, "site", where)
    problems = {problem.field: problem for problem in caught.value.problems}
    assert problems["site.pue"].where == "site.yaml:2:1"
    assert problems["site.wue_l_per_j"].where == "site.yaml:3:1"
    assert problems["site.market_kg_per_j"].message == "is missing"


def test_words_get_the_nearest_word() -> None:
    with pytest.raises(InputError) as caught:
        validate(Strategy, {"recompute": "ful", "build": {"attention_kernel": "flash22"}, "tp": 1.5}, "strategy")
    problems = {problem.field: problem for problem in caught.value.problems}
    assert problems["strategy.recompute"].nearest[0] == "full"
    assert problems["strategy.build.attention_kernel"].nearest[0] == "flash2"
    assert problems["strategy.tp"].nearest == ("2",)


def test_wrong_shapes_are_said_in_plain_words() -> None:
    assert site_problem(name=3).message == "must be text"
    wrong = {"stage_layers": 4, "overlap_p2p": "perhaps", "build": "fast"}
    with pytest.raises(InputError) as caught:
        validate(Strategy, wrong, "strategy")
    messages = {problem.field: problem.message for problem in caught.value.problems}
    assert messages == {
        "strategy.stage_layers": "must be a list",
        "strategy.overlap_p2p": "must be true or false",
        "strategy.build": "must be a mapping of fields",
    }


def test_marks_are_found_through_mappings_tuples_and_optional_records() -> None:
    assert mark_at(Chip, ("dense_flop_per_s", "bf16")).unit == "FLOP/s"  # type: ignore[union-attr]
    assert mark_at(Chip, ("kernels", "attention", "flash2", "q_tile")).ge == 16  # type: ignore[union-attr]
    assert mark_at(Cluster, ("fabric", "tiers", "1", "hop_s")).unit == "s"  # type: ignore[union-attr]
    assert mark_at(Recipe, ("batch_ramp", "tokens")).gt == 0  # type: ignore[union-attr]
    assert mark_at(Chip, ("name",)) is None
    assert mark_at(Chip, ("nothing", "here")) is None


def test_plain_is_the_way_back() -> None:
    cluster, _ = loader.load_system("dgx-h100", 8)
    assert plain(cluster)["server"]["chip"]["tdp_w"] == 700.0


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\na: 2", "2:1", "given twice"),
        ("b: {a: 1, a: 2}", "1:11", "given twice"),
        ("a: &x [1]\nb: [*x, *x]", "2:5", "aliases"),
        ("a: &x {b: 1}\n<<: *x", "2:5", "aliases"),
        ("<<: {a: 1}", "1:1", "merge"),
        ("a: !!python/object/apply:os.system [x]", "1:4", "tags"),
        ("a: !!bool 3", "1:4", "tags"),
        ("a: 2020-13-45", "1:4", "plain value"),
        ("a: " + "9" * 6000, "1:4", "plain value"),
        ("- a", "1:1", "mapping"),
        ("", "1:1", "mapping"),
        ("just text", "1:1", "mapping"),
        ("a: 1\n---\nb: 2", "2:1", "not valid YAML"),
        ("a:\n\t- b", "2:1", "not valid YAML"),
        ("a: \x00", "1:4", "not valid YAML"),
        ("? [a]\n: 1", "1:3", "plain text"),
        ("[" * 100_000, "1:", "nest"),
        ("a: " + "{a: " * 100_000, "1:", "nested deeper"),
        ("\n".join(f"k{i}: 1" for i in range(30_000)), "10000:", "more than"),
    ],
)
def test_dangerous_or_broken_yaml_is_refused_with_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        yamlfile.parse(text, "f.yaml", "scenario")
    (problem,) = caught.value.problems
    assert problem.where.startswith(f"f.yaml:{place}")
    assert message in problem.message


def test_keys_are_text_whatever_yaml_thinks_of_them() -> None:
    assert yamlfile.parse("on: dgx-h100\n1: 2\nyes: no", "f", "f")[0] == {"on": "dgx-h100", "1": 2, "yes": False}


def test_places_follow_mappings_and_lists() -> None:
    _, where = yamlfile.parse("a:\n  b:\n    - c: 1\n      d: 2\n", "f", "f")
    assert where(("a", "b", "0", "d")) == "f:4:7"
    assert where(("a", "nothing")) == "f:1:1"


def test_files_are_small_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError) as caught:
        yamlfile.read_text(path, "scenario")
    assert caught.value.problems[0].where.endswith(":2:4")
    path.write_bytes(b"#" * (yamlfile.MAX_BYTE + 1))
    for wrong in (path, tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(InputError):
            yamlfile.read_text(wrong, "scenario")
