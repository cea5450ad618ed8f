"""PEFT's ``adapter_config.json`` of a low-rank adapter -> ``Lora`` and the name of its base model."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import get_args

from foretrain.core.errors import InputError
from foretrain.formats.hf.config import Config
from foretrain.formats.jsonfile import read_json
from foretrain.workload.recipe import Lora, Target

TARGETS: dict[str, tuple[Target, ...]] = {
    "q_proj": ("q",),
    "k_proj": ("k",),
    "v_proj": ("v",),
    "o_proj": ("o",),
    "gate_proj": ("gate",),
    "up_proj": ("up",),
    "down_proj": ("down",),
    "lm_head": ("head",),
    "all-linear": ("q", "k", "v", "o", "gate", "up", "down"),
}
"""Matrices by the names of the public Llama-like classes."""

DEFAULT_RANK = 8
PLAIN = {"use_dora": False, "rank_pattern": {}, "layers_to_transform": None, "modules_to_save": None, "bias": "none"}
"""Options that change what is trained, with the value that does not."""


def is_adapter(path: Path) -> bool:
    """Whether a path is an adapter's file, or a folder that holds one and no model."""
    if path.is_dir():
        return (path / "adapter_config.json").is_file() and not (path / "config.json").is_file()
    return path.name.startswith("adapter_config") and path.suffix == ".json"


def read_adapter(path: Path) -> tuple[Lora, str]:
    """The adapter, and the name of the model it was made for.

    Raises
    ------
    InputError
        When the file is broken, or holds another kind of adapter than a plain low-rank one.
    """
    config = Config(read_json(path / "adapter_config.json" if path.is_dir() else path, "model"))
    config.type = "LoraConfig"
    config.either("peft_type", {"LORA": "LORA"}, "LORA")
    for key, neutral in PLAIN.items():
        value = config.document.get(key)
        if value and value != neutral:
            config.problem(key, "is not supported in an adapter", value, allowed=str(neutral))
    rank = config.size("rank", "r", default=DEFAULT_RANK)
    targets = _targets(config)
    key, base = config.get("base_model_name_or_path")
    if not isinstance(base, str):
        config.problem("base_model_name_or_path", "must name the base model" if key else "is missing", base)
    if config.problems:
        raise InputError(config.problems)
    return Lora(rank=rank, targets=targets), str(base)


def _targets(config: Config) -> tuple[Target, ...]:
    """The matrices that get an adapter, in the order in which a layer uses them."""
    key, value = config.get("target_modules")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        config.problem("target_modules", "must list the matrices that get an adapter" if key else "is missing", value, ", ".join(TARGETS))
        return ()
    unknown = [name for name in names if name not in TARGETS]
    for name in unknown:
        near = tuple(difflib.get_close_matches(str(name), TARGETS, n=2))
        config.problem("target_modules", "is not a known matrix", name, ", ".join(TARGETS), near)
    chosen = {target for name in names if name in TARGETS for target in TARGETS[name]}
    return tuple(target for target in get_args(Target) if target in chosen)
