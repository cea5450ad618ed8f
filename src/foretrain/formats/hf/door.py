"""From a file to a model: which architecture it is, who reads it, and why it is refused otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from foretrain.core.errors import InputError, Problem
from foretrain.formats.hf.config import Config, Fields, Inferred, check_heads
from foretrain.formats.hf.decoders import DECODERS
from foretrain.formats.hf.encoders import ENCODERS
from foretrain.formats.hf.mixtures import MIXTURES
from foretrain.formats.jsonfile import read_json
from foretrain.workload.model import Model

SUPPORTED: dict[str, Callable[[Config], Fields]] = {**DECODERS, **MIXTURES, **ENCODERS}
"""What is read, by ``model_type``."""

TEXT_PARTS = {"llama4": "llama4_text", "gemma3": "gemma3_text", "qwen2_5_vl": "qwen2", "qwen2_vl": "qwen2"}
"""Models of text and images whose text part is a whole decoder of a known type."""

REFUSED = {
    "mamba": "state-space layers",
    "mamba2": "state-space layers",
    "rwkv": "recurrent layers",
    "jamba": "state-space layers between those with attention",
    "nemotron_h": "state-space layers between those with attention",
    "nemotron-nas": "layers that differ from one another, each with sizes of its own in block_configs",
    "qwen3_next": "linear attention in three of four layers",
    "llava": "towers for text and images, and text_config names the language model without its sizes",
    "clip_vision_model": "an image tower, which is trained only against a text tower",
    "clip": "two towers that are trained against each other",
    "decoder_only_t5": "a T5 decoder outside of Hugging Face Transformers, whose biases and norms the file does not tell",
    "OpenMoeForCausalLM": "its layers with experts have a further norm and MLP of their own",
}
"""Architectures that ``Model`` cannot say, with the reason."""

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts", "ffn_config")
_STATE_SPACE = ("state_size", "ssm_cfg", "mamba_d_state", "ssm_state_size", "linear_num_value_heads", "attention_hidden_size")
_OTHER_INPUTS = ("vision_config", "text_config", "image_size", "patch_size", "audio_config")
_HEADS = ("ForCausalLM", "LMHeadModel")
_ENCODER_HEADS = {
    "bert": ("BertForMaskedLM", "BertForPreTraining"),
    "roberta": ("RobertaForMaskedLM",),
    "t5": ("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    "bart": ("BartForConditionalGeneration",),
    "vit": ("ViTForImageClassification",),
}


def read(path: str | Path) -> tuple[Model, tuple[Inferred, ...]]:
    """The model in a ``config.json`` or in a folder that holds one.

    Returns
    -------
    The model, and (field of ``Model``, value, reason) for everything that the file leaves to a default.

    Raises
    ------
    InputError
        When the file is unreadable, broken, contradicts itself, or describes an architecture that ``Model`` cannot say.
    """
    given = Path(path)
    try:
        place = given / "config.json" if given.is_dir() else given
    except (OSError, ValueError) as error:
        raise InputError([Problem(field="model", value=str(path), message=f"cannot be read: {error}")]) from None
    config = Config(read_json(place, "model"))
    fields = SUPPORTED[_model_type(config)](config)
    if config.file.not_finite:
        message = "holds NaN or an infinity, which JSON does not know"
        raise InputError([Problem(field="model", message=message, where=config.file.not_finite)])
    check_heads(config, fields)
    if config.problems:
        raise InputError(config.problems)
    name = place.resolve().parent.name if place.name == "config.json" else place.stem
    return Model(name=name, **fields), tuple(config.inferred)


def _model_type(config: Config) -> str:
    """The supported ``model_type`` of the file; anything else is refused by name."""
    document = config.document
    if "peft_type" in document:
        advice = "simulate the base model's config.json with --set 'recipe.lora={rank: ..., targets: [...]}'"
        _refuse(config, "peft_type", f"adapter file ({document['peft_type']!s:.40}) is no model", advice)
    if "quantization" in document and "model_type" not in document:
        _refuse(config, "quantization", "quantisation file is not supported", "give the model's config.json, and --precision for training")
    key, value = config.get("architectures")
    head = value[0] if isinstance(value, list) and value and isinstance(value[0], str) else ""
    word = _word(config, head)
    if word in TEXT_PARTS:
        word = _enter_text(config, word)
    elif word not in SUPPORTED or _otherwise(document, word):
        named = key if not config.get("model_type")[0] and head else "model_type"
        _refuse(config, named, f"architecture {word!r:.80}{_family(document, word)} is not supported")
    else:
        config.type = word
        _check_head(config, head)
    if config.get("quantization_config")[0]:
        config.note("quantization_config", "ignored", "describes a finished checkpoint; the number formats of training are chosen apart")
    return word


def _word(config: Config, head: str) -> str:
    """``model_type``, or what goes with the class, or with the keys of files that name neither; refused without all three."""
    _, word = config.get("model_type")
    if isinstance(word, str):
        return word
    if head:
        found = next((name for name in SUPPORTED if _class_of(name) == head), "")
        if found:
            config.note("model_type", found, f"model_type is not in the file; taken from architectures ({head})")
        return found or head
    found = next((name for name, keys in BY_KEYS.items() if keys <= set(config.document)), "")
    if not found:
        _refuse(config, "model_type", f"file without model_type{_family(config.document, '')} is not supported")
    config.note("model_type", found, f"model_type is not in the file; its keys are those of {found}")
    return found


BY_KEYS = {
    "bert": {"type_vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "max_position_embeddings"},
    "deepseek_native": {"dim", "inter_dim", "moe_inter_dim", "n_activated_experts", "kv_lora_rank"},
}
"""Files of the authors' own code, told by their keys: Google's BERT and DeepSeek's inference code."""


