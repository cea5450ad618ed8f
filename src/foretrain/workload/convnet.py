"""Convolutional networks as lists of layers: sizes computed from the image inwards, parameters and multiplications counted from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Literal

from foretrain.core.errors import InputError, Problem
from foretrain.core.record import record
from foretrain.core.units import Quantity

Size = Annotated[int, Quantity(integer=True, ge=0, le=1e6)]
Count = Annotated[int, Quantity(integer=True, ge=1, le=1e6)]
LayerWord = Literal[
    "conv", "depthwise", "linear", "max_pool", "average_pool", "global_pool", "dropout", "squeeze_excite", "branches"
]  # fmt: skip
Activation = Literal["none", "relu", "relu6", "silu", "sigmoid"]
Join = Literal["add", "concat", "multiply", "aside"]

WEIGHTED = ("conv", "depthwise", "linear")
"""Kinds of layer with a kernel or matrix of weights."""
TRAINING_PASSES = 3.0
"""Forward, gradient of the input and gradient of the weights: each as many products as the forward pass."""


@record
class Layer:
    """One layer; what is not said is computed from the layer before it.

    ``conv``: a convolution to ``channels``, in ``groups``; ``depthwise``: one filter per channel; ``linear``: fully connected, on all
    elements of its input; ``max_pool``, ``average_pool``, ``global_pool`` (mean of each channel), ``dropout``. A kernel is ``kernel``
    high and ``kernel_width`` wide (0: square); ``padding`` rows and columns are added on either side in each direction in
    which the kernel has more than one element. ``norm``: a batch normalisation follows; then ``activation``.

    ``branches`` run on the same input, an empty one is the identity, and are put together by ``join``: ``add`` (a residual),
    ``concat`` (Inception), ``multiply`` (a gate), ``aside`` (the first goes on, the others are heads of their own).
    ``squeeze_excite``: a gate from the channels' means through ``channels`` units with ``activation`` (Hu et al., arXiv 1709.01507,
    figure 3).
    """

    kind: LayerWord
    channels: Size = 0
    kernel: Count = 1
    kernel_width: Size = 0
    stride: Count = 1
    padding: Size = 0
    groups: Count = 1
    bias: bool = False
    norm: bool = False
    activation: Activation = "none"
    join: Join = "add"
    branches: tuple[tuple[Layer, ...], ...] = ()


@record
class Section:
    """Layers in order, ``repeat`` times over; what is repeated must give back the shape that it takes."""

    name: str
    layers: tuple[Layer, ...]
    repeat: Count = 1


@record
class ConvNet:
    """A convolutional network on square images of ``image_size`` pixels a side with ``num_channels`` colours."""

    name: str
    image_size: Count
    sections: tuple[Section, ...]
    num_channels: Count = 3


@record
class Shape:
    """Channels, height and width of one image's tensor."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Elements of one image."""
        return self.channels * self.height * self.width


@record
class Placed:
    """A layer, or a join of branches, with its sizes for one image.

    ``kind`` is the layer's, or the join's word. ``area``: elements of the kernel in one channel; ``num_branches`` of a join, else 1.
    ``first``: nothing before it has weights, so that its input needs no gradient. ``output_kept``: what follows needs this output in its
    backward pass. ``waiting``: elements of the gradients that wait for other branches while this layer is run backwards.
    """

    name: str
    kind: str
    inputs: Shape
    outputs: Shape
    area: int = 1
    groups: int = 1
    bias: bool = False
    norm: bool = False
    activation: Activation = "none"
    num_branches: int = 1
    first: bool = False
    output_kept: bool = True
    waiting: int = 0

    @property
    def fan_in(self) -> int:
        """Inputs that one output element is the weighted sum of; 0 without weights."""
        whole = self.inputs.elements if self.kind == "linear" else self.inputs.channels // self.groups * self.area
        return whole if self.kind in WEIGHTED else 0

    @property
    def weights(self) -> int:
        """Elements of the kernel or matrix."""
        return self.fan_in * self.outputs.channels

    @property
    def parameters(self) -> int:
        """Weights, biases, and scale and shift of the batch normalisation."""
        return self.weights + self.outputs.channels * (self.bias + 2 * self.norm)

    @property
    def macs(self) -> int:
        """Multiplications with weights in the forward pass of one image."""
        return self.fan_in * self.outputs.elements


@record
class PlacedSection:
    """The layers of a section with their sizes; each runs ``repeat`` times."""

    name: str
    repeat: int
    layers: tuple[Placed, ...]


