"""What stands in for a recipe field that the user left out, and why."""

from __future__ import annotations

from math import gcd
from typing import Any

from foretrain.core.units import parse
from foretrain.simulate.scenario import Assumption
from foretrain.workload.convnet import ConvNet
from foretrain.workload.counting import num_active_parameters
from foretrain.workload.model import Model

DEFAULT_SEQ_LEN = 4096
DEFAULT_BATCH_TOKENS = 4e6
TOKENS_PER_PARAMETER = 20.0
USUAL_PLAN = 16
"""Chips that share a sequence in usual plans of large models: a published batch that they divide is kept as it is."""
ROUNDED = ", rounded up to a batch the chips can share"
DEFAULT_BATCH_IMAGES = 256.0
EPOCHS = 90.0
IMAGENET_IMAGES = 1281167.0
IMAGE_BYTE = 147897477120.0 / IMAGENET_IMAGES
"""Size of the archive of ILSVRC 2012's training images over their number."""
"""Training images of ILSVRC 2012 (Russakovsky et al., arXiv 1409.0575, table 2)."""


def complete_recipe(recipe: dict[str, Any], model: Model | ConvNet, num_chips: int, notes: list[Assumption]) -> None:
    """Fill ``seq_len``, ``encoder_seq_len``, ``global_batch_size`` and ``tokens`` where missing; each gets an assumption that says so.

    Sequence length: the model's maximum up to 4,096 tokens, and the same for an encoder in front. Global batch: the published one in
    tokens, else 4 million tokens, at least a sequence a chip; rounded up to the odd factor of the chip count times a power of two.
    Tokens: 20 per parameter (Hoffmann et al., arXiv 2203.15556, table 3).
    """
    if isinstance(model, ConvNet):
        _complete_images(recipe, num_chips, notes)
        return
    if recipe.get("seq_len") is None:
        longest = model.num_positions if model.patch_size else model.max_seq_len or DEFAULT_SEQ_LEN
        recipe["seq_len"] = min(longest, DEFAULT_SEQ_LEN)
        notes.append(Assumption(field="recipe.seq_len", value=recipe["seq_len"], reason=f"not given; the model allows {longest}"))
    if model.patch_size and recipe.get("input_byte_per_token") is None:
        _note_images(recipe, _number(recipe["seq_len"]), notes)
    if model.encoder_layers and recipe.get("encoder_seq_len") is None:
        recipe["encoder_seq_len"] = recipe["seq_len"]
        notes.append(Assumption(field="recipe.encoder_seq_len", value=recipe["seq_len"], reason="not given; as long as the decoder's"))
    published = recipe.pop("global_batch_tokens", None)
    if recipe.get("global_batch_size") is None:
        seq_len = _number(recipe["seq_len"])
        batch = round(_number(published or DEFAULT_BATCH_TOKENS) / seq_len)
        wanted = batch if published else max(batch, num_chips)
        recipe["global_batch_size"] = shared = _shared(wanted, num_chips, keep=bool(published))
        kind = "published for this model" if published else "not given; 4 million tokens are usual"
        reason = f"{kind}: {_number(published or DEFAULT_BATCH_TOKENS):,.0f} tokens{ROUNDED if shared != wanted else ''}"
        notes.append(Assumption(field="recipe.global_batch_size", value=recipe["global_batch_size"], reason=reason))
    if recipe.get("tokens") is None:
        recipe["tokens"] = TOKENS_PER_PARAMETER * num_active_parameters(model)
        reason = "not given; 20 tokens per active parameter (Hoffmann et al. 2022)"
        notes.append(Assumption(field="recipe.tokens", value=recipe["tokens"], reason=reason))


def _shared(wanted: int, num_chips: int, *, keep: bool = False) -> int:
    """``wanted`` rounded up to the odd factor of the chip count times a power of two; to ``keep``, as it is where plans of ``USUAL_PLAN``
    chips a sequence share it evenly.

    >>> _shared(1000, 48), _shared(15360, 2048, keep=True)
    (1536, 15360)
    """
    sharers = num_chips // gcd(num_chips, USUAL_PLAN)
    if keep and sharers > 1 and wanted % (2 * sharers) == 0:
        return wanted
    odd = num_chips
    while odd % 2 == 0:
        odd //= 2
    return odd * (1 << max(-(-wanted // odd) - 1, 0).bit_length())


def _complete_images(recipe: dict[str, Any], num_chips: int, notes: list[Assumption]) -> None:
    """The recipe of a convolutional network, whose tokens are images.

    Global batch: the published one, else 256 (He et al., arXiv 1512.03385, section 3.4), at least an image a chip. Images of the run: 90
    epochs of ImageNet (Goyal et al., arXiv 1706.02677, section 5.1).
    """
    recipe.setdefault("flop_convention", "convolutions")
    if recipe.get("seq_len") is None:
        recipe["seq_len"] = 1
        notes.append(Assumption(field="recipe.seq_len", value=1, reason="an image counts as one token"))
    if recipe.get("input_byte_per_token") is None:
        _note_images(recipe, 1.0, notes)
    published = recipe.pop("global_batch_tokens", None)
    if recipe.get("global_batch_size") is None:
        batch = round(_number(published or DEFAULT_BATCH_IMAGES))
        recipe["global_batch_size"] = shared = _shared(max(batch, num_chips), num_chips)
        kind = "published for this model" if published else "not given; usual"
        reason = f"{kind}: {batch:,} images{ROUNDED if shared != batch else ''}"
        notes.append(Assumption(field="recipe.global_batch_size", value=recipe["global_batch_size"], reason=reason))
    if recipe.get("tokens") is None:
        recipe["tokens"] = EPOCHS * IMAGENET_IMAGES
        reason = "not given; 90 epochs of ImageNet (Goyal et al. 2017), in images"
        notes.append(Assumption(field="recipe.tokens", value=recipe["tokens"], reason=reason))


def _note_images(recipe: dict[str, Any], tokens: float, notes: list[Assumption]) -> None:
    """The bytes of an image from the file system, shared by its tokens."""
    recipe["input_byte_per_token"] = f"{IMAGE_BYTE / tokens:.0f} B"
    reason = "not given; images of ImageNet take 115 kB on average"
    notes.append(Assumption(field="recipe.input_byte_per_token", value=recipe["input_byte_per_token"], reason=reason))


def _number(value: Any) -> float:
    """A count that may still be text; nonsense counts as 1 here and is reported by the validation of the recipe."""
    try:
        return max(parse(value, "1"), 1.0)
    except ValueError:
        return 1.0
