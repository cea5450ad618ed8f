"""One workload of every family of models and recipes, small enough to draw many plans for."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

from foretrain.catalog.loader import load
from foretrain.simulate.scenario import Scenario
from foretrain.workload.model import Experts, LatentAttention, Model
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Lora
from tests.plans import base

SIZES: dict[str, Any] = {
    "num_layers": 40, "hidden_size": 4096, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "ffn_size": 14336, "vocab_size": 32000,
}  # fmt: skip
EXPERTS = Experts(num_experts=64, experts_per_token=6, ffn_size=1536, shared_ffn_size=3072, first_layer=3, router_bias=True, num_groups=8,
                  groups_per_token=3)  # fmt: skip
LATENT = LatentAttention(kv_rank=512, q_rank=1536, nope_head_dim=128, rope_head_dim=64, value_head_dim=128)
GPT: dict[str, Any] = {
    "gated_mlp": False, "norm": "layernorm", "qkv_bias": True, "attention_output_bias": True, "mlp_bias": True, "num_kv_heads": 32,
}  # fmt: skip
BF16 = PRESETS["bf16"]

FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "experts": ({"experts": Experts(num_experts=8, experts_per_token=2, ffn_size=14336)}, {}),
    "latent attention, shared experts, multi-token prediction": (
        {"experts": EXPERTS, "latent": LATENT, "mtp_layers": 1, "num_kv_heads": 32}, {"expert_imbalance": 1.3, "precision": PRESETS["fp8"]}
    ),
    "dropped tokens": ({"experts": EXPERTS}, {"capacity_factor": 1.25}),
    "every second layer has experts": (
        {"experts": dataclasses.replace(EXPERTS, first_layer=0, every=2), "windows": (8192, 8192, 8192, 0), "window_kind": "chunked"}, {}
    ),
    "sinks and sliding windows": ({"windows": (128, 0), "attention_sinks": True, "qkv_bias": True}, {}),
    "encoder and decoder": ({**GPT, "encoder_layers": 24, "relative_buckets": 32, "position": "none"}, {"encoder_seq_len": 2048}),
    "encoder": (
        {**GPT, "causal": False, "num_positions": 8192, "position": "learned", "num_segments": 2, "head_transform": True, "pooler": True,
         "tied_embeddings": True, "embedding_norm": True, "final_norm": False, "head_bias": True}, {"dropout": True},
    ),
    "images": (
        {**GPT, "causal": False, "patch_size": 14, "num_positions": 257, "position": "learned", "vocab_size": 1000},
        {"seq_len": 257, "optimizer": "lion"},
    ),
    "adapters": ({}, {"lora": Lora(rank=16, targets=("q", "v", "o", "head"))}),
    "adapters on 4-bit weights": ({}, {"lora": Lora(rank=64), "precision": dataclasses.replace(BF16, weights="nf4")}),
    "frozen parts": ({}, {"frozen": ("embedding", "layers")}),
    "packed documents": ({}, {"document_lens": (1000, 3000, 96, 4000)}),
    "matrices orthogonalised": ({}, {"optimizer": "muon"}),
    "states in 8 bits": ({}, {"optimizer": "adam8bit"}),
    "factored states": ({}, {"optimizer": "adafactor"}),
    "convolutions": ({}, {}),
}  # fmt: skip


@lru_cache(maxsize=32)
def family(name: str) -> Scenario:
    """A scenario of a family on 64 chips of DGX H100; the plan is to be replaced."""
    scenario = base()
    fields, recipe_fields = FAMILIES[name]
    recipe = dataclasses.replace(scenario.workload.recipe, **{"seq_len": 8192, **recipe_fields})
    if name == "convolutions":
        net, _ = load("models", "resnet-50")
        recipe = dataclasses.replace(recipe, seq_len=1, flop_convention="convolutions", optimizer="sgd")
        return dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, model=net, recipe=recipe))
    model = Model(name=name, **{**SIZES, **fields})
    return dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, model=model, recipe=recipe))
