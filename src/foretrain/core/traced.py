"""A number that remembers how it was made: the third kind of ``Num``, beside a float and an array.

A simulation that is fed ``Traced`` leaves instead of floats runs through the very same formulas and returns ``Traced`` figures, so an
explanation read from them cannot drift from the code. An op table becomes an object array of them. Words choose the path as ever:
comparisons look at the value, so a traced expression holds for the path that was taken.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, ClassVar, NamedTuple, TypeAlias, Union

import numpy as np

OBJECT = np.dtype(object)
"""Type of an array of traced numbers; also ``Traced.dtype``, so that one look tells a traced operand from a float one."""

Operand: TypeAlias = Union["Traced", float]
SILENT = (__name__, "foretrain.core.numeric", "foretrain.core.terms")
"""Modules whose helpers stand for an operator: the place of an operation is the formula that called them."""


class Place(NamedTuple):
    """Where an operation was written: module, code object and the index of its instruction."""

    module: str
    code: CodeType
    instruction: int


class Traced:
    """A value with its expression: an operation on operands, or a leaf with the path of a scenario's field.

    Operands are traced numbers or plain ones, which are literals of the formula. Within one ``Graph`` equal expressions are one object,
    so that running a formula again finds the same nodes. Neutral steps (``x + 0``, ``1 x``, ``0 x`` with a literal) leave no node.
    Equality looks at the value and the hash at the identity, so that a cache never takes a traced number for a plain one.
    """

    __slots__ = ("graph", "op", "operands", "path", "place", "value")
    dtype: ClassVar[np.dtype[Any]] = OBJECT

    def __init__(self, graph: Graph, op: str, operands: tuple[Operand, ...], value: float, path: str, place: Place | None) -> None:
        self.graph, self.op, self.operands, self.value, self.path, self.place = graph, op, operands, value, path, place

    def __repr__(self) -> str:
        return f"Traced({self.path or self.op}, {self.value!r})"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == plain(other))

    def __lt__(self, other: Operand) -> bool:
        return bool(self.value < plain(other))

    def __le__(self, other: Operand) -> bool:
        return bool(self.value <= plain(other))

    def __gt__(self, other: Operand) -> bool:
        return bool(self.value > plain(other))

    def __ge__(self, other: Operand) -> bool:
        return bool(self.value >= plain(other))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)  # type: ignore[arg-type]

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __add__(self, other: Operand) -> Any:
        return _combined("+", self, other)

    def __radd__(self, other: Operand) -> Any:
        return _combined("+", other, self)

    def __sub__(self, other: Operand) -> Any:
        return _combined("-", self, other)

    def __rsub__(self, other: Operand) -> Any:
        return _combined("-", other, self)

    def __mul__(self, other: Operand) -> Any:
        return _combined("*", self, other)

    def __rmul__(self, other: Operand) -> Any:
        return _combined("*", other, self)

    def __truediv__(self, other: Operand) -> Any:
        return _combined("/", self, other)

    def __rtruediv__(self, other: Operand) -> Any:
        return _combined("/", other, self)

    def __floordiv__(self, other: Operand) -> Any:
        return _combined("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Any:
        return _combined("//", other, self)

    def __mod__(self, other: Operand) -> Any:
        return _combined("%", self, other)

    def __rmod__(self, other: Operand) -> Any:
        return _combined("%", other, self)

    def __pow__(self, other: Operand) -> Any:
        return _combined("**", self, other)

    def __rpow__(self, other: Operand) -> Any:
        return _combined("**", other, self)

    def __neg__(self) -> Any:
        return apply("neg", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Any:
        return apply("abs", self)

    def __ceil__(self) -> Any:
        return apply("ceil", self)

    def __floor__(self) -> Any:
        return apply("floor", self)

    def log2(self) -> Any:
        """Called by ``np.log2``."""
        return apply("log2", self)

    def log(self) -> Any:
        """Called by ``np.log``."""
        return apply("log", self)

    def log1p(self) -> Any:
        """Called by ``np.log1p``."""
        return apply("log1p", self)

    def exp(self) -> Any:
        """Called by ``np.exp``."""
        return apply("exp", self)

    def expm1(self) -> Any:
        """Called by ``np.expm1``."""
        return apply("expm1", self)

    def sqrt(self) -> Any:
        """Called by ``np.sqrt``."""
        return apply("sqrt", self)


class Graph:
    """All nodes of one traced run, each expression once."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: dict[tuple[Any, ...], Traced] = {}

    def leaf(self, path: str, value: float) -> Traced:
        """The number at ``path`` of the scenario's document.

        >>> tokens = Graph().leaf("recipe.tokens", 2.0)
        >>> (3.0 * tokens + 1.0).value
        7.0
        """
        return self.nodes.setdefault(("leaf", path), Traced(self, "leaf", (), value, path, None))

    def node(self, op: str, operands: tuple[Operand, ...]) -> Traced:
        """The node of ``op`` on ``operands``, made now or found."""
        key = (op, *(id(operand) if isinstance(operand, Traced) else (operand,) for operand in operands))
        found = self.nodes.get(key)
        if found is None:
            value = OPERATIONS[op](*(plain(operand) for operand in operands))
            found = self.nodes[key] = Traced(self, op, operands, value, "", _place())
        return found


