"""Files of other tools, imported as users do: from the file to a simulated step or to an error that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretrain.core.errors import InputError
from foretrain.simulate.open import open_scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.workload.counting import causal, num_trained_parameters
from tests.configs import CONFIGS

PLAN = {"tp": 1, "pp": 1, "zero": 1, "recompute": "full", "microbatch_size": 1}
EXPERTS = {**PLAN, "ep": 8}
LORA = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}


def write(folder: Path, document: dict[str, Any], name: str = "config.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "plan", "chips"),
    [
        ("mixtral-8x7b", EXPERTS, 64), ("qwen3-30b-a3b", EXPERTS, 64), ("qwen1.5-moe-a2.7b", {**PLAN, "ep": 4}, 8),
        ("dbrx-132b", EXPERTS, 64), ("deepseek-v2-lite", EXPERTS, 8), ("deepseek-v3", {**EXPERTS, "pp": 4}, 1024),
        ("gpt-oss-20b", EXPERTS, 8), ("llama-4-scout", EXPERTS, 64), ("phi-3.5-moe", EXPERTS, 64), ("minimax-m2", EXPERTS, 64),
        ("glm-4.5-air", EXPERTS, 64), ("olmoe-1b-7b", EXPERTS, 8), ("bert-large", PLAN, 8), ("roberta-base", PLAN, 8),
        ("t5-base", PLAN, 8), ("t5-v1.1-xxl", PLAN, 64), ("bart-large", PLAN, 8), ("vit-h-14", PLAN, 8), ("gemma-3-27b", PLAN, 64),
        ("mpt-7b", PLAN, 8),
    ],
)  # fmt: skip
def test_a_config_of_every_family_becomes_a_step(tmp_path: Path, name: str, plan: dict[str, Any], chips: int) -> None:
    scenario = open_scenario(write(tmp_path, CONFIGS[name]), "dgx-h100", chips, {**plan, "global_batch_size": chips})
    step = simulate_scenario(scenario).step
    model, recipe = scenario.workload.model, scenario.workload.recipe
    assert step.time.step_s > 0
    assert 0 < step.mfu < 1
    flop = causal(model, recipe.seq_len, (), recipe.encoder_seq_len) * recipe.seq_len * recipe.global_batch_size
    assert step.mfu * step.peak_flop_per_s * chips * step.time.step_s == pytest.approx(flop)
    if model.patch_size:
        assert recipe.seq_len == model.num_positions
    assert (recipe.encoder_seq_len > 0) == (model.encoder_layers > 0)


def test_an_adapter_is_trained_on_the_catalogues_base_model(tmp_path: Path) -> None:
    path = write(tmp_path, {**LORA, "base_model_name_or_path": "meta-llama/Llama-2-7b-hf"}, "adapter_config.json")
    scenario = open_scenario(path, "dgx-h100", 8, {"tp": 1, "pp": 1})
    assert scenario.model_name == "Llama 2 7B"
    assert num_trained_parameters(scenario.workload.model, scenario.workload.recipe) == 32 * 4 * 8 * (4096 + 4096)
    assert {"model", "recipe.lora"} <= {note.field for note in scenario.assumptions}


def test_an_adapter_of_an_unknown_base_says_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path, {**LORA, "base_model_name_or_path": "someone/llama-2-7bb"}, "adapter_config.json")
    with pytest.raises(InputError) as caught:
        open_scenario(path, "dgx-h100", 8)
    assert "recipe.lora={rank: 8, targets: [q, k, v, o]}" in str(caught.value)
    assert "llama-2-7b" in str(caught.value)


def test_the_advice_for_an_unknown_base_works(tmp_path: Path) -> None:
    path = write(tmp_path, CONFIGS["llama-2-7b"])
    scenario = open_scenario(path, "dgx-h100", 8, {"tp": 1, "pp": 1}, ["recipe.lora={rank: 8, targets: [q, v]}"])
    lora = scenario.workload.recipe.lora
    assert lora is not None
    assert lora.targets == ("q", "v")
