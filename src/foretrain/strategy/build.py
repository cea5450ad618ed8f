"""The build: words that say which kernels and features the training software has."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Build:
    """``attention_kernel``: which fused attention is used when ``flash_attention`` is on: the versions of FlashAttention
    and cuDNN's (``flash2`` also stands for the Composable Kernel and Triton versions on AMD), ``splash`` of JAX on TPUs, or the ``fused``
    scaled-dot-product attention that a graph compiler (Gaudi, Neuron) brings along. The chip's kernels must list it.

    ``fused_softmax``: scale, mask and softmax in one kernel when attention is not fused. ``fused_norm``: one kernel per
    norm and direction. ``fused_bias_dropout``: bias, dropout and residual in one kernel. ``fused_activation``: bias and activation (or
    gate) in one kernel. ``fused_cross_entropy``: loss without extra fp32 copies of the logits. ``fused_optimizer``: one pass over the
    optimizer states. ``fused_wgrad_accumulation``: the weight-gradient GEMM adds into the gradient buffer itself.
    ``grouped_matmul``: all experts' products in one kernel, instead of one kernel each (as Transformer Engine's grouped layer, which
    spreads them over streams).
    ``fp8_weight_copies``: 8-bit copies of the weights that stay for a whole step (2: as they are and transposed).
    ``routed_dispatch``: the software has a dispatcher that sends a token over every link once (``strategy.dispatcher`` ``deepep``).
    ``scatter_gather_p2p``: pipeline tensors are cut over the tensor-parallel ranks before they cross servers.
    ``strict_interleaving``: the interleaved schedule needs a number of microbatches that is a multiple of pp (Megatron);
    otherwise any multiple of max(1, m // pp) rounds (PyTorch). ``graph_capture``: kernels are replayed from a captured graph, so the
    host does not launch them one by one.
    """

    attention_kernel: Literal["flash1", "flash2", "flash3", "cudnn", "splash", "fused"] = "flash2"
    fused_softmax: bool = True
    fused_norm: bool = True
    fused_bias_dropout: bool = True
    fused_activation: bool = True
    fused_cross_entropy: bool = True
    fused_optimizer: bool = True
    fused_wgrad_accumulation: bool = True
    grouped_matmul: bool = False
    routed_dispatch: bool = False
    fp8_weight_copies: Annotated[int, Quantity(integer=True, ge=0, le=2)] = 2
    scatter_gather_p2p: bool = False
    strict_interleaving: bool = True
    graph_capture: bool = False
