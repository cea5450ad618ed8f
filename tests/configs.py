"""Published configurations: what the ``config.json`` of a model says, written by a few helpers for the keys that a family shares."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]
TIED: Config = {"tie_word_embeddings": True}
UNTIED: Config = {"tie_word_embeddings": False}


def decoder(model_type: str, hidden: int, ffn: int, layers: int, heads: int, kv: int, vocab: int, length: int, **more: Any) -> Config:
    return {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": vocab, "max_position_embeddings": length, **more,
    }  # fmt: skip


def llama(*sizes: int, **more: Any) -> Config:
    return decoder("llama", *sizes, attention_bias=False, mlp_bias=False, **more)  # type: ignore[arg-type]


def qwen3_moe(hidden: int, ffn: int, layers: int, heads: int, width: int) -> Config:
    experts = {"moe_intermediate_size": width, "num_experts": 128, "num_experts_per_tok": 8}
    sparse: Config = {
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "use_sliding_window": False,
        "attention_bias": False,
        "head_dim": 128,
    }
    return decoder("qwen3_moe", hidden, ffn, layers, heads, 4, 151936, 40960, **experts, **sparse, **UNTIED)


def qwen2_moe(sizes: tuple[int, ...], width: int, shared: int, experts: int, top: int) -> Config:
    mixture = {
        "moe_intermediate_size": width,
        "shared_expert_intermediate_size": shared,
        "num_experts": experts,
        "num_experts_per_tok": top,
    }
    sparse: Config = {"decoder_sparse_step": 1, "mlp_only_layers": [], "use_sliding_window": False, "qkv_bias": True}
    return decoder("qwen2_moe", *sizes, **mixture, **sparse, **UNTIED)  # type: ignore[arg-type]


def deepseek(model_type: str, sizes: tuple[int, int, int, int, int, int], experts: tuple[int, int, int, int, int], **more: Any) -> Config:
    """``sizes``: hidden, MLP, layers, heads, vocabulary, length. ``experts``: width, number, per token, shared, dense layers."""
    hidden, ffn, layers, heads, vocab, length = sizes
    width, number, top, shared, dense = experts
    latent: Config = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    mixture = {"moe_intermediate_size": width, "n_routed_experts": number, "num_experts_per_tok": top, "n_shared_experts": shared}
    fields = {**latent, **mixture, "first_k_dense_replace": dense, "attention_bias": False, **UNTIED, **more}
    return decoder(model_type, hidden, ffn, layers, heads, heads, vocab, length, **fields)


def gpt_oss(layers: int, experts: int) -> Config:
    mixture = {"num_local_experts": experts, "num_experts_per_tok": 4}
    attention = {"head_dim": 64, "sliding_window": 128, "attention_bias": True}
    return decoder("gpt_oss", 2880, 2880, layers, 64, 8, 201088, 131072, **mixture, **attention, **UNTIED)


def glm4_moe(sizes: tuple[int, int, int], experts: tuple[int, int, int], *, qk_norm: bool) -> Config:
    hidden, ffn, layers = sizes
    width, number, dense = experts
    mixture = {"moe_intermediate_size": width, "n_routed_experts": number, "num_experts_per_tok": 8, "n_shared_experts": 1}
    more: Config = {"first_k_dense_replace": dense, "num_nextn_predict_layers": 1, "use_qk_norm": qk_norm, "head_dim": 128}
    return decoder("glm4_moe", hidden, ffn, layers, 96, 8, 151552, 131072, attention_bias=True, **mixture, **more, **UNTIED)


def llama4(length: int, experts: int, every: int, *, qk_norm: bool) -> Config:
    mixture = {"num_local_experts": experts, "num_experts_per_tok": 1, "interleave_moe_layer_step": every, "intermediate_size_mlp": 16384}
    attention: Config = {"head_dim": 128, "attention_chunk_size": 8192, "use_qk_norm": qk_norm, "attention_bias": False}
    return decoder("llama4_text", 5120, 8192, 48, 40, 8, 202048, length, **mixture, **attention, **UNTIED)


def falcon(hidden: int, layers: int, heads: int, *, newer: bool) -> Config:
    groups: Config = {"num_kv_heads": 8} if newer else {"multi_query": True}
    block: Config = {"parallel_attn": True, "bias": False, "alibi": False, "new_decoder_architecture": newer}
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": 65024}
    return {"model_type": "falcon", **sizes, **groups, **block, "max_position_embeddings": 2048, **TIED}


def mpt(hidden: int, heads: int, layers: int, length: int) -> Config:
    sizes = {"d_model": hidden, "n_heads": heads, "n_layers": layers, "expansion_ratio": 4, "max_seq_len": length, "vocab_size": 50432}
    return {"model_type": "mpt", **sizes, "no_bias": True, "attn_config": {"alibi": True}, **TIED}


def neox(hidden: int, layers: int, heads: int, vocab: int) -> Config:
    sizes = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": "gpt_neox", **sizes, "vocab_size": vocab, "max_position_embeddings": 2048, **UNTIED}


def bert(hidden: int, layers: int, heads: int, task: str = "BertForPreTraining", **more: Any) -> Config:
    sizes = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    tables = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
    return {"model_type": "bert", "architectures": [task], **sizes, **tables, **more}


def roberta(hidden: int, layers: int, heads: int) -> Config:
    tables = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
    return {**bert(hidden, layers, heads, "RobertaForMaskedLM"), "model_type": "roberta", **tables}


def t5(hidden: int, ffn: int, layers: int, heads: int, head_dim: int = 64, *, newer: bool = False) -> Config:
    towers = {"num_layers": layers, "num_decoder_layers": layers, "num_heads": heads, "d_kv": head_dim, "vocab_size": 32128}
    words = {"feed_forward_proj": "gated-gelu" if newer else "relu", "tie_word_embeddings": not newer, "is_encoder_decoder": True}
    numbers = {"relative_attention_num_buckets": 32, "n_positions": 512}
    return {"model_type": "t5", "d_model": hidden, "d_ff": ffn, **towers, **words, **numbers}


def vit(hidden: int, layers: int, heads: int, patch: int) -> Config:
    sizes = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    images = {"image_size": 224, "patch_size": patch, "num_channels": 3, "qkv_bias": True}
    return {"model_type": "vit", **sizes, **images, "id2label": {str(index): f"class {index}" for index in range(1000)}}


def gpt2(hidden: int, heads: int, layers: int) -> Config:
    sizes = {"n_embd": hidden, "n_head": heads, "n_layer": layers, "n_positions": 1024, "vocab_size": 50257}
    return {"model_type": "gpt2", **sizes, **TIED}


def opt(hidden: int, heads: int, layers: int) -> Config:
    sizes = {"hidden_size": hidden, "ffn_dim": 4 * hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    tables = {"vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": hidden}
    return {"model_type": "opt", **sizes, **tables, **TIED}


def bloom(hidden: int, heads: int, layers: int) -> Config:
    sizes = {"hidden_size": hidden, "n_layer": layers, "n_head": heads, "vocab_size": 250880, "seq_length": 2048}
    return {"model_type": "bloom", **sizes, **TIED}


BART: Config = {
    "model_type": "bart", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_attention_heads": 16, "vocab_size": 50265, "max_position_embeddings": 1024,
}  # fmt: skip
DBRX: Config = {
    "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "max_seq_len": 32768, **UNTIED,
    "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
}  # fmt: skip
MIXTRAL: Config = {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None, **UNTIED}
NO_WINDOW: Config = {"use_sliding_window": False}
QWEN3: Config = {"head_dim": 128, "attention_bias": False, **NO_WINDOW}
GEMMA: Config = {"attention_bias": False, **TIED}
STARCODER: Config = {"use_bias": True, "sliding_window": 4096}
PHI_MOE: Config = {
    "num_local_experts": 16, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True, "sliding_window": 131072, **UNTIED,
}  # fmt: skip
MINIMAX: Config = {
    "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8, "use_qk_norm": True, "qk_norm_type": "per_layer",
    "use_routing_bias": True, "use_mtp": True, **UNTIED,
}  # fmt: skip

CONFIGS: dict[str, Config] = {
    "mixtral-8x7b": decoder("mixtral", 4096, 14336, 32, 32, 8, 32000, 32768, **MIXTRAL),
    "mixtral-8x22b": decoder("mixtral", 6144, 16384, 56, 48, 8, 32000, 65536, **MIXTRAL),
    "dbrx-132b": DBRX,
    "qwen1.5-moe-a2.7b": qwen2_moe((2048, 5632, 24, 16, 16, 151936, 8192), 1408, 5632, 60, 4),
    "qwen2-57b-a14b": qwen2_moe((3584, 18944, 28, 28, 4, 151936, 131072), 2560, 20480, 64, 8),
    "qwen3-30b-a3b": qwen3_moe(2048, 6144, 48, 32, 768),
    "qwen3-235b-a22b": qwen3_moe(4096, 12288, 94, 64, 1536),
    "deepseek-v2": deepseek("deepseek_v2", (5120, 12288, 60, 128, 102400, 163840), (1536, 160, 6, 2, 1), n_group=8, topk_group=3),
    "deepseek-v2-lite": deepseek("deepseek_v2", (2048, 10944, 27, 16, 102400, 163840), (1408, 64, 6, 2, 1), q_lora_rank=None),
    "deepseek-v3": deepseek(
        "deepseek_v3", (7168, 18432, 61, 128, 129280, 163840), (2048, 256, 8, 1, 3), n_group=8, topk_group=4, num_nextn_predict_layers=1
    ),
    "kimi-k2": deepseek("kimi_k2", (7168, 18432, 61, 64, 163840, 131072), (2048, 384, 8, 1, 1), num_nextn_predict_layers=0),
    "gpt-oss-20b": gpt_oss(24, 32),
    "gpt-oss-120b": gpt_oss(36, 128),
    "glm-4.5": glm4_moe((5120, 12288, 92), (1536, 160, 3), qk_norm=True),
    "glm-4.5-air": glm4_moe((4096, 10944, 46), (1408, 128, 1), qk_norm=False),
    "llama-4-scout": llama4(10485760, 16, 1, qk_norm=True),
    "llama-4-maverick": llama4(1048576, 128, 2, qk_norm=False),
    "olmoe-1b-7b": decoder(
        "olmoe", 2048, 1024, 16, 16, 16, 50304, 4096, num_experts=64, num_experts_per_tok=8, attention_bias=False, **UNTIED
    ),
    "phi-3.5-moe": decoder("phimoe", 4096, 6400, 32, 32, 8, 32064, 131072, **PHI_MOE),
    "minimax-m2": decoder("minimax_m2", 3072, 1536, 62, 48, 8, 200064, 196608, **MINIMAX),
    "gemma-2-9b": decoder("gemma2", 3584, 14336, 42, 16, 8, 256000, 8192, head_dim=256, sliding_window=4096, **GEMMA),
    "gemma-2-27b": decoder("gemma2", 4608, 36864, 46, 32, 16, 256000, 8192, head_dim=128, sliding_window=4096, **GEMMA),
    "gemma-3-1b": decoder("gemma3_text", 1152, 6912, 26, 4, 1, 262144, 32768, head_dim=256, sliding_window=512, **GEMMA),
    "gemma-3-27b": decoder("gemma3_text", 5376, 21504, 62, 32, 16, 262208, 131072, head_dim=128, sliding_window=1024, **GEMMA),
    "qwen3-0.6b": decoder("qwen3", 1024, 3072, 28, 16, 8, 151936, 40960, **QWEN3, **TIED),
    "qwen3-8b": decoder("qwen3", 4096, 12288, 36, 32, 8, 151936, 40960, **QWEN3, **UNTIED),
    "qwen3-32b": decoder("qwen3", 5120, 25600, 64, 64, 8, 151936, 40960, **QWEN3, **UNTIED),
    "qwen2.5-0.5b": decoder("qwen2", 896, 4864, 24, 14, 2, 151936, 32768, **NO_WINDOW, **TIED),
    "qwen2.5-7b": decoder("qwen2", 3584, 18944, 28, 28, 4, 152064, 131072, **NO_WINDOW, **UNTIED),
    "qwen2.5-14b": decoder("qwen2", 5120, 13824, 48, 40, 8, 152064, 131072, **NO_WINDOW, **UNTIED),
    "qwen2.5-32b": decoder("qwen2", 5120, 27648, 64, 40, 8, 152064, 131072, **NO_WINDOW, **UNTIED),
    "qwen2.5-72b": decoder("qwen2", 8192, 29568, 80, 64, 8, 152064, 131072, **NO_WINDOW, **UNTIED),
    "phi-3-mini": decoder("phi3", 3072, 8192, 32, 32, 32, 32064, 4096, sliding_window=None, **UNTIED),
    "phi-4": decoder("phi3", 5120, 17920, 40, 40, 10, 100352, 16384, sliding_window=None, **UNTIED),
    "phi-2": decoder("phi", 2560, 10240, 32, 32, 32, 51200, 2048, **UNTIED),
    "llama-7b": llama(4096, 11008, 32, 32, 32, 32000, 2048, **UNTIED),
    "llama-13b": llama(5120, 13824, 40, 40, 40, 32000, 2048, **UNTIED),
    "llama-33b": llama(6656, 17920, 60, 52, 52, 32000, 2048, **UNTIED),
    "llama-65b": llama(8192, 22016, 80, 64, 64, 32000, 2048, **UNTIED),
    "llama-2-7b": llama(4096, 11008, 32, 32, 32, 32000, 4096, **UNTIED),
    "llama-2-13b": llama(5120, 13824, 40, 40, 40, 32000, 4096, **UNTIED),
    "llama-2-70b": llama(8192, 28672, 80, 64, 8, 32000, 4096, **UNTIED),
    "llama-3-8b": llama(4096, 14336, 32, 32, 8, 128256, 8192, **UNTIED),
    "llama-3.1-8b": llama(4096, 14336, 32, 32, 8, 128256, 131072, **UNTIED),
    "llama-3.1-70b": llama(8192, 28672, 80, 64, 8, 128256, 131072, **UNTIED),
    "llama-3.1-405b": llama(16384, 53248, 126, 128, 8, 128256, 131072, **UNTIED),
    "llama-3.2-1b": llama(2048, 8192, 16, 32, 8, 128256, 131072, head_dim=64, **TIED),
    "llama-3.2-3b": llama(3072, 8192, 28, 24, 8, 128256, 131072, head_dim=128, **TIED),
    "mistral-7b": decoder("mistral", 4096, 14336, 32, 32, 8, 32000, 32768, sliding_window=4096, **UNTIED),
    "smollm-1.7b": llama(2048, 8192, 24, 32, 32, 49152, 2048, **TIED),
    "smollm2-135m": llama(576, 1536, 30, 9, 3, 49152, 8192, **TIED),
    "olmo-2-7b": decoder("olmo2", 4096, 11008, 32, 32, 32, 100352, 4096, attention_bias=False, **UNTIED),
    "olmo-2-13b": decoder("olmo2", 5120, 13824, 40, 40, 40, 100352, 4096, attention_bias=False, **UNTIED),
    "falcon-7b": falcon(4544, 32, 71, newer=False),
    "falcon-40b": falcon(8192, 60, 128, newer=True),
    "falcon-180b": falcon(14848, 80, 232, newer=True),
    "mpt-7b": mpt(4096, 32, 32, 2048),
    "mpt-30b": mpt(7168, 64, 48, 8192),
    "pythia-160m": neox(768, 12, 12, 50304),
    "pythia-1.4b": neox(2048, 24, 16, 50304),
    "pythia-2.8b": neox(2560, 32, 32, 50304),
    "pythia-6.9b": neox(4096, 32, 32, 50432),
    "pythia-12b": neox(5120, 36, 40, 50688),
    "gpt-neox-20b": neox(6144, 44, 64, 50432),
    "starcoder2-3b": decoder("starcoder2", 3072, 12288, 30, 24, 2, 49152, 16384, **STARCODER, **TIED),
    "starcoder2-7b": decoder("starcoder2", 4608, 18432, 32, 36, 4, 49152, 16384, **STARCODER, **TIED),
    "starcoder2-15b": decoder("starcoder2", 6144, 24576, 40, 48, 4, 49152, 16384, **STARCODER, **UNTIED),
    "command-r-35b": decoder("cohere", 8192, 22528, 40, 64, 64, 256000, 131072, use_qk_norm=False, **GEMMA),
    "command-r-plus-104b": decoder("cohere", 12288, 33792, 64, 96, 8, 256000, 131072, use_qk_norm=True, **GEMMA),
    "nemotron-4-340b": decoder(
        "nemotron", 18432, 73728, 96, 96, 8, 256000, 4096, head_dim=192, mlp_bias=False, attention_bias=False, **UNTIED
    ),
    "glm-4-9b": decoder("glm4", 4096, 13696, 40, 32, 2, 151552, 32768, head_dim=128, attention_bias=True, **UNTIED),
    "granite-3.1-8b": decoder("granite", 4096, 12800, 40, 32, 8, 49155, 131072, **TIED),
    "stablelm-3b": decoder("stablelm", 2560, 6912, 32, 32, 32, 50304, 4096, use_qkv_bias=False, **UNTIED),
    "bert-base": bert(768, 12, 12),
    "bert-large": bert(1024, 24, 16),
    "roberta-base": roberta(768, 12, 12),
    "roberta-large": roberta(1024, 24, 16),
    "t5-small": t5(512, 2048, 6, 8),
    "t5-base": t5(768, 3072, 12, 12),
    "t5-large": t5(1024, 4096, 24, 16),
    "t5-3b": t5(1024, 16384, 24, 32, 128),
    "t5-11b": t5(1024, 65536, 24, 128, 128),
    "t5-v1.1-xxl": t5(4096, 10240, 24, 64, newer=True),
    "bart-large": BART,
    "vit-b-16": vit(768, 12, 12, 16),
    "vit-l-16": vit(1024, 24, 16, 16),
    "vit-h-14": vit(1280, 32, 16, 14),
    "gpt-j-6b": {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048, "vocab_size": 50400, **UNTIED},
    "gpt2-124m": gpt2(768, 12, 12),
    "gpt2-774m": gpt2(1280, 20, 36),
    "gpt2-xl": gpt2(1600, 25, 48),
    "opt-125m": opt(768, 12, 12),
    "opt-13b": opt(5120, 40, 40),
    "opt-175b": opt(12288, 96, 96),
    "bloom-7b1": bloom(4096, 32, 30),
    "bloom-176b": bloom(14336, 112, 70),
}
"""By the catalogue's name of the model."""