SHAPED = ("kernel", "kernel_width", "stride", "padding")
FIELDS: dict[str, tuple[str, ...]] = {
    "conv": ("channels", *SHAPED, "groups", "bias", "norm", "activation"),
    "depthwise": (*SHAPED, "bias", "norm", "activation"),
    "linear": ("channels", "bias", "norm", "activation"),
    "max_pool": SHAPED,
    "average_pool": SHAPED,
    "global_pool": (),
    "dropout": (),
    "squeeze_excite": ("channels", "activation"),
    "branches": ("join", "branches", "activation"),
}
"""Fields that mean something to each kind of layer."""


def out_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """Rows (or columns) after a kernel slid over ``size`` of them: ``floor((size + 2 padding - kernel) / stride) + 1``.

    Dumoulin and Visin, arXiv 1603.07285, relationship 6.

    >>> out_size(224, 7, 2, 3)
    112
    """
    return (size + 2 * padding - kernel) // stride + 1


def _refuse(path: str, message: str, value: object = None, allowed: str = "", nearest: tuple[object, ...] = ()) -> InputError:
    return InputError([Problem(field=path, value=value, message=message, allowed=allowed, nearest=nearest)])


def _check_fields(layer: Layer, path: str) -> None:
    """A layer says what it needs, and nothing that its kind has no use for."""
    plain = Layer(kind=layer.kind)
    for name in ("channels", *SHAPED, "groups", "bias", "norm", "activation", "join", "branches"):
        given = getattr(layer, name)
        if name not in FIELDS[layer.kind] and given != getattr(plain, name):
            raise _refuse(f"{path}.{name}", f"means nothing for {layer.kind}", given, ", ".join(FIELDS[layer.kind]) or "no field")
    if "channels" in FIELDS[layer.kind] and not layer.channels:
        raise _refuse(f"{path}.channels", f"is missing; {layer.kind} needs it", allowed=">= 1")


def _slid(layer: Layer, shape: Shape, path: str) -> Shape:
    """Height and width after a layer that slides a kernel."""
    tall, wide = layer.kernel, layer.kernel_width or layer.kernel
    height = out_size(shape.height, tall, layer.stride, layer.padding * (tall > 1))
    width = out_size(shape.width, wide, layer.stride, layer.padding * (wide > 1))
    if height < 1 or width < 1:
        message = f"a kernel of {tall} x {wide} with padding {layer.padding} does not fit on {shape.height} x {shape.width}"
        raise _refuse(f"{path}.kernel", message, layer.kernel, "a smaller kernel, or a larger model.image_size")
    return Shape(channels=shape.channels, height=height, width=width)


def _simple(layer: Layer, shape: Shape, path: str) -> Placed:
    """A layer without branches."""
    point = Shape(channels=layer.channels or shape.channels, height=1, width=1)
    slid = layer.kind not in ("linear", "global_pool", "dropout")
    outputs = replace(_slid(layer, shape, path), channels=point.channels) if slid else point
    groups = shape.channels if layer.kind == "depthwise" else layer.groups
    if layer.kind == "conv" and (shape.channels % groups or layer.channels % groups):
        message = f"must divide the {shape.channels} channels of the input and the {layer.channels} of the output"
        both = [g for g in range(1, groups + 1) if shape.channels % g == 0 and layer.channels % g == 0]
        raise _refuse(f"{path}.groups", message, groups, nearest=(both[-1],))
    area = layer.kernel * (layer.kernel_width or layer.kernel)
    return Placed(
        name=f"{layer.kind} {layer.kernel}x{layer.kernel_width or layer.kernel}" if slid else layer.kind.replace("_", " "),
        kind=layer.kind,
        inputs=shape,
        outputs=shape if layer.kind == "dropout" else outputs,
        area=area if slid else 1,
        groups=groups,
        bias=layer.bias,
        norm=layer.norm,
        activation=layer.activation,
    )


def _gate(layer: Layer, channels: int) -> Layer:
    """Squeeze and excitation on ``channels`` channels as two branches, the tensor and its gate, that are multiplied."""
    gate = (
        Layer(kind="global_pool"),
        Layer(kind="conv", channels=layer.channels, bias=True, activation=layer.activation),
        Layer(kind="conv", channels=channels, bias=True, activation="sigmoid"),
    )
    return Layer(kind="branches", join="multiply", branches=((), gate))


def _joined(join: Join, shapes: Sequence[Shape], path: str) -> Shape:
    """The shape of what branches give together."""
    head = shapes[0]
    if join == "concat":
        fits = all((shape.height, shape.width) == (head.height, head.width) for shape in shapes)
        result = replace(head, channels=sum(shape.channels for shape in shapes))
    else:
        gates = (replace(head, height=1, width=1),) if join == "multiply" else ()
        fits = join == "aside" or all(shape in (head, *gates) for shape in shapes)
        result = head
    if not fits:
        sizes = ", ".join(f"{shape.channels} x {shape.height} x {shape.width}" for shape in shapes)
        raise _refuse(f"{path}.branches", f"branches to {join} have the shapes {sizes}", allowed="shapes that agree")
    return result