def _enter_text(config: Config, word: str) -> str:
    """Read the language model of a model of text and images, and say what is left out."""
    config.note("vision_config", "left out", f"only the language model of {word} is simulated, on text alone")
    if isinstance(config.document.get("text_config"), dict):
        config.enter("text_config")
    config.type = TEXT_PARTS[word]
    return config.type


def _check_head(config: Config, head: str) -> None:
    """A model has the output head it is trained with; a file that names the bare model gets one, other tasks are refused."""
    known = _ENCODER_HEADS.get(config.type)
    if not head or (head in known if known else head.endswith(_HEADS) or (config.type == "chatglm" and head.startswith("ChatGLM"))):
        return
    if not head.endswith("Model"):
        allowed = ", ".join(known) if known else ""
        _refuse(config, "architectures", f"architecture {head!r:.80} is not supported", f"of this family: {allowed}" if allowed else "")
    config.note("architectures", head, "names the bare model; the output head it is trained with is added")


def _class_of(model_type: str) -> str:
    """Class name that goes with a type: ``gpt_neox`` -> ``GPTNeoXForCausalLM``, ``llama`` -> ``LlamaForCausalLM``."""
    special = {"gpt2": "GPT2LMHeadModel", "gpt_neox": "GPTNeoXForCausalLM", "opt": "OPTForCausalLM", "qwen": "QWenLMHeadModel"}
    classes = _ENCODER_HEADS.get(model_type)
    return classes[0] if classes else special.get(model_type, f"{model_type.title().replace('_', '')}ForCausalLM")


def _reasons(document: Mapping[str, Any]) -> dict[str, bool]:
    def has(keys: tuple[str, ...]) -> bool:
        return any(document.get(key) not in (None, 0, 1) for key in keys)

    return {
        "mixture of experts": has(_EXPERTS),
        "multi-head latent attention": has(("kv_lora_rank",)),
        "encoder-decoder": any(document.get(key) is True for key in ("is_encoder_decoder", "add_cross_attention")),
        "images or sound as input": has(_OTHER_INPUTS),
        "state-space or recurrent layers": has(_STATE_SPACE),
        "layers that differ from one another": has(("block_configs", "hybrid_override_pattern")),
    }


def _otherwise(document: Mapping[str, Any], word: str) -> list[str]:
    """What the keys say beyond a dense decoder that the reader of ``word`` does not read."""
    expected = {
        "mixture of experts": word in MIXTURES,
        "multi-head latent attention": word in MIXTURES,
        "encoder-decoder": word in ("t5", "bart"),
        "images or sound as input": word == "vit",
    }
    return [reason for reason, present in _reasons(document).items() if present and not expected.get(reason, False)]


def _family(document: Mapping[str, Any], word: str) -> str:
    """Why an architecture is refused, in parentheses."""
    found = [REFUSED[word]] if word in REFUSED else _otherwise(document, word)
    return f" ({', '.join(found)})" if found else ""


def _refuse(config: Config, key: str, what: str, advice: str = "") -> NoReturn:
    message = f"{what}; {advice}" if advice else what
    where = config.file.where(key)
    raise InputError([Problem(field="model", message=message, allowed=f"model_type {', '.join(SUPPORTED)}", where=where)])