def plain(operand: Any) -> Any:
    """The value of a traced number; anything else as it is.

    >>> plain(2.0)
    2.0
    """
    return operand.value if isinstance(operand, Traced) else operand


def apply(op: str, *operands: Any) -> Any:
    """``op`` on numbers, traced where one of them is, and elementwise where one of them is an array of them."""
    if any(isinstance(operand, np.ndarray) for operand in operands):
        return np.frompyfunc(lambda *numbers: apply(op, *numbers), len(operands), 1)(*operands)
    graph = next((operand.graph for operand in operands if isinstance(operand, Traced)), None)
    if graph is None:
        return OPERATIONS[op](*operands)
    return graph.node(op, tuple(operand if isinstance(operand, Traced) else _number(operand) for operand in operands))


def is_traced(*operands: Any) -> bool:
    """True when an operand is a traced number or an array of them."""
    return any(getattr(operand, "dtype", None) is OBJECT for operand in operands)


def order(root: Traced) -> list[Traced]:
    """All nodes that ``root`` is made of, operands before results, ``root`` last."""
    done: dict[int, Traced] = {}
    waiting = [root]
    while waiting:
        node = waiting[-1]
        missing = [operand for operand in node.operands if isinstance(operand, Traced) and id(operand) not in done]
        if missing:
            waiting.extend(missing)
        else:
            waiting.pop()
            done[id(node)] = node
    return list(done.values())


def leaves(root: Traced) -> list[Traced]:
    """The leaves of ``root``, in order of first use."""
    return [node for node in order(root) if node.op == "leaf"]


def evaluate(root: Traced, changed: Mapping[str, float] | None = None) -> float:
    """Compute ``root`` again from its leaves, some of them ``changed`` (by path).

    >>> pue = Graph().leaf("site.pue", 1.2)
    >>> evaluate(10.0 * pue, {"site.pue": 1.1})
    11.0
    """
    replaced, values = changed or {}, dict[int, float]()
    for node in order(root):
        numbers = (values[id(operand)] if isinstance(operand, Traced) else operand for operand in node.operands)
        values[id(node)] = replaced.get(node.path, node.value) if node.op == "leaf" else OPERATIONS[node.op](*numbers)
    return values[id(root)]


def elasticities(root: Traced) -> dict[str, float]:
    """By leaf path: per cent by which ``root`` changes when the leaf grows by one per cent, ``(x / f) df/dx``.

    By the chain rule backwards through the graph (reverse accumulation). Steps (ceil, floor, conditions) have slope zero, the larger of two
    carries the whole slope: the figure says what a small change does on the path that was taken.

    >>> watt = Graph().leaf("tdp_w", 3.0)
    >>> elasticities(watt * watt + 9.0)
    {'tdp_w': 1.0}
    """
    nodes = order(root)
    slope = {id(node): 0.0 for node in nodes} | {id(root): 1.0}
    for node in reversed(nodes):
        for operand, factor in _slopes(node):
            slope[id(operand)] += slope[id(node)] * factor
    scale = 1.0 / root.value if root.value else 0.0
    return {node.path: slope[id(node)] * node.value * scale for node in nodes if node.op == "leaf"}


