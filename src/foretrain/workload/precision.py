"""Number formats of the five things a training step keeps or computes with."""

from __future__ import annotations

from typing import Literal

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.record import record

Dtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "nf4", "none"]


@record
class Precision:
    """Data types of matrix ``math``, ``weights``, ``grads``, ``master`` weights and optimizer ``moments``.

    ``activation`` is the type of tensors between kernels. ``none`` says that no such copy is kept. ``nf4`` weights are frozen 4-bit ones
    that every use first widens.
    """

    math: Dtype = "bf16"
    activation: Dtype = "bf16"
    weights: Dtype = "bf16"
    grads: Dtype = "fp32"
    master: Dtype = "fp32"
    moments: Dtype = "fp32"

    @property
    def wide(self) -> Dtype:
        """Type of the products that are never run in 8 bits: attention and the output head."""
        return self.activation if self.math == "fp8" else self.math

    def byte(self, part: Literal["math", "activation", "weights", "grads", "master", "moments"]) -> float:
        """Bytes per element of ``part``."""
        return DTYPE_BYTE[getattr(self, part)]


PRESETS: dict[str, Precision] = {
    "fp32": Precision(math="fp32", activation="fp32", weights="fp32", grads="fp32", master="none"),
    "tf32": Precision(math="tf32", activation="fp32", weights="fp32", grads="fp32", master="none"),
    "fp16": Precision(math="fp16", activation="fp16", weights="fp16", grads="fp32"),
    "bf16": Precision(math="bf16", activation="bf16", weights="bf16", grads="fp32"),
    "fp8": Precision(math="fp8", activation="bf16", weights="bf16", grads="fp32"),
}
"""What ``--precision WORD`` stands for: 16-bit math keeps fp32 gradients, master copy and moments as Megatron does."""
