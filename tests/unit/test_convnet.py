"""Convolutional networks: published counts, ops against closed forms, memory, rules, report, and the laws every program obeys."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from foretrain.catalog import loader
from foretrain.cli.main import main
from foretrain.core.errors import InputError
from foretrain.core.terms import total
from foretrain.program.lower import lower
from foretrain.program.program import Program
from foretrain.report.json import as_document
from foretrain.report.text import plain, screen
from foretrain.simulate.batch import stack_plans
from foretrain.simulate.open import open_scenario
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.strategy import rules
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet, Layer, Section, largest_layer_parameters, num_classes, num_macs, num_parameters, place
from foretrain.workload.counting import num_parameters as count_any
from foretrain.workload.model import Model
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe, Workload
from tests.laws.test_plan_laws import figures
from tests.plans import base, with_plan

PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "vgg-16": (138_357_544, 15.47),
    "vgg-19": (143_667_240, 19.63),
    "resnet-50": (25_557_032, 4.09),
    "resnet-101": (44_549_160, 7.80),
    "resnet-152": (60_192_808, 11.51),
    "inception-v3": (27_161_264, 5.71),
    "mobilenet-v2": (3_504_872, 0.30),
    "efficientnet-b0": (5_288_548, 0.386),
    "efficientnet-b1": (7_794_184, 0.687),
    "efficientnet-b2": (9_109_994, None),
    "efficientnet-b3": (12_233_232, 1.83),
    "efficientnet-b4": (19_341_616, 4.39),
    "efficientnet-b5": (30_389_784, 10.27),
    "efficientnet-b6": (43_040_704, 19.07),
    "efficientnet-b7": (66_347_960, 37.75),
}
"""Parameters and 10^9 multiply-accumulates of a forward pass, as listed with torchvision's weights (B2's are for larger images)."""
STEM = Section(name="stem", layers=(Layer(kind="conv", channels=8, kernel=3, padding=1, norm=True, activation="relu"),))
HEAD = Section(name="head", layers=(Layer(kind="global_pool"), Layer(kind="linear", channels=10, bias=True)))
RECIPE = Recipe(seq_len=1, global_batch_size=256, tokens=1e6, optimizer="sgd", flop_convention="convolutions")


def net(*layers: Layer, repeat: int = 1, size: int = 32) -> ConvNet:
    return ConvNet(name="tiny", image_size=size, sections=(STEM, Section(name="body", layers=layers, repeat=repeat), HEAD))


def shipped(name: str) -> ConvNet:
    found = loader.load("models", name)[0]
    assert isinstance(found, ConvNet)
    return found


def program(model: ConvNet, **plan: object) -> Program:
    return lower(Workload(model=model, recipe=RECIPE), Strategy(**plan))  # type: ignore[arg-type]


def scenario(model: str = "resnet-50", **plan: object) -> Scenario:
    return open_scenario(model, "dgx-a100", 8, plan)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name: str) -> None:
    parameters, billion = PUBLISHED[name]
    assert num_parameters(shipped(name)) == parameters == count_any(shipped(name))
    if billion is not None:
        assert num_macs(shipped(name)) / 1e9 == pytest.approx(billion, rel=0.01)


def test_inception_without_its_auxiliary_head() -> None:
    whole = shipped("inception-v3")
    rest = dataclasses.replace(whole, sections=tuple(section for section in whole.sections if section.name != "auxiliary head"))
    assert num_parameters(rest) == 23_834_568


def test_sizes_follow_from_the_image() -> None:
    sizes = [section.layers[-1].outputs for section in place(shipped("resnet-50"))]
    assert [(one.channels, one.height) for one in sizes[:-1:2]] == [(64, 56), (256, 56), (512, 28), (1024, 14), (2048, 7)]
    assert {section.name: section.layers[-1].outputs.width for section in place(shipped("inception-v3"))}["8 x 8"] == 8
    assert num_classes(shipped("vgg-19")) == 1000
    assert largest_layer_parameters(shipped("vgg-16")) == 512 * 7 * 7 * 4096 + 4096


def test_a_kernel_that_is_not_square_is_padded_where_it_is_long() -> None:
    placed = place(net(Layer(kind="conv", channels=8, kernel=1, kernel_width=7, padding=3)))[1].layers[0]
    assert (placed.outputs.height, placed.outputs.width, placed.area) == (32, 32, 7)


@pytest.mark.parametrize("name", ["resnet-50", "vgg-16", "inception-v3"])
def test_products_are_the_models_flop(name: str) -> None:
    """Forward 2 MAC, backward twice that but for the input's gradient of the first layer."""
    model, images = shipped(name), 4.0
    found = program(model, microbatch_size=images)
    flop = {"forward": 0.0, "backward": 0.0}
    for index, repeat in found.stages[0].repeats:
        table = found.blocks[index].ops.matmuls
        for phase, value in zip(table.phase, 2 * table.m * table.n * table.k * table.batch, strict=True):
            flop[phase] += repeat * float(value)
    first = place(model)[0].layers[0]
    assert flop["forward"] == pytest.approx(2 * images * num_macs(model), rel=1e-12)
    assert flop["backward"] == pytest.approx(2 * flop["forward"] - 2 * images * first.macs, rel=1e-12)
    assert float(found.model_flop) == pytest.approx(3 * flop["forward"], rel=1e-12)


