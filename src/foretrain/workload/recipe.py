"""The recipe: how the model is trained, independent of hardware and of how the work is cut."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import Model, Size
from foretrain.workload.precision import Precision


@record
class BatchRamp:
    """The global batch grows from ``start`` to ``end`` sequences in steps of ``step``, over the first ``tokens`` tokens."""

    start: Annotated[int, Quantity(integer=True, ge=1, le=1e9)]
    step: Annotated[int, Quantity(integer=True, ge=1, le=1e9)]
    end: Annotated[int, Quantity(integer=True, ge=1, le=1e9)]
    tokens: Annotated[float, Quantity(gt=0, le=1e18)]

    def sizes(self) -> range:
        """Every batch size of the ramp, ``end`` included."""
        return range(self.start, self.end + 1, self.step)


Target = Literal["q", "k", "v", "o", "gate", "up", "down", "head"]
Part = Literal["embedding", "layers", "encoder", "head"]


@record
class Lora:
    """Low-rank adapters on a frozen model: ``W + B A`` with ``rank`` rows in A (Hu et al., arXiv 2106.09685, section 4.1).

    ``targets`` names the matrices that get one. With ``recipe.precision.weights: nf4`` it is QLoRA (Dettmers et al., arXiv 2305.14314).
    """

    rank: Annotated[int, Quantity(integer=True, ge=1, le=1e5)]
    targets: tuple[Target, ...] = ("q", "k", "v", "o", "gate", "up", "down")


@record
class Recipe:
    """``seq_len`` tokens per sequence (padding included), ``document_lens`` tokens of the documents packed into it (empty: one
    document), ``global_batch_size`` sequences per optimizer step, ``tokens`` of the whole run.

    ``encoder_seq_len``: tokens that the encoder of an encoder-decoder reads per sequence. ``lora``: adapters are trained and all else is
    frozen; ``frozen`` names parts of the model whose parameters stay as they are.
    ``expert_imbalance``: tokens of the busiest expert-parallel rank over the mean (1: balanced); ``capacity_factor``: an expert drops what
    exceeds that many times its even share, and computes on padding up to it (0: nothing is dropped or padded; Fedus et al., Switch
    Transformers, arXiv 2101.03961, section 2.2).
    ``input_byte_per_token``: what the file system delivers per token (4: token numbers of 32 bits; an image or a video clip takes its file
    over its tokens).

    ``flop_convention`` names what model FLOP count (``workload.counting``): ``causal`` (the default), ``full``, ``palm``,
    ``megatron`` or ``6n``; for convolutional networks ``convolutions``.

    An image counts as one token: ``seq_len`` of a convolutional network is 1, and batch and ``tokens`` are images.
    """

    seq_len: Annotated[Num, Quantity(integer=True, ge=1, le=1e8)]
    global_batch_size: Annotated[Num, Quantity(integer=True, ge=1, le=1e9)]
    tokens: Annotated[Num, Quantity(gt=0, le=1e18)]
    precision: Precision = Precision()
    optimizer: Literal["adam", "adamw", "adam8bit", "adafactor", "lion", "muon", "sgd", "rmsprop"] = "adamw"
    dropout: bool = False
    document_lens: tuple[Size, ...] = ()
    batch_ramp: BatchRamp | None = None
    encoder_seq_len: Annotated[Num, Quantity(integer=True, ge=0, le=1e8)] = 0
    lora: Lora | None = None
    frozen: tuple[Part, ...] = ()
    expert_imbalance: Annotated[Num, Quantity(ge=1, le=1e6)] = 1.0
    capacity_factor: Annotated[Num, Quantity(ge=0, le=1e6)] = 0.0
    input_byte_per_token: Annotated[Num, Quantity("B", ge=0)] = 4.0
    flop_convention: Literal["causal", "full", "palm", "megatron", "6n", "convolutions"] = "causal"

    def trains(self, part: Part) -> bool:
        """Whether the model's own parameters of ``part`` get gradients."""
        return self.lora is None and part not in self.frozen


@record
class Workload:
    """A model and its recipe."""

    model: Model | ConvNet
    recipe: Recipe

    @property
    def transformer(self) -> Model:
        """The model, for what is only asked of transformers."""
        if isinstance(self.model, ConvNet):
            raise TypeError(f"{self.model.name} is not a transformer")
        return self.model
