"""Convolutional networks as a program: convolutions as matrix products, all else as streams through memory, data parallel only.

A convolution is an implicit GEMM (Chetlur et al., cuDNN, arXiv 1410.0759, section 3): one row per output position, one column
per output channel, as deep as the weighted sum of one output element. Depthwise convolutions have nothing to multiply as matrices and
are bound by memory. Winograd and Fourier algorithms are left out: libraries take them for 3 x 3 kernels without tensor cores, where
they need fewer multiplications than are counted here. Every elementwise kernel is written as its passes over its tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Num
from foretrain.program.communication import num_communicators, once_per_step, sharded_weights
from foretrain.program.layers import both
from foretrain.program.memory import gathered_bytes, offload_buffer_bytes, saved_byte, stage_states
from foretrain.program.offload import block_offload, offload_fields
from foretrain.program.op import Ops
from foretrain.program.optimizer import Matrix, optimizer_ops
from foretrain.program.program import Block, Program, StageKind
from foretrain.program.rows import Rows
from foretrain.program.sharding import Held
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import WEIGHTED, ConvNet, Placed, PlacedSection, num_classes, num_parameters, place, training_flop
from foretrain.workload.recipe import Recipe

PEAK_MOMENT = "start of the backward pass of one microbatch"
INDEX_BYTE = 8.0
"""Maximum pooling remembers where each maximum was as a 64-bit index (PyTorch's ``max_pool2d_with_indices``)."""
MASK_BYTE = 1.0
"""Dropout remembers one byte per element."""
KEEPS_OUTPUT = ("relu", "relu6", "sigmoid")
"""Activations whose derivative is known from their output, so that they may work in place; the others keep their input."""
NORM_KERNELS = 2.0
"""Batch normalisation sums first and scales then, each way (Ioffe and Szegedy, arXiv 1502.03167, algorithm 1)."""
STATISTICS = 2.0
"""Mean and variance of each channel: once of the batch, kept for the backward pass, and once running."""


def lower_convnet(net: ConvNet, recipe: Recipe, strategy: Strategy) -> Program:
    """The program of one optimizer step of a convolutional network: one block per section, one stage, gradients reduced over dp.

    An image is one sample, so that tokens count images (``recipe.seq_len`` is 1).
    """
    sections = place(net)
    held = _held(num_parameters(net))
    images = strategy.microbatch_size * strategy.num_microbatches * strategy.dp
    flop = training_flop(net) * images
    stage = StageKind(
        name="stage 0",
        first=0,
        count=1,
        repeats=tuple((index, section.repeat) for index, section in enumerate(sections)),
        params=held.total,
        memory_byte=convnet_memory(net, recipe, strategy),
    )
    return Program(
        blocks=tuple(_block(section, recipe, strategy) for section in sections),
        stages=(stage,),
        once=optimizer_ops(held, _matrices(sections), recipe, strategy),
        step_collectives=tuple(once_per_step(held, 0.0, tied=False, recipe=recipe, strategy=strategy)),
        transfers=(),
        num_microbatches=strategy.num_microbatches,
        pp=1,
        vpp=1,
        overlap_p2p=False,
        graph_capture=strategy.build.graph_capture,
        world_size=strategy.world_size,
        tokens_per_step=images,
        useful_tokens_per_step=images,
        num_parameters=num_parameters(net),
        num_active_parameters=num_parameters(net),
        model_flop=flop,
        recompute_flop=0.0 * flop,
        **offload_fields(held, 0.0, 1.0, recipe, strategy),
        input_byte=images * recipe.input_byte_per_token,
        checkpoint_byte=saved_byte(num_parameters(net), recipe),
        num_communicators=num_communicators(strategy),
        peak_moment=PEAK_MOMENT,
        math_dtype=recipe.precision.math,
        flop_convention=recipe.flop_convention,
    )


def _held(params: Num) -> Held:
    """All parameters of a net learn."""
    return Held(params=1.0 * params, trained=1.0 * params)


def _section_held(section: PlacedSection) -> Held:
    return _held(sum(layer.parameters for layer in section.layers))


def _matrices(sections: Sequence[PlacedSection]) -> list[Matrix]:
    """Rows, columns and number of the kernels, each taken as a matrix of its weighted sums."""
    return [
        (layer.fan_in, layer.outputs.channels, 1.0 * section.repeat, False)
        for section in sections
        for layer in section.layers
        if layer.kind in WEIGHTED
    ]


def _block(section: PlacedSection, recipe: Recipe, strategy: Strategy) -> Block:
    held = _section_held(section)
    return Block(
        name=section.name,
        ops=section_ops(section, recipe, strategy),
        collectives=tuple(sharded_weights(held, recipe, strategy)),
        offload=block_offload(held, 0.0, recipe, strategy),
    )


def section_ops(section: PlacedSection, recipe: Recipe, strategy: Strategy) -> Ops:
    """The ops of one run through a section, forward and backward, for one microbatch."""
    rows, images = Rows(), 1.0 * strategy.microbatch_size
    for layer in section.layers:
        _LAYER_OPS[layer.kind](rows, layer, images, recipe, strategy)
        _norm(rows, layer, images, recipe)
        _activation(rows, layer, images, recipe, strategy)
    return rows.ops(strategy.build.attention_kernel)


def convolution(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """A convolution or fully connected layer: one product forward, two backward, one for the layer that reads the image.

    Forward ``m = images x positions``, ``n = channels out / groups``, ``k = channels in / groups x kernel area``, one product per
    group. The input's gradient has the same FLOP on the input's positions: with a stride each of them is reached by fewer
    outputs. Input, output and weights are moved once each; the gradient buffer as in ``program.layers.linear``.
    """
    precision, build = recipe.precision, strategy.build
    e, g, w = precision.byte("activation"), precision.byte("grads"), precision.byte("weights")
    groups, dtype = 1.0 * layer.groups, precision.wide
    fan_in, fan_out = 1.0 * layer.fan_in, layer.outputs.channels / groups
    positions = 1.0 * layer.outputs.height * layer.outputs.width
    moved = images * e * (layer.inputs.elements + layer.outputs.elements)
    rows.matmul(layer.name, "forward", dtype, images * positions, fan_out, fan_in, groups, moved + layer.weights * w)
    if not layer.first:
        width = fan_in if layer.kind == "linear" else layer.inputs.channels / groups
        sources = layer.inputs.elements / (width * groups)
        depth = layer.macs / layer.inputs.elements
        rows.matmul(f"{layer.name} dgrad", "backward", dtype, images * sources, width, depth, groups, moved + layer.weights * w)
    fused = build.fused_wgrad_accumulation
    stored = moved + layer.weights * (2 * g if fused else w)
    rows.matmul(f"{layer.name} wgrad", "backward", dtype, fan_out, fan_in, images * positions, groups, stored)
    if not fused:
        rows.stream(f"{layer.name} grad add", "backward", layer.weights * (w + 2 * g))
    _bias(rows, layer, images, recipe)


def depthwise(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """One filter per channel, on the vector units: input and output pass once each way and for each gradient."""
    precision = recipe.precision
    moved = images * precision.byte("activation") * (layer.inputs.elements + layer.outputs.elements)
    flop = images * 2.0 * layer.macs
    weights = layer.weights * precision.byte("weights")
    rows.stream(layer.name, "forward", moved + weights, flop=flop)
    if not layer.first:
        rows.stream(f"{layer.name} dgrad", "backward", moved + weights, flop=flop)
    rows.stream(f"{layer.name} wgrad", "backward", moved + 2 * layer.weights * precision.byte("grads"), flop=flop)
    _bias(rows, layer, images, recipe)


def pooling(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """Input in, output out, and their gradients the other way; a maximum also leaves its index."""
    e = recipe.precision.byte("activation")
    index = INDEX_BYTE if layer.kind == "max_pool" else 0.0
    byte = images * (layer.inputs.elements * e + layer.outputs.elements * (e + index))
    _each_way(rows, layer, byte, byte)


def dropout(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """Read and write, with a mask, each way."""
    byte = images * layer.outputs.elements * (2 * recipe.precision.byte("activation") + MASK_BYTE)
    _each_way(rows, layer, byte, byte)


JOIN_PASSES: dict[str, tuple[float, float]] = {"add": (3.0, 0.0), "concat": (2.0, 2.0), "multiply": (2.0, 4.0), "aside": (0.0, 0.0)}
"""Passes over the joined tensor, forward and backward: a sum reads two and writes one, and hands its gradient on as it is; a
concatenation copies both ways; a gate reads and writes one tensor (the gate itself is small), and backward reads the gradient for each of
its factors, the other factor once, and writes the tensor's gradient."""
ADD_UP = 3.0
"""Passes over the input that add one more branch's gradient to it: two reads and a write."""


def join(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """Branches put together; backward their gradients add up where they parted. A sum of more than two takes one kernel per addition."""
    e = recipe.precision.byte("activation")
    out, further = images * e * layer.outputs.elements, layer.num_branches - 1
    forward, backward = (passes * (further if layer.kind == "add" else 1) for passes in JOIN_PASSES[layer.kind])
    if forward:
        rows.stream(layer.name, "forward", out * forward, kernels=further if layer.kind == "add" else 1.0)
    if backward:
        rows.stream(layer.name, "backward", out * backward)
    if not layer.first:
        rows.stream(f"{layer.name} parting", "backward", images * e * layer.inputs.elements * ADD_UP * further, kernels=1.0 * further)


_LAYER_OPS = {
    **dict.fromkeys(("conv", "linear"), convolution),
    "depthwise": depthwise,
    **dict.fromkeys(("max_pool", "average_pool", "global_pool"), pooling),
    "dropout": dropout,
    **dict.fromkeys(JOIN_PASSES, join),
}


def _each_way(rows: Rows, layer: Placed, forward_byte: Num, backward_byte: Num) -> None:
    """A kernel forward and, unless it reads the image, one backward."""
    if layer.first:
        rows.stream(layer.name, "forward", forward_byte)
    else:
        both(rows, layer.name, forward_byte, backward_byte, again=False)


def _bias(rows: Rows, layer: Placed, images: Num, recipe: Recipe) -> None:
    """Added by the product's own kernel forward; its gradient reads the output's gradient once."""
    if layer.bias:
        rows.stream(f"{layer.name} bias grad", "backward", images * layer.outputs.elements * recipe.precision.byte("activation"))


def _norm(rows: Rows, layer: Placed, images: Num, recipe: Recipe) -> None:
    """Batch normalisation: reads twice (for the sums, and to scale) and writes; backward reads input and gradient twice and writes one."""
    if layer.norm:
        out = images * layer.outputs.elements * recipe.precision.byte("activation")
        both(rows, f"{layer.name} norm", 3 * out, 5 * out, again=False, kernels=NORM_KERNELS)


def _activation(rows: Rows, layer: Placed, images: Num, recipe: Recipe, strategy: Strategy) -> None:
    """Reads and writes; backward reads what was kept and the gradient and writes one. Fused, the kernel before it does both."""
    if layer.activation != "none" and not strategy.build.fused_activation:
        out = images * layer.outputs.elements * recipe.precision.byte("activation")
        both(rows, f"{layer.name} {layer.activation}", 2 * out, 3 * out, again=False)


def kept_byte(layer: Placed, recipe: Recipe) -> float:
    """Bytes per image that a layer keeps for the backward pass; its input is the output that the layer before it keeps.

    The input of the normalisation; the input of an activation that cannot work in place; the output, if an activation made it or the
    next layer needs it; indices of maxima and masks of dropout. As PyTorch's automatic differentiation saves tensors.
    """
    out = layer.outputs.elements
    smooth = layer.activation not in (*KEEPS_OUTPUT, "none")
    needed = layer.output_kept or layer.activation in KEEPS_OUTPUT
    extra = {"max_pool": INDEX_BYTE, "dropout": MASK_BYTE}.get(layer.kind, 0.0)
    aside = layer.kind == "aside"  # no tensor of its own: its first branch's output, which that branch keeps
    return out * ((layer.norm + smooth + (needed and not aside)) * recipe.precision.byte("activation") + extra)


def statistics_byte(sections: Sequence[PlacedSection]) -> float:
    """fp32 mean and variance of every channel that is normalised."""
    channels = sum(section.repeat * sum(layer.norm * layer.outputs.channels for layer in section.layers) for section in sections)
    return STATISTICS * channels * DTYPE_BYTE["fp32"]


def convnet_memory(net: ConvNet, recipe: Recipe, strategy: Strategy) -> dict[str, Num]:
    """Bytes held by a rank at the peak, by cause, at the start of the backward pass, when everything kept is still there.

    ``working`` is the largest layer's input and output gradients with those that wait for other branches. Scratch memory of
    convolution algorithms is not counted: libraries take what is free.
    """
    sections = place(net)
    precision, images = recipe.precision, 1.0 * strategy.microbatch_size
    e = precision.byte("activation")
    layers = [layer for section in sections for layer in section.layers]
    image = sections[0].layers[0].inputs.elements * e
    kept = image + sum(section.repeat * sum(kept_byte(layer, recipe) for layer in section.layers) for section in sections)
    gradients = max(layer.inputs.elements * (not layer.first) + layer.outputs.elements + layer.waiting for layer in layers)
    per_logit = e + DTYPE_BYTE["fp32"] * (1 if strategy.build.fused_cross_entropy else 2)
    logits = images * num_classes(net) * per_logit
    largest = max((_section_held(section) for section in sections), key=lambda held: float(held.total))
    statistics = statistics_byte(sections)
    held = _held(num_parameters(net))
    return {
        **stage_states(held, Held(), recipe, strategy),
        "activations": images * kept + statistics,
        "running_statistics": statistics,
        "logits": logits,
        "working": images * gradients * e,
        "gathered": gathered_bytes(largest, held, recipe, strategy),
        "offload_buffers": offload_buffer_bytes(largest, recipe, strategy),
    }