def test_a_convolution_is_an_implicit_gemm() -> None:
    ops = program(net(Layer(kind="conv", channels=16, kernel=3, stride=2, padding=1, groups=2)), microbatch_size=4).blocks[1].ops
    table = ops.matmuls
    assert table.name == ("conv 3x3", "conv 3x3 dgrad", "conv 3x3 wgrad")
    assert [float(column[0]) for column in (table.m, table.n, table.k, table.batch)] == [4 * 16 * 16, 8, 4 * 9, 2]
    assert float(table.byte[0]) == 2.0 * (4 * (8 * 32 * 32 + 16 * 16 * 16) + 16 * 4 * 9)
    assert [float(column[1]) for column in (table.m, table.n, table.k)] == [4 * 32 * 32, 4, 8 * 9 / 4]


def test_depthwise_convolutions_are_streams() -> None:
    model = net(Layer(kind="depthwise", kernel=3, padding=1))
    ops = program(model, microbatch_size=4).blocks[1].ops
    assert not ops.matmuls.name
    assert ops.streams.name == ("depthwise 3x3", "depthwise 3x3 dgrad", "depthwise 3x3 wgrad")
    assert float(ops.streams.byte[0]) == 2.0 * (4 * 2 * 8 * 32 * 32 + 8 * 9)
    assert float(ops.streams.flop[0]) == 2.0 * 4 * 8 * 32 * 32 * 9
    assert place(model)[1].layers[0].parameters == 72


def test_the_layer_that_reads_the_image_needs_no_gradient_of_it() -> None:
    names = program(shipped("resnet-50")).blocks[0].ops.matmuls.name
    assert names == ("conv 7x7", "conv 7x7 wgrad")


def test_unfused_activations_cost_five_passes() -> None:
    plan = Strategy(build=dataclasses.replace(Strategy().build, fused_activation=False))
    fused, apart = (
        lower(Workload(model=net(Layer(kind="conv", channels=4, norm=True, activation="relu")), recipe=RECIPE), each).blocks[1].ops
        for each in (Strategy(), plan)
    )
    assert float(np.sum(apart.streams.byte) - np.sum(fused.streams.byte)) == 5 * 2.0 * 4 * 32 * 32


def test_kept_tensors() -> None:
    """What a residual block keeps: the inputs of its normalisations, its activations' outputs and the sum; not what the sum reads."""
    inner = (Layer(kind="conv", channels=8, norm=True, activation="relu"), Layer(kind="conv", channels=8, norm=True))
    block = Layer(kind="branches", activation="relu", branches=(inner, ()))
    memory = [program(net(block, repeat=repeat), microbatch_size=2).stages[0].memory_byte["activations"] for repeat in (1, 2)]
    statistics = 2 * 16 * 4.0
    assert memory[1] - memory[0] == 2 * 2.0 * 8 * 32 * 32 * (1 + 1 + 1 + 1) + statistics


@pytest.mark.parametrize(
    ("layer", "elements_byte"),
    [
        (Layer(kind="conv", channels=8, norm=True, activation="silu"), 3 * 2.0),
        (Layer(kind="conv", channels=8), 2.0),
        (Layer(kind="dropout"), 2.0 + 1.0),
        (Layer(kind="max_pool", kernel=3, padding=1), 2.0 + 8.0),
        (Layer(kind="branches", join="concat", branches=((), ())), 2.0 * 2.0),
    ],
)
def test_kept_bytes_by_kind(layer: Layer, elements_byte: float) -> None:
    plain_net = program(net(Layer(kind="conv", channels=8))).stages[0].memory_byte["activations"]
    both = net(Layer(kind="conv", channels=8), Layer(kind="conv", channels=8), layer)
    more = program(both).stages[0].memory_byte["activations"]
    statistics = 2 * 8 * 4.0 * layer.norm
    conv = 2.0 * 8 * 32 * 32 * (layer.kind != "dropout")  # dropout does not need its input, so the convolution before keeps none
    head = 2.0 * 8 * (layer.join == "concat")  # twice the channels in the means that the head reads
    assert more - plain_net == elements_byte * 8 * 32 * 32 + conv + statistics + head