def _branched(layer: Layer, shape: Shape, path: str, *, first: bool) -> list[Placed]:
    """The layers of all branches and the join, last."""
    if len(layer.branches) < 2:
        raise _refuse(f"{path}.branches", "needs at least two branches; an empty one is the identity", len(layer.branches))
    inner: list[Placed] = []
    shapes = []
    for index, branch in enumerate(layer.branches):
        kept = layer.join in ("multiply", "aside")
        placed = _in_order(branch, shape, f"{path}.branches.{index}", first=first, last_kept=kept)
        inner += placed
        shapes.append(placed[-1].outputs if placed else shape)
    outputs = _joined(layer.join, shapes, path)
    inner = [replace(one, waiting=one.waiting + outputs.elements) for one in inner]
    join = Placed(
        name=layer.join, kind=layer.join, inputs=shape, outputs=outputs, activation=layer.activation, num_branches=len(shapes), first=first
    )
    return [*inner, join]


def _in_order(layers: Sequence[Layer], shape: Shape, path: str, *, first: bool, last_kept: bool = True) -> list[Placed]:
    """Layers one after another, from the shape that enters the first."""
    result: list[Placed] = []
    for index, layer in enumerate(layers):
        where = f"{path}.{index}"
        _check_fields(layer, where)
        if layer.kind == "squeeze_excite":
            placed = _branched(_gate(layer, shape.channels), shape, where, first=first)
        elif layer.kind == "branches":
            placed = _branched(layer, shape, where, first=first)
        else:
            placed = [_simple(layer, shape, where)]
        following = layers[index + 1].kind if index + 1 < len(layers) else None
        kept = last_kept if following is None else following != "dropout"
        result += [*placed[:-1], replace(placed[-1], output_kept=kept, first=first)]
        shape = placed[-1].outputs
        first = first and not any(one.parameters for one in placed)
    return result


@lru_cache(maxsize=256)
def place(net: ConvNet) -> tuple[PlacedSection, ...]:
    """All layers with their sizes, section by section.

    Raises
    ------
    InputError
        Naming the first layer whose sizes do not work out.
    """
    shape = Shape(channels=net.num_channels, height=net.image_size, width=net.image_size)
    result: list[PlacedSection] = []
    for index, section in enumerate(net.sections):
        path = f"model.sections.{index}"
        first = not any(one.parameters for done in result for one in done.layers)
        layers = _in_order(section.layers, shape, f"{path}.layers", first=first)
        if not layers:
            raise _refuse(f"{path}.layers", "must list at least one layer", [])
        if section.repeat > 1 and (first or layers[-1].outputs != shape):
            message = "only a section that gives back the shape it takes can repeat, and not the one that reads the image"
            raise _refuse(f"{path}.repeat", message, section.repeat, "1", (1,))
        shape = layers[-1].outputs
        result.append(PlacedSection(name=section.name, repeat=section.repeat, layers=tuple(layers)))
    if not any(one.parameters for done in result for one in done.layers):
        raise _refuse("model.sections", "must list at least one layer with weights", allowed=", ".join(WEIGHTED))
    return tuple(result)


def num_parameters(net: ConvNet) -> int:
    """Exact number of parameters: weights, biases, scales and shifts (running means and variances are not trained)."""
    return sum(section.repeat * sum(layer.parameters for layer in section.layers) for section in place(net))


def largest_layer_parameters(net: ConvNet) -> int:
    """Parameters of the largest kernel or matrix with its bias."""
    return max(layer.weights + layer.bias * layer.outputs.channels for section in place(net) for layer in section.layers)


def num_macs(net: ConvNet) -> int:
    """Multiply-accumulates of convolutions and fully connected layers in one image's forward pass (He et al., arXiv 1512.03385, table 1,
    calls these FLOPs)."""
    return sum(section.repeat * sum(layer.macs for layer in section.layers) for section in place(net))


def num_classes(net: ConvNet) -> int:
    """Outputs of the last layer."""
    return place(net)[-1].layers[-1].outputs.elements


def training_flop(net: ConvNet) -> float:
    """Model FLOP of one image, forward and backward: three times the forward products, two FLOP each.

    The first layer needs no gradient of its input, so slightly less is executed; as for transformers, the convention counts it.
    """
    return TRAINING_PASSES * 2.0 * num_macs(net)
