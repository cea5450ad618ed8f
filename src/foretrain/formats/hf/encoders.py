"""Encoders, encoder-decoders and image classifiers: from the keys of a config to the fields of ``Model``."""

from __future__ import annotations

from collections.abc import Callable

from foretrain.formats.hf.config import Config, Fields, equal_heads, learned, plain_mlp, sizes_of, tied_of

T5_SEQ_LEN = 512
T5_BUCKETS = 32
BART_OFFSET = 2
ROBERTA_OFFSET = 2
VIT_CLASSES = 2


def _bert(config: Config, *, offset: int = 0, segments: int = 2, pooler: bool = True) -> Fields:
    """Norms after attention and MLP and after the embedding; the masked-language head has a dense layer, a norm and a bias.

    ``BertForMaskedLM`` has no pooler; the bare model and the pretraining class have one.
    """
    if config.document.get("is_decoder") is True:
        config.problem("is_decoder", "a BERT used as a decoder is not supported", value="true", allowed="false")
    if config.document.get("position_embedding_type", "absolute") != "absolute":
        text = "relative positions in a BERT are not supported"
        config.problem("position_embedding_type", text, config.document["position_embedding_type"], "absolute")
    sizes = sizes_of(config)
    positions = learned(config, "max_position_embeddings", sizes["max_seq_len"])
    if offset:
        sizes["max_seq_len"] = max(positions["num_positions"] - offset, 0)
        config.note("max_seq_len", sizes["max_seq_len"], f"max_position_embeddings - {offset} rows for padding")
    return {
        **sizes,
        **equal_heads(config, sizes),
        **plain_mlp(bias=True),
        **positions,
        "num_segments": config.size("num_segments", "type_vocab_size", default=segments),
        "embedding_norm": True,
        "final_norm": False,
        "causal": False,
        "head_transform": True,
        "head_bias": True,
        "pooler": pooler and not _masked_only(config),
        **tied_of(config, default=True),
    }


def _masked_only(config: Config) -> bool:
    classes = config.get("architectures")[1]
    return isinstance(classes, list) and bool(classes) and str(classes[0]).endswith("ForMaskedLM")


def _roberta(config: Config) -> Fields:
    """BERT without a pooler in its head; two rows of the position table are for padding."""
    return _bert(config, offset=ROBERTA_OFFSET, pooler=not _masked_only(config))


def _t5(config: Config) -> Fields:
    """RMSNorm, no biases, relative positions in the first layer of each tower.

    Version 1.0 has a plain MLP and a tied head, version 1.1 a gated MLP and a head of its own.
    """
    reason = "n_positions is not in the file; T5 was trained with 512 tokens, its relative positions have no end"
    sizes = sizes_of(
        config, layers=("num_decoder_layers", "num_layers"), hidden=("d_model",), heads=("num_heads",), ffn=("d_ff",), length=()
    )
    sizes["max_seq_len"] = config.size("max_seq_len", "n_positions", default=T5_SEQ_LEN, reason=reason)
    projections = {"relu": "plain", "gelu": "plain", "gated-gelu": "gated", "gated-silu": "gated"}
    return {
        **sizes,
        **equal_heads(config, sizes, "d_kv"),
        "encoder_layers": config.size("encoder_layers", "num_layers"),
        "gated_mlp": config.either("feed_forward_proj", projections, "relu") == "gated",
        "position": "none",
        "relative_buckets": config.size("relative_buckets", "relative_attention_num_buckets", default=T5_BUCKETS),
        **tied_of(config, default=True),
    }


def _bart(config: Config) -> Fields:
    """Norms after attention and MLP, learned positions with two rows more, a norm after each embedding."""
    if config.document.get("normalize_before") or config.document.get("add_final_layer_norm"):
        config.problem("normalize_before", "norms before attention (mBART) are not supported in a BART", value="true", allowed="false")
    sizes = sizes_of(config, layers=("decoder_layers",), hidden=("d_model",), heads=("decoder_attention_heads",), ffn=("decoder_ffn_dim",))
    for key, own in (("encoder_attention_heads", sizes["num_heads"]), ("encoder_ffn_dim", sizes["ffn_size"])):
        if config.document.get(key, own) != own:
            config.problem(key, "an encoder of other sizes than the decoder is not supported", config.document[key], str(own))
    positions = learned(config, "max_position_embeddings", sizes["max_seq_len"] and sizes["max_seq_len"] + BART_OFFSET)
    config.note("num_positions", positions["num_positions"], f"max_position_embeddings + {BART_OFFSET} rows for padding")
    return {
        **sizes,
        **equal_heads(config, sizes),
        **plain_mlp(bias=True),
        **positions,
        "encoder_layers": config.size("encoder_layers", "encoder_layers"),
        "embedding_norm": True,
        "final_norm": False,
        **tied_of(config, default=True),
    }


def _vit(config: Config) -> Fields:
    """A sequence is the patches of an image and a class token; the head's rows are the classes."""
    image, patch = config.size("max_seq_len", "image_size", default=224), config.size("patch_size", "patch_size", default=16)
    if image % patch:
        config.problem("patch_size", f"must divide image_size {image}", patch)
    tokens = (image // patch) ** 2 + 1
    labels = config.get("id2label")[1]
    classes = len(labels) if isinstance(labels, dict) and labels else config.size("vocab_size", "num_labels", default=VIT_CLASSES)
    config.note("max_seq_len", tokens, "(image_size / patch_size)^2 patches and a class token")
    sizes = {
        "num_layers": config.size("num_layers", "num_hidden_layers"),
        "hidden_size": config.size("hidden_size", "hidden_size"),
        "num_heads": config.size("num_heads", "num_attention_heads"),
        "ffn_size": config.size("ffn_size", "intermediate_size"),
    }
    return {
        **sizes,
        **equal_heads(config, sizes),
        **plain_mlp(bias=True),
        "qkv_bias": config.flag("qkv_bias", default=True),
        "position": "learned",
        "num_positions": tokens,
        "max_seq_len": tokens,
        "vocab_size": classes,
        "patch_size": patch,
        "num_channels": config.size("num_channels", "num_channels", default=3),
        "causal": False,
        "head_bias": True,
        "tied_embeddings": False,
    }


ENCODERS: dict[str, Callable[[Config], Fields]] = {"bert": _bert, "roberta": _roberta, "t5": _t5, "bart": _bart, "vit": _vit}
"""Readers of models with an encoder by ``model_type``."""