def test_resnet_memory_is_what_is_known() -> None:
    """About 88 MB an image in fp32 (22 GB at a batch of 256), half of it in 16 bits."""
    memory = program(shipped("resnet-50"), microbatch_size=256).stages[0].memory_byte
    assert float(memory["activations"]) / 256 == pytest.approx(44e6, rel=0.1)
    assert float(memory["weights"]) == 2 * 25_557_032


def test_scalar_equals_array() -> None:
    case = base_case()
    plans = [
        dataclasses.replace(case.strategy, dp=dp, microbatch_size=size, num_microbatches=count, zero=zero, dp_replicate=1)
        for dp in (1, 2, 8, 64) for size in (1, 7, 32, 256) for count in (1, 3) for zero in (0, 1, 2, 3)
    ]  # fmt: skip
    compared = 0
    for members, strategy in stack_plans(plans):
        together = figures(simulate_scenario(with_plan(case, strategy)))
        for position, index in enumerate(members):
            for path, value in figures(simulate_scenario(with_plan(case, plans[index]))).items():
                column = np.broadcast_to(np.asarray(together[path], dtype=float), len(members))[position]
                assert math.isclose(float(value), column, rel_tol=1e-12, abs_tol=1e-300), (path, plans[index])
            compared += 1
    assert compared == len(plans)


def base_case() -> Scenario:
    llama = base()
    workload = Workload(model=shipped("efficientnet-b0"), recipe=RECIPE)
    return dataclasses.replace(llama, workload=workload, strategy=Strategy())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parts_add_up(name: str) -> None:
    result = simulate_scenario(scenario(name, microbatch_size=16))
    step = result.step
    assert math.isclose(float(total(step.time.parts_s)), float(step.time.step_s), rel_tol=1e-12)
    assert math.isclose(float(total(step.memory.parts_byte)), float(step.memory.peak_byte), rel_tol=1e-12)
    assert all(float(part) >= 0 for part in (*step.time.parts_s.values(), *step.memory.parts_byte.values()))
    assert 0 < float(step.mfu) < 1


def test_one_chip_does_not_talk() -> None:
    result = simulate_scenario(open_scenario("resnet-50", "dgx-a100", 1, {"microbatch_size": 64}))
    assert float(result.step.time.parts_s["dp_exposed"]) == 0.0
    assert float(result.program.num_communicators) == 0.0


def test_gradients_are_reduced_once_per_step() -> None:
    (reduce, *rest) = program(shipped("vgg-16"), dp=8).step_collectives
    assert (reduce.op, reduce.payload_byte, reduce.hidden_under) == ("all_reduce", 4.0 * 138_357_544, "phase")
    assert all(float(call.group.size) == 1 for call in rest)


def test_more_images_at_a_time_are_faster_per_image() -> None:
    speeds = []
    for images in (8, 32, 128):
        options = {"microbatch_size": images, "global_batch_size": 8 * images}
        speeds.append(float(simulate_scenario(open_scenario("resnet-50", "dgx-a100", 8, options)).step.token_per_s_per_chip))
    assert speeds == sorted(speeds)
    assert 1000 < speeds[-1] < 5000


def test_report_speaks_of_images() -> None:
    case = scenario()
    document = as_document(case, simulate_scenario(case))
    text = plain(screen(document))
    assert document["subject"]["sample"] == "image"
    assert document["step"]["flop_convention"] == document["program"]["flop_convention"] == "convolutions"
    assert "images/s/chip" in text
    assert "= 256 images" in text
    assert not {"tokens", "sequences", "attention"} & set(text.replace(",", " ").split())
    json.dumps(document, allow_nan=False)


