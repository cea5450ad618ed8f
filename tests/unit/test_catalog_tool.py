"""The catalogue as a tool: a user's own folder, entries made like others, and a check that finds planted faults."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretrain import open_scenario, simulate_scenario
from foretrain.catalog import folders, like, loader
from foretrain.catalog.check import check
from foretrain.cli.main import main
from foretrain.core.errors import InputError, NotFoundError
from foretrain.report.json import as_document

CHIP = """\
name: NVIDIA Test
dense_flop_per_s:
  fp8: {value: 1400 TFLOP/s, source: mine, kind: datasheet}
  fp16: {value: 700 TFLOP/s, source: mine, kind: datasheet}
  bf16: {value: 700 TFLOP/s, source: mine, kind: datasheet}
  tf32: {value: 350 TFLOP/s, source: mine, kind: datasheet}
  fp32: {value: 50 TFLOP/s, source: mine, kind: datasheet}
vector_flop_per_s: {value: 50 TFLOP/s, source: mine, kind: datasheet}
num_sm: {value: 120, source: mine, kind: datasheet}
hbm_byte: {value: 96 GiB, source: mine, kind: datasheet}
hbm_byte_per_s: {value: 4 TB/s, source: mine, kind: datasheet}
l2_byte: {value: 60 MiB, source: mine, kind: datasheet}
tdp_w: {value: 600 W, source: mine, kind: datasheet, date: 2025-03}
idle_w: {value: 70 W, source: assumption, kind: assumption, low: 40 W, high: 120 W}
reserved_byte: {value: 1 GiB, source: assumption, kind: assumption, low: 0.4 GiB, high: 2 GiB}
kernels: hopper
"""
SOURCES = """\
mine: {title: a data sheet, authors: us, year: 2025, url: "https://example.com", licence: facts}
"""
SERVER = """\
like: dgx-h100
name: test server
chip: test
psu_efficiency: {value: 0.95, source: mine, kind: datasheet}
host_idle_w: {value: 1000 W, source: mine, kind: datasheet}
rated_w: {value: 9 kW, source: mine, kind: datasheet}
"""
FABRIC = """\
like: dgx-h100
name: test fabric
tiers:
  0:
    small_efficiency: {value: 0.4, source: mine, kind: datasheet}
  1:
    size: {value: 512, source: mine, kind: datasheet}
    byte_per_s: {value: 400 Gbit/s, source: mine, kind: datasheet}
"""
SYSTEM = """\
like: dgx-h100
server: test
fabric: test
stack: test
site: {like: us-average, name: hall, pue: {value: 1.1, source: mine, kind: datasheet}}
"""
KERNELS = """\
like: hopper
measured_on: NVIDIA Test
matmul_efficiency:
  bf16: {value: 0.7, source: mine, kind: measurement}
attention:
  flash2:
    backward_efficiency: {value: 0.3, source: mine, kind: measurement}
"""
MODEL = """\
source: mine
model: {name: Test, num_layers: 22, hidden_size: 2048, num_heads: 32, num_kv_heads: 4, head_dim: 64, ffn_size: 5632, vocab_size: 32000,
  max_seq_len: 2048}
published_parameters: {value: 1.1e+9, source: mine, kind: paper}
recipe:
  seq_len: {value: 2048, source: mine, kind: paper}