def _slopes(node: Traced) -> Iterator[tuple[Traced, float]]:
    """Traced operands of ``node`` with the derivative of its value by theirs."""
    values = tuple(plain(operand) for operand in node.operands)
    if node.op in ("max", "min"):
        winner = 0 if node.value == values[0] else 1
        factors: tuple[float, ...] = (float(winner == 0), float(winner == 1))
    else:
        factors = DERIVATIVES[node.op](*values) if node.op in DERIVATIVES else (0.0,) * len(values)
    for operand, factor in zip(node.operands, factors, strict=True):
        if isinstance(operand, Traced) and factor:
            yield operand, factor


def _combined(op: str, a: Any, b: Any) -> Any:
    """``a op b``; left to the other side when that is no number (an array, a tuple), and to nobody when a step changes nothing."""
    if not (isinstance(a, NUMBERS) and isinstance(b, NUMBERS)):
        return NotImplemented
    left, right = (None if isinstance(operand, Traced) else operand for operand in (a, b))
    if right is not None and right == NEUTRAL_RIGHT.get(op):
        return a
    if left is not None and left == NEUTRAL_LEFT.get(op):
        return b
    vanishes = (left == 0 and op in ("*", "/")) or (right == 0 and op == "*")
    return 0.0 if vanishes else apply(op, a, b)


NUMBERS = (Traced, int, float, np.number, np.bool_)
NEUTRAL_LEFT = {"+": 0, "*": 1}
NEUTRAL_RIGHT = {"+": 0, "-": 0, "*": 1, "/": 1}
"""Literals that leave the other operand as it is."""


def _number(value: Any) -> float:
    """A literal as a Python number."""
    number: float = value.item() if isinstance(value, np.generic) else value
    return number


def _place() -> Place | None:
    """The innermost formula on the call stack."""
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("foretrain.") and module not in SILENT:
            return Place(module, frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


def _divide(a: float, b: float) -> float:
    """Division as arrays do it: by zero it gives infinity or no number."""
    return a / b if b else math.nan if not a else math.copysign(math.inf, a)


OPERATIONS: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "max": max,
    "min": min,
    "ceil": lambda x: float(np.ceil(x)),
    "floor": lambda x: float(np.floor(x)),
    "log2": lambda x: float(np.log2(x)),
    "log": lambda x: float(np.log(x)),
    "log1p": lambda x: float(np.log1p(x)),
    "exp": lambda x: float(np.exp(x)),
    "expm1": lambda x: float(np.expm1(x)),
    "sqrt": lambda x: float(np.sqrt(x)),
    "positive": lambda x: 1.0 if x > 0 else 0.0,
    "at_least": lambda a, b: 1.0 if a >= b else 0.0,
}
"""What each kind of node computes."""

DERIVATIVES: dict[str, Callable[..., tuple[float, ...]]] = {
    "+": lambda _a, _b: (1.0, 1.0),
    "-": lambda _a, _b: (1.0, -1.0),
    "*": lambda a, b: (b, a),
    "/": lambda a, b: (_divide(1.0, b), -_divide(a, b * b)),
    "**": lambda a, b: (b * a ** (b - 1), a**b * math.log(a) if a > 0 else 0.0),
    "neg": lambda _: (-1.0,),
    "abs": lambda x: (math.copysign(1.0, x),),
    "log2": lambda x: (1.0 / (x * math.log(2.0)),),
    "log": lambda x: (1.0 / x,),
    "log1p": lambda x: (1.0 / (1.0 + x),),
    "exp": lambda x: (math.exp(x),),
    "expm1": lambda x: (math.exp(x),),
    "sqrt": lambda x: (_divide(0.5, math.sqrt(x)),),
}
"""Derivatives by each operand; kinds that are not here have slope zero (steps) or one winner (max, min)."""