def test_batch_without_a_published_one() -> None:
    recipe = open_scenario("efficientnet-b7", "dgx-a100", 24, {"microbatch_size": 1}).workload.recipe
    assert recipe.global_batch_size == 384
    assert recipe.tokens == 90 * 1_281_167


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        *((f"strategy.{name}=2", f"strategy.{name}") for name in ("tp", "pp", "cp", "ep", "etp", "vpp", "dp_replicate")),
        ("strategy.recompute=full", "strategy.recompute"),
        ("strategy.sequence_parallel=true", "strategy.sequence_parallel"),
        ("strategy.activation_offload=layer", "strategy.activation_offload"),
        ("strategy.mesh=[dp]", "strategy.mesh"),
        ("recipe.seq_len=224", "recipe.seq_len"),
        ("recipe.flop_convention=palm", "recipe.flop_convention"),
        ("recipe.lora={rank: 8}", "recipe.lora"),
        ("recipe.precision.math=fp8", "recipe.precision.math"),
        ("recipe.precision.weights=nf4", "recipe.precision.weights"),
        ("recipe.global_batch_size=100", "recipe.global_batch_size"),
        ("strategy.microbatch_size=33", "strategy.microbatch_size"),
        ("model.sections.0.layers.0.kernel=300", "model.sections.0.layers.0.kernel"),
        ("model.image_size=0", "model.image_size"),
        ("model.sections=[]", "model.sections"),
        ("model.sections=[{name: one, layers: [{kind: global_pool}]}]", "model.sections"),
        ("model.sections.0.repeat=2", "model.sections.0.repeat"),
        ("model.sections.0.layers=[]", "model.sections.0.layers"),
        ("model.sections.0.layers.0.kind=convolution", "model.sections.0.layers.0.kind"),
        ("model.sections.0.layers.0.groups=2", "model.sections.0.layers.0.groups"),
        ("model.sections.0.layers.1.bias=true", "model.sections.0.layers.1.bias"),
        ("model.sections.0.layers.0={kind: conv}", "model.sections.0.layers.0.channels"),
        ("model.sections.0.layers.0={kind: branches}", "model.sections.0.layers.0.branches"),
        ("model.sections.1.layers.0.join=concat", "model.sections.2.layers.0.branches"),
        ("model.sections.2.layers.0.join=concat", "model.sections.2.repeat"),
        ("model.sections.1.layers.0.branches.1.0.channels=255", "model.sections.1.layers.0.branches"),
        ("model.sections.1.layers.0.branches.1.0.strides=2", "model.sections.1.layers.0.branches.1.0.strides"),
    ],
)
def test_broken_inputs_name_the_field(setting: str, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ("--set", "model.image_size=64") if setting.startswith("model.sections.1") else ()
    code = main(["simulate", "resnet-50", "--on", "dgx-a100", "--chips", "8", *plan, "--set", setting])
    error = capsys.readouterr().err
    assert code == 2
    assert any(field in line for line in error.splitlines()), error
    assert "Traceback" not in error


def test_a_layer_of_a_file_is_found_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(
        "model:\n  name: mine\n  image_size: 8\n  sections:\n  - name: all\n    layers:\n    - {kind: conv, channels: 4, kernel: 9}\n",
        encoding="utf-8",
    )
    assert main(["simulate", str(file), "--on", "dgx-a100", "--chips", "8"]) == 2
    assert "net.yaml:7:" in capsys.readouterr().err
    file.write_text(file.read_text(encoding="utf-8").replace("kernel: 9", "kernel: 3"), encoding="utf-8")
    assert main(["simulate", str(file), "--on", "dgx-a100", "--chips", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"]["params_total"] == 4 * 3 * 9


def test_a_transformer_has_another_convention() -> None:
    with pytest.raises(InputError, match="flop_convention"):
        open_scenario("llama-3-8b", "dgx-a100", 8, {"tp": 8}, ["recipe.flop_convention=convolutions"])


def test_workload_says_which_kind_it_is() -> None:
    assert isinstance(base().workload.transformer, Model)
    with pytest.raises(TypeError, match="not a transformer"):
        _ = Workload(model=shipped("alexnet"), recipe=RECIPE).transformer


def test_wide_precision_keeps_twice_as_much() -> None:
    half, single = (
        lower(Workload(model=shipped("vgg-16"), recipe=dataclasses.replace(RECIPE, precision=PRESETS[word])), Strategy(microbatch_size=8))
        for word in ("fp16", "fp32")
    )
    ratio = float(single.stages[0].memory_byte["activations"]) / float(half.stages[0].memory_byte["activations"])
    assert 1.7 < ratio < 2.0
    assert {word for block in single.blocks for word in block.ops.matmuls.dtype} == {"fp32"}


def test_nothing_is_assumed_about_attention() -> None:
    case = open_scenario("resnet-50", "dgx-a100", 8, {"precision": "fp32"})
    assert not [note.field for note in case.assumptions if "attention" in note.field]
    assert simulate_scenario(case).step.peak_flop_per_s == 19.5e12


def test_too_many_images_are_out_of_memory_with_a_remedy() -> None:
    case = open_scenario("vgg-19", "dgx-a100", 8, {"microbatch_size": 2048, "global_batch_size": 16384})
    verdict = as_document(case, simulate_scenario(case))["verdict"]
    assert verdict["status"] == "oom"
    assert any("--microbatch-size" in reason for reason in verdict["reasons"])


def test_rules_accept_what_is_chosen() -> None:
    case = scenario("inception-v3")
    assert rules.check(case.workload, case.strategy, 8) == []
    assert case.strategy.dp == 8
