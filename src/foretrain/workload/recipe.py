"""The recipe: how the model is trained, independent of hardware and of how the work is cut."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
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


@record
class Recipe:
    """``seq_len`` tokens per sequence (padding included), ``document_lens`` tokens of the documents packed into it (empty: one
    document), ``global_batch_size`` sequences per optimizer step, ``tokens`` of the whole run.

    ``input_byte_per_token``: what the file system delivers per token (4: token numbers of 32 bits; an image or a video clip takes its file
    over its tokens). ``flop_convention`` names what model FLOP count (``workload.counting``): ``causal`` (the default), ``full``, ``palm``,
    ``megatron`` or ``6n``.
    """

    seq_len: Annotated[Num, Quantity(integer=True, ge=1, le=1e8)]
    global_batch_size: Annotated[Num, Quantity(integer=True, ge=1, le=1e9)]
    tokens: Annotated[Num, Quantity(gt=0, le=1e18)]
    precision: Precision = Precision()
    optimizer: Literal["adam", "adamw", "sgd"] = "adamw"
    dropout: bool = False
    document_lens: tuple[Size, ...] = ()
    batch_ramp: BatchRamp | None = None
    input_byte_per_token: Annotated[Num, Quantity("B", ge=0)] = 4.0
    flop_convention: Literal["causal", "full", "palm", "megatron", "6n"] = "causal"


@record
class Workload:
    """A model and its recipe."""

    model: Model
    recipe: Recipe