"""
SITE = """\
like: us-average
name: our hall
pue: {value: 1.1, source: mine, kind: datasheet}
location_kg_per_j: {value: 100 g/kWh, source: mine, kind: datasheet}
"""
STACK = """\
like: megatron-core
name: our stack
build: {attention_kernel: flash3}
"""
SOUND = {
    "sources.yaml": SOURCES,
    "chips/test.yaml": CHIP,
    "kernels/test.yaml": KERNELS,
    "servers/test.yaml": SERVER,
    "fabrics/test.yaml": FABRIC,
    "systems/test.yaml": SYSTEM,
    "models/test.yaml": MODEL,
    "sites/test.yaml": SITE,
    "stacks/test.yaml": STACK,
}

FAULTS = [
    # file, what is planted, in place of what, what the check says, and where (line:column, where it can)
    ("chips/test.yaml", "tdp_w: {value: 600 W, source: mine, kind: datasheet, date: 2025-03}", "tdp_w: 600 W", "has no passport", "13:1"),
    ("chips/test.yaml", "{value: 600 W, source: mine,", "{value: 600 W,", "has no passport", "13:1"),
    ("chips/test.yaml", "600 W, source: mine", "600 W, source: nobody", "source 'nobody' is not in sources.yaml", "13:1"),
    ("chips/test.yaml", "600 W, source: mine", "600 W, source: mien", "nearest valid: mine", "13:1"),
    ("chips/test.yaml", "600 W, source: mine, kind: datasheet", "600 W, source: mine, kind: brochure", "kind 'brochure'", "13:1"),
    ("chips/test.yaml", "600 W, source: mine, kind: datasheet", "600 W, source: mine, kind: estimate", "without low and high", "13:1"),
    ("chips/test.yaml", "600 W, source: mine,", "600 W, source: assumption,", "who says so?", "13:1"),
    ("chips/test.yaml", "low: 40 W", "low: 90 W", "low <= value <= high does not hold", "14:1"),
    ("chips/test.yaml", "high: 120 W", "high: 60 W", "low <= value <= high does not hold", "14:1"),
    ("chips/test.yaml", "value: 600 W", "value: 600", "a bare number has no unit", "13:1"),
    ("chips/test.yaml", "value: 600 W", "value: 600 GB", "is in B, expected W", "13:1"),
    ("chips/test.yaml", "value: 4 TB/s", "value: 4 TB", "is in B, expected B/s", "11:1"),
    ("chips/test.yaml", "value: 600 W", "value: 600 watts", "unknown unit 'watts'", "13:1"),
    ("chips/test.yaml", "value: 600 W", "value: 600 kW", "is not plausible; expected 10 W to 10 kW", "13:1"),
    ("chips/test.yaml", "value: 600 W", "value: -600 W", "is out of range; allowed: value in W > 0", "13:1"),
    ("chips/test.yaml", "value: 600 W", "value: .nan", "a bare number has no unit", "13:1"),
    ("chips/test.yaml", "value: 120,", "value: 120.5,", "must be a whole number", "9:1"),
    ("chips/test.yaml", "date: 2025-03", "date: March", "date 'March' is not YYYY", "13:1"),
    ("chips/test.yaml", "date: 2025-03", "date: 2025-13", "date '2025-13' is not YYYY", "13:1"),
    ("chips/test.yaml", "date: 2025-03", "remark: x", "'remark' is not a passport field", "13:1"),
    ("chips/test.yaml", "value: 1400 TFLOP/s", "value: 2800 TFLOP/s", "is 4 times that of bf16, expected 1 or 2", "3:3"),
    ("chips/test.yaml", "bf16: {value: 700", "bf16: {value: 1400", "fp16: is 0.5 times that of bf16", "4:3"),
    ("chips/test.yaml", "value: 350 TFLOP/s", "value: 700.1 GFLOP/s", "tf32: is 0.001 times that of bf16", "6:3"),
    ("chips/test.yaml", "fp32: {value: 50", "fp32: {value: 800", "fp32: is above that of bf16", "7:3"),
    ("chips/test.yaml", "bf16: {value: 700 TFLOP/s,", "bf16: {value: 700 TFLOP/s, note: with sparsity,", "speaks of sparsity", "5:3"),
    ("chips/test.yaml", "value: 120,", "value: 60,", "peak per SM is 1.56 times that of NVIDIA H100 SXM5 80GB", "2:1"),
    ("chips/test.yaml", "bf16: {value: 700 T", "bf16: {value: 700 P", "is not plausible; expected 0.1 TFLOP/s to 100 PFLOP/s", "5:3"),
    ("chips/test.yaml", "value: 96 GiB", "value: 96 GB", "memory comes in GiB", "10:1"),
    ("chips/test.yaml", "value: 60 MiB", "value: 60 MB", "memory comes in GiB", "12:1"),
    ("chips/test.yaml", "value: 96 GiB", "value: 96 MiB", "is not plausible; expected 1 GiB to 4 TiB", "10:1"),
    ("chips/test.yaml", "value: 4 TB/s", "value: 4 Tbit/s", "bits for bytes?", "11:1"),
    ("chips/test.yaml", "value: 70 W", "value: 700 W", "low <= value <= high does not hold", "14:1"),
    ("chips/test.yaml", "{value: 70 W, ", "{value: 600 W, ", "idle_w: is not below tdp_w", "14:1"),
    ("chips/test.yaml", "value: 1 GiB", "value: 48 GiB", "is more than 25% of hbm_byte", "15:1"),
    ("chips/test.yaml", "kernels: hopper", "kernels: hooper", "nearest valid: hopper", "16:1"),
    ("chips/test.yaml", "kernels: hopper", "kernels: {like: volcanic}", "is not in the catalogue of kernels", "16:"),
    ("chips/test.yaml", "kernels: hopper", "kernels: ampere", "matmul_efficiency: lacks fp8", "16:1"),
    ("chips/test.yaml", "num_sm", "num_sms", "is not a known field", "9:1"),
    ("chips/test.yaml", "num_sm: {value: 120, source: mine, kind: datasheet}\n", "", "num_sm: is missing", "1:1"),
    ("chips/test.yaml", "tdp_w:", "num_sm:", "num_sm: is given twice", "13:1"),
    ("chips/test.yaml", "kernels: hopper", "kernels: [hopper", "is not valid YAML", ""),
    ("chips/test.yaml", "kernels: hopper", "like: test", "is not in the catalogue of chips", "16:1"),
    ("chips/test.yaml", "kernels: hopper", "kernels: hopper\nlike: testing", "like: is not in the catalogue of chips", "17:1"),
    ("chips/test.yaml", "name: NVIDIA Test", "name: NVIDIA H100 SXM5 80GB", "is also the name of h100-sxm5-80gb", "1:1"),
    ("kernels/test.yaml", "value: 0.7", "value: 1.7", "is out of range", "4:3"),
    ("kernels/test.yaml", "value: 0.3", "value: 0.5", "backward_efficiency: is above forward_efficiency", "7:5"),
    ("servers/test.yaml", "value: 0.95", "value: 95", "is out of range", "4:1"),
    ("servers/test.yaml", "value: 0.95", "value: 0.095", "is not plausible; expected 0.7 to 1", "4:1"),
    ("servers/test.yaml", "value: 1000 W", "value: 3 kW", "is above host_busy_w", "5:1"),
    ("servers/test.yaml", "value: 9 kW", "value: 900 W", "is below the 4800 W of its chips", "6:1"),
    ("servers/test.yaml", "chip: test", "chip: tset", "nearest valid: test", "3:1"),
    ("servers/test.yaml", "name: test server\n", "", "is also the name of dgx-h100", "1:1"),
    ("fabrics/test.yaml", "value: 512", "value: 8", "is 8, not above that of the tier inside it", "7:5"),
    ("fabrics/test.yaml", "400 Gbit/s", "400 GB/s", "bytes for bits?", "8:5"),
    ("fabrics/test.yaml", "400 Gbit/s", "400 Gbit", "expected B/s", "8:5"),
    ("fabrics/test.yaml", "value: 0.4", "value: 0.9", "small_efficiency: is above efficiency", "5:5"),
    ("systems/test.yaml", "server: test", "server: tets", "is not in the catalogue of servers", "2:1"),
    ("systems/test.yaml", "like: us-average,", "like: mars,", "is not in the catalogue of sites", "5:"),
    ("systems/test.yaml", "value: 1.1", "value: 0.9", "is out of range; allowed: number >= 1", "5:"),
    ("systems/test.yaml", "fabric: test", "fabrics: test", "is not a known field", "3:1"),
    ("systems/test.yaml", "like: dgx-h100\n", "", "is missing", "1:1"),
    ("models/test.yaml", "num_heads: 32", "num_heads: 30", "is 30, not a multiple of num_kv_heads = 4", ""),
    ("models/test.yaml", "ffn_size: 5632", "ffn_size: 8192", "is 1.1e+09, but the model described has", "4:1"),
    ("models/test.yaml", "seq_len: {value: 2048", "seq_len: {value: 4096", "is above the model's max_seq_len = 2048", "6:3"),
    ("models/test.yaml", "source: mine\nmodel", "source: theirs\nmodel", "source 'theirs' is not in sources.yaml", "1:1"),
    ("models/test.yaml", "recipe:\n  seq_len", "recipe:\n  seqlen", "is not a known field of recipe; nearest valid: seq_len", "6:3"),
    ("models/test.yaml", "vocab_size: 32000,", "", "vocab_size: is missing", "2:1"),
    ("models/test.yaml", "model:", "modell:", "model: is missing", ""),
    ("sites/test.yaml", "value: 1.1", "value: 0.9", "is out of range; allowed: number >= 1", "3:1"),
    ("sites/test.yaml", "value: 1.1", "value: 11%", "is out of range", "3:1"),
    ("sites/test.yaml", "100 g/kWh", "100 kg/kWh", "is not plausible; expected 0 g/kWh to 1500 g/kWh", "4:1"),
    ("stacks/test.yaml", "attention_kernel", "attention_kernal", "nearest valid: attention_kernel", "3:9"),
    ("sources.yaml", "year: 2025, ", "", "year is missing", "1:1"),
    ("sources.yaml", "year: 2025", "year: recent", "is not a year", "1:"),
    ("sources.yaml", '"https://example.com"', "see the data sheet", "is not a web address", "1:"),
]  # fmt: skip
FILES = [
    ("chips/My_Chip X.yaml", CHIP.replace("NVIDIA Test", "x"), "an id is lower case"),
    ("chip/x.yaml", CHIP, "is not a kind of entry"),
    ("x.yaml", CHIP, "lies in no folder of a kind"),
    ("chips/x.yml", CHIP, "is not a file called ID.yaml"),
    ("chips/x.yaml", CHIP, "is also the name of test"),
    ("chips/x.yaml", "- a list\n", "must be a mapping"),
    ("chips/x.yaml", "like: x\n", "is not in the catalogue of chips"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound folder with one entry of most kinds."""
    path = tmp_path / "mine"
    for name, text in SOUND.items():
        write(path, name, text)
    return path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def test_a_sound_folder_is_sound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(folder) == []
    assert main(["catalog", "check", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("sound\n")


@pytest.mark.parametrize(("name", "sound", "planted", "message", "place"), FAULTS, ids=[f"{f[0]} {f[3]}" for f in FAULTS])
def test_planted_faults_are_found(folder: Path, name: str, sound: str, planted: str, message: str, place: str) -> None:
    assert SOUND[name].count(sound) == 1
    write(folder, name, SOUND[name].replace(sound, planted))
    found = [problem for problem in check(folder) if message in problem]
    assert found, check(folder)
    assert found[0].startswith(f"{folder / name}:{place}")


@pytest.mark.parametrize(("name", "text", "message"), FILES)
def test_misplaced_files_are_found(folder: Path, name: str, text: str, message: str) -> None:
    write(folder, name, text)
    assert any(message in problem for problem in check(folder))


def test_more_than_twenty_kinds_of_fault_are_planted() -> None:
    assert len({message for *_, message, _ in FAULTS}) > 50


def test_check_says_how_many(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "chips/test.yaml", CHIP.replace("600 W", "600 GB").replace("96 GiB", "96 GB"))
    assert main(["catalog", "check", str(folder)]) == 2
    seen = capsys.readouterr()
    assert len(seen.out.splitlines()) == int(seen.err.split(": ")[-1].split()[0])
    assert all(line.startswith(str(folder)) for line in seen.out.splitlines())
    assert main(["catalog", "check", str(folder / "nothing")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_entries_are_added_and_forgotten(folder: Path) -> None:
    assert "test" not in loader.ids("chips")
    with loader.searching([folder]):
        assert "test" in loader.ids("chips")
        assert loader.load("chips", "test")[0].tdp_w == 600.0
        write(folder, "chips/test.yaml", CHIP.replace("600 W", "500 W"))
        assert loader.load("chips", "test")[0].tdp_w == 500.0
    assert "test" not in loader.ids("chips")
    with pytest.raises(NotFoundError):
        loader.load("chips", "test")


def test_the_environment_lists_folders(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    write(other, "chips/test.yaml", "like: a100-sxm4-80gb\nname: other\n")
    monkeypatch.setenv(folders.VARIABLE, os.pathsep.join([str(folder), str(other)]))
    assert loader.load("chips", "test")[0].name == "NVIDIA Test"
    with loader.searching([other]):
        assert loader.load("chips", "test")[0].name == "other"
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(InputError, match=folders.VARIABLE):
        loader.ids("chips")


def test_an_override_is_like_what_it_stands_in_for(folder: Path) -> None:
    text = "like: h100-sxm5-80gb\ntdp_w: {value: 500 W, source: mine, kind: datasheet}\n"
    write(folder, "chips/h100-sxm5-80gb.yaml", text)
    before = loader.load("chips", "h100-sxm5-80gb")[0]
    with loader.searching([folder]):
        chip, passports = loader.load("chips", "h100-sxm5-80gb")
    assert (chip.tdp_w, chip.hbm_byte, before.tdp_w) == (500.0, before.hbm_byte, 700.0)
    assert (passports["tdp_w"].folder, passports["hbm_byte"].folder) == (str(folder), "")
    scenario = open_scenario("llama-3-8b", on="dgx-h100", catalog=[folder])
    (note,) = [note for note in scenario.assumptions if note.field == "system.server.chip"]
    assert "in place of the catalogue's own entry" in note.reason
    assert str(folder) in note.reason


def test_the_report_names_folders_and_their_sources(folder: Path) -> None:
    scenario = open_scenario("test", on="test", options={"tokens": "1e9"}, catalog=[str(folder)])
    report = as_document(scenario, simulate_scenario(scenario))
    assert report["subject"]["chip"] == "NVIDIA Test"
    reasons = {item["field"]: item["reason"] for item in report["assumptions"]}
    assert {"model", "system", "system.server", "system.server.chip", "system.fabric"} <= set(reasons)
    (source,) = [source for source in report["sources"] if source["key"] == "mine"]
    assert source["title"] == "a data sheet"
    assert {value["folder"] for value in source["values"]} == {str(folder)}
    assert scenario.site.pue == 1.1


def test_a_chip_fits_into_a_system_that_exists(folder: Path) -> None:
    scenario = open_scenario("llama-3-8b", on="dgx-h100", overrides=["system.chip=test", "system.chip.tdp_w=550 W"], catalog=[folder])
    chip = scenario.cluster.server.chip
    assert (chip.name, chip.tdp_w) == ("NVIDIA Test", 550.0)
    assert scenario.passports["system.server.chip.hbm_byte"].source == "mine"
    assert "system.server.chip.tdp_w" not in scenario.passports
    plain = open_scenario("llama-3-8b", on="dgx-h100", overrides=["system.server=dgx-a100", "system.fabric=dgx-a100"])
    assert plain.cluster.server.chip.name == "NVIDIA A100 SXM4 80GB"
    assert not [note for note in plain.assumptions if note.field.startswith("system.server")]


def test_mistakes_in_a_folder_have_a_place(folder: Path) -> None:
    write(folder, "chips/test.yaml", CHIP.replace("600 W", "600 GB"))
    with pytest.raises(InputError, match=r"chips/test.yaml:13:1: system.server.chip.tdp_w: is in B, expected W"):
        open_scenario("llama-3-8b", on="test", catalog=[folder])
    with pytest.raises(InputError) as caught:
        open_scenario("llama-3-8b", on="test", overrides=["system.chip.tdp_w=1 GB"], catalog=[folder])
    assert caught.value.problems[0].where == ""
    write(folder, "chips/test.yaml", CHIP.replace("num_sm", "num_sms"))
    with pytest.raises(InputError) as caught:
        open_scenario("llama-3-8b", on="test", catalog=[folder])
    assert {problem.where for problem in caught.value.problems} == {f"{folder}/chips/test.yaml:{line}:1" for line in (1, 9)}
    write(folder, "chips/test.yaml", "kernels: [\n")
    with pytest.raises(InputError, match=r"chips/test.yaml:2:1: chips.test: is not valid YAML"):
        open_scenario("llama-3-8b", on="test", catalog=[folder])


def test_a_scenario_file_wins_and_is_blamed(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("model: test\nsystem: test\nrecipe: {tokens: 1e9}\nsite:\n  pue: 9\n")
    with pytest.raises(InputError, match=r"scenario.yaml:5:3: site.pue"):
        open_scenario(str(path), catalog=[folder])


def test_likeness_in_a_circle_is_refused(folder: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        write(folder, f"chips/{name}.yaml", f"like: {other}\nname: {name}\n")
    with loader.searching([folder]), pytest.raises(InputError, match="leads back to itself: b -> c -> a -> b"):
        loader.load("chips", "a")


@pytest.mark.parametrize(
    ("below", "above", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"value": 1, "source": "s"}}, {"a": {"value": 2, "source": "t"}}, {"a": {"value": 2, "source": "t"}}),
        ({"a": {"value": 1, "source": "s"}}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": {"0": {"b": 3}}}, {"a": [{"b": 3, "c": 2}]}),
        ({"a": [1]}, {"a": {"1": 2}}, {"a": {"1": 2}}),
        ({"chip": "x"}, {"chip": "y"}, {"chip": "y"}),
        ({"chip": "x"}, {"chip": {"like": "y"}}, {"chip": {"like": "y"}}),
        ({"chip": {"like": "x", "b": 1}}, {"chip": {"b": 2}}, {"chip": {"like": "x", "b": 2}}),
    ],
)
def test_laying_over(below: Any, above: Any, result: Any) -> None:
    assert like.laid_over(below, above, {"chip": "chips"}) == result


def test_lists_show_the_main_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "list", "chips", "--catalog", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "name", "memory", "bandwidth", "dense", "peak", "TDP"]
    (row,) = [line for line in lines if line.startswith("test ")]
    assert all(text in row for text in ("96 GiB", "4 TB/s", "700 TFLOP/s bf16", "600 W"))
    for kind in loader.KINDS:
        assert main(["catalog", "list", kind, "--json"]) == 0
        assert [row["id"] for row in json.loads(capsys.readouterr().out)] == list(loader.ids(kind))


def test_show_has_every_number_with_its_passport(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", "H100-SXM5-80GB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["id"]) == ("chips", "h100-sxm5-80gb")
    numbers = {number["path"]: number for number in document["numbers"]}
    assert numbers["idle_w"]["low"] == "60 W"
    assert set(numbers) == set(loader.load("chips", "h100-sxm5-80gb")[1])
    assert {number["source"] for number in numbers.values()} == set(document["sources"])
    assert main(["catalog", "show", "test", "--catalog", str(folder)]) == 2
    assert "say which kind" in capsys.readouterr().err
    assert main(["catalog", "show", "systems", "test", "--catalog", str(folder)]) == 0
    assert f"systems/test.yaml of {folder}" in capsys.readouterr().out
    for kind in loader.KINDS:
        assert main(["catalog", "show", kind, loader.ids(kind)[0]]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "answer"),
    [(("chips", "h100"), "h100-sxm5-80gb"), (("chps", "x"), "chips"), (("lama-3-8b",), "llama-3-8b"), (("systems", "DGX-H10"), "dgx-h100")],
)
def test_misses_get_the_nearest_names(words: tuple[str, ...], answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", *words]) == 2
    assert answer in capsys.readouterr().err.split("nearest valid: ")[1]


JUNK = (
    "3", "[]", "{}", "[a, 1]", "null", "true", "text", "-1", "9e999",
    "{like: 3}", "{like: [x]}", "{like: test}", "{value: 1}", "{value: [1], source: mine}",
)  # fmt: skip
PLAN = {"tokens": "1e9", "tp": 2, "pp": 1, "zero": 1, "recompute": "none", "microbatch_size": 1}


def junk_files() -> list[tuple[str, str]]:
    """Every sound file with one of its lines' values replaced by something else."""
    found = []
    for name, text in SOUND.items():
        lines = text.splitlines()
        for index, line in enumerate(lines):
            key, colon, _ = line.partition(":")
            if colon:
                found += [(name, "\n".join([*lines[:index], f"{key}: {junk}", *lines[index + 1 :]]) + "\n") for junk in JUNK]
    return found


def test_no_file_breaks_the_tool(folder: Path, fuzz_count: Callable[[int, int], int]) -> None:
    """Whatever a user's file holds: an answer or an InputError, and the check never fails."""
    for name, text in random.Random(1).sample(junk_files(), fuzz_count(50, 600)):  # noqa: S311
        write(folder, name, text)
        for problem in check(folder):
            assert problem
        for words in ({"model": "test", "on": "test"}, {"model": "llama-3-8b", "on": "dgx-h100", "overrides": ["system.chip=test"]}):
            with contextlib.suppress(InputError):
                open_scenario(**words, options=PLAN, catalog=[folder])
        write(folder, name, SOUND[name])
