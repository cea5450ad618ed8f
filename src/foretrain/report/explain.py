"""Any figure of a result as a tree of formulas with numbers substituted, down to the passports of the numbers it rests on."""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.errors import NotFoundError, Problem
from foretrain.core.traced import Traced, elasticities, evaluate, leaves, plain
from foretrain.core.units import format_si
from foretrain.report.json import Document
from foretrain.report.names import Home, figures, home, labels, unit_of
from foretrain.report.sources import current, value_at
from foretrain.simulate.scenario import Scenario
from foretrain.simulate.simulate import simulate_scenario
from foretrain.simulate.trace import trace
from foretrain.step.fits import verdict
from foretrain.strategy.strategy import Strategy

DEPTH = 3
TERMS = 8
"""Most terms of a sum that are shown one by one."""
INLINE = 6
"""Most operands of a step without a name that is written inside its formula."""
INPUTS = 12
"""Most inputs that the screen lists; the document lists all."""
WIDTH = 100
NEEDS_ROOM = ("step", "run", "energy", "cost", "carbon", "bill")

SUM, PRODUCT = ("+", "-", "neg"), ("*", "/")
STEPS = ("at_least", "positive")
SIGN = {"/": -1, "-": -1}


class Form(NamedTuple):
    """A node in a reader's terms: a sum of signed terms, a product of factors and divisors, or a function of arguments.

    ``terms`` are pairs of +1 or -1 and an operand; ``zeros`` counts terms of a sum that are zero, ``hidden`` those beyond the largest.
    """

    op: str
    terms: tuple[tuple[int, Any], ...]
    zeros: int = 0
    hidden: tuple[tuple[int, Any], ...] = ()


def explain(scenario: Scenario, figure: str, depth: int = DEPTH) -> Document:
    """Why ``figure`` has its value, as a plain document.

    Parameters
    ----------
    figure
        A dotted name of the report (``step.step_s``, ``cost.total_usd``) or of the result's records (``bill.cost.total_usd``).
    depth
        Levels of named formulas below the figure.

    Returns
    -------
    ``tree`` (name, value, unit, formula, the formula with numbers, home of the code, operands), ``inputs`` (every number of the
    scenario it rests on, with passport and elasticity, the most influential first), and ``recomputed``, the value that the recorded
    expression gives when it is computed again from the inputs alone.

    Raises
    ------
    NotFoundError
        For a name that is no figure of this scenario, with the nearest names.
    """
    traced = trace(scenario)
    result = simulate_scenario(traced)
    known = figures(traced, result)
    if figure not in known:
        raise NotFoundError([_unknown(figure, list(known))])
    answer = verdict(simulate_scenario(scenario).step.memory)
    if not answer.ok and figure.partition(".")[0] in NEEDS_ROOM and not figure.startswith("step.memory"):
        message = f"has no value, because the plan does not fit: {answer.reasons[0]}"
        raise NotFoundError([Problem(field="figure", value=figure, message=message, allowed="figures below memory and program")])
    value = known[figure]
    root = value if isinstance(value, Traced) else None
    return {
        "figure": figure,
        "value": plain(value),
        "unit": unit_of(figure),
        "recomputed": evaluate(root) if root else value,
        "tree": _Tree(labels(traced, result)).document(value, figure, depth),
        "inputs": _inputs(scenario, root) if root else [],
    }


def _unknown(figure: str, known: list[str]) -> Problem:
    near = difflib.get_close_matches(figure, known, n=3) or [name for name in known if name.endswith(f".{figure.rpartition('.')[2]}")][:3]
    message = "is not a figure of this scenario"
    sections = ", ".join(dict.fromkeys(name.partition(".")[0] for name in known))
    return Problem(field="figure", value=figure, message=message, allowed=f"dotted names below {sections}", nearest=tuple(near))


class _Tree:
    """Writes nodes down as nested documents; each node in full once."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._shown: set[int] = set()

    def document(self, value: Any, name: str, depth: int) -> Document:
        """One number with its formula and, ``depth`` levels down, its operands."""
        entry: Document = {"name": name, "value": plain(value), "unit": unit_of(name)}
        if not isinstance(value, Traced):
            return {**entry, "kind": "literal"}
        if value.op == "leaf":
            return {**entry, "kind": "input"}
        form = self._form(value)
        entry |= {"kind": "formula", "home": self._home(value).function}
        if id(value) in self._shown:
            return {**entry, "repeated": True}
        if depth <= 0:
            return entry
        self._shown.add(id(value))
        operands = self._operands(form)
        winner = value.value if form.op in ("max", "min") else None
        return {
            **entry,
            "formula": self._text(form, numbers=False),
            "substituted": self._text(form, numbers=True),
            "zero_terms": form.zeros,
            "further_terms": {"count": len(form.hidden), "value": sum(sign * plain(term) for sign, term in form.hidden)},
            "operands": [
                self.document(operand, self.name(operand), depth - 1 if winner is None or plain(operand) == winner else 0)
                for operand in operands
            ],
        }

    def name(self, node: Traced) -> str:
        """What a node is called: the path of an input, the name of a figure, kernel or pass, the code's own name, or its kind."""
        own = self._own_name(node)
        if own:
            return own
        form = self._form(node)
        kind = {"+": "sum", "*": "product"}.get(form.op, form.op)
        return f"{kind} of {len(form.terms) + len(form.hidden)}"

    def _own_name(self, node: Traced) -> str:
        return node.path or self._names.get(id(node), "") or self._home(node).name

    @staticmethod
    def _home(node: Traced) -> Home:
        return home(node.place) if node.place else Home(function="")

    def _form(self, node: Traced) -> Form:
        """The node with nested sums, products and equal functions opened up, and what changes nothing left out."""
        op = "+" if node.op in SUM else "*" if node.op in PRODUCT else node.op
        terms = self._opened(node, node, 1)
        if op == "*":
            terms = [term for term in terms if not (_is_choice(term[1]) and plain(term[1]) == 1)] or terms[:1]
        if op in ("max", "min"):
            terms = [term for term in terms if isinstance(term[1], Traced) or math.isfinite(term[1])]
        if op not in ("+", "*") or (len(terms) == 1 and not isinstance(terms[0][1], Traced)):
            return Form(op=op, terms=tuple(terms))
        if len(terms) == 1 and terms[0][0] == 1:
            inner = terms[0][1]
            return Form(op="+", terms=((1, inner),)) if self._own_name(inner) else self._form(inner)
        if op == "*":
            return Form(op=op, terms=tuple(terms))
        present = [term for term in terms if plain(term[1]) != 0]
        largest = sorted(present, key=lambda term: -abs(plain(term[1])))[:TERMS]
        shown = tuple(term for term in present if any(term is kept for kept in largest))
        hidden = tuple(term for term in present if not any(term is kept for kept in largest))
        if len(shown) == 1 and not hidden and shown[0][0] == 1 and isinstance(shown[0][1], Traced) and not self._own_name(shown[0][1]):
            return self._form(shown[0][1])
        return Form(op=op, terms=shown, zeros=len(terms) - len(present), hidden=hidden)

    def _opened(self, root: Traced, node: Traced, sign: int) -> list[tuple[int, Any]]:
        """Operands of ``node`` with their signs; those that only continue the same step are opened too."""
        family = SUM if root.op in SUM else PRODUCT if root.op in PRODUCT else (root.op,) if root.op in ("max", "min") else ()
        result: list[tuple[int, Any]] = []
        for index, operand in enumerate(node.operands):
            flipped = node.op == "neg" or (index == 1 and node.op in SIGN)
            below = -sign if flipped else sign
            continues = (
                isinstance(operand, Traced) and operand.op in family and (operand.place == root.place or not self._own_name(operand))
            )
            result += self._opened(root, operand, below) if continues and isinstance(operand, Traced) else [(below, operand)]
        return result

    def _operands(self, form: Form) -> list[Traced]:
        """What the formula's text names, in order, each once."""
        found: dict[int, Traced] = {}
        for _, term in form.terms:
            if not isinstance(term, Traced):
                continue
            inner = self._inline(term)
            for operand in self._operands(inner) if inner else [term]:
                found.setdefault(id(operand), operand)
        return list(found.values())

    def _inline(self, node: Traced) -> Form | None:
        """The form of a step that is written inside the formula that uses it: small and without a name."""
        if self._own_name(node):
            return None
        form = self._form(node)
        return form if not form.hidden and self._size(form) <= INLINE else None

    def _size(self, form: Form) -> int:
        sizes = []
        for _, term in form.terms:
            inner = self._inline(term) if isinstance(term, Traced) else None
            sizes.append(self._size(inner) if inner else 1)
        return sum(sizes)

    def _text(self, form: Form, *, numbers: bool) -> str:
        """The formula with names, or with numbers in their place."""
        words = [(sign, self._word(term, numbers=numbers)) for sign, term in form.terms]
        if form.op == "+":
            text = "".join(f" {'+' if sign > 0 else '-'} {word}" for sign, word in words)
            text = text.removeprefix(" + ") if text.startswith(" + ") else text.lstrip().replace("- ", "-", 1)
            more = sum(sign * plain(term) for sign, term in form.hidden)
            tail = f" + {_number(more) if numbers else f'{len(form.hidden)} further terms'}" if form.hidden else ""
            return (text or "0") + tail
        if form.op == "*":
            above = " * ".join(word for sign, word in words if sign > 0) or "1"
            return above + "".join(f" / {word}" for sign, word in words if sign < 0)
        if form.op in ("//", "%", "**"):
            return f" {form.op} ".join(word for _, word in words)
        return f"{form.op}({', '.join(word for _, word in words)})"

    def _word(self, term: Any, *, numbers: bool) -> str:
        """One operand as it stands in a formula."""
        if not isinstance(term, Traced):
            return _number(term)
        inner = self._inline(term)
        if inner:
            text = self._text(inner, numbers=numbers)
            return f"({text})" if inner.op in ("+", "*", "//", "%", "**") and len(inner.terms) > 1 else text
        if numbers:
            return _number(term.value)
        name = short(term.path) if term.path else self.name(term)
        return f"[{name}]" if " " in name else name


def _is_choice(operand: Any) -> bool:
    """True for what is made of conditions and literals only: the weight of the stage that was chosen."""
    if not isinstance(operand, Traced):
        return True
    return operand.op in STEPS or (operand.op in ("+", "-", "*") and all(_is_choice(inner) for inner in operand.operands))


def short(path: str) -> str:
    """The end of an input's path that still says what it is.

    >>> short("system.server.chip.hbm_byte"), short("system.chip.kernels.tiles.0.m"), short("chip.matmul_efficiency.bf16")
    ('hbm_byte', 'tiles.0.m', 'matmul_efficiency.bf16')
    """
    words = path.split(".")
    if len(words) > 2 and words[-2].isdigit():
        return ".".join(words[-3:])
    return ".".join(words[-2:] if words[-1] in DTYPE_BYTE else words[-1:])


def _inputs(scenario: Scenario, root: Traced) -> list[Document]:
    """Every input that ``root`` rests on, with its passport; the most influential first."""
    weight = elasticities(root)
    held = current(scenario.document, scenario.passports)
    rows = [
        {**_passport(scenario, held, leaf.path), "path": leaf.path, "value": leaf.value, "elasticity": weight[leaf.path]}
        for leaf in leaves(root)
    ]
    return sorted(rows, key=lambda row: -abs(row["elasticity"]) if math.isfinite(row["elasticity"]) else 0.0)


def _passport(scenario: Scenario, held: Mapping[str, Any], path: str) -> Document:
    """Where one input comes from: its passport, or whether it was chosen, is a default or was given."""
    passport = held.get(path)
    if passport is not None:
        names = ("kind", "source", "low", "high", "note")
        return {"value_text": passport.value_text, **{name: getattr(passport, name) for name in names}}
    kind, note = _origin(scenario, path)
    return {"value_text": "", "kind": kind, "source": "", "low": "", "high": "", "note": note}


def _origin(scenario: Scenario, path: str) -> tuple[str, str]:
    """Kind and note of an input without a passport."""
    chosen = {note.field: note.reason for note in scenario.assumptions}
    root, _, field = path.partition(".")
    model = type(getattr(scenario.models, field.partition(".")[0], None))
    default = root == "strategy" and getattr(scenario.strategy, field) == getattr(Strategy(), field)
    absent = root not in ("model", "models") and value_at(scenario.document, path) is None
    own = root in ("strategy", "recipe") or path == "system.num_chips"
    cases = (
        (path in chosen, "chosen", chosen.get(path, "")),
        (root == "model", "model", f"configuration of {scenario.model_name}"),
        (root == "models", "estimate", f"range in the docstring of {model.__module__}.{model.__name__}"),
        (path == "strategy.num_microbatches", "derived", "global_batch_size / (dp x microbatch_size)"),
        (path == "num_steps", "derived", "tokens / tokens per step"),
        (default, "default", "not given, or given as the default"),
        (absent, "default", "not in the catalogue entry; the record's default"),
        (own, "given", "set by the user"),
        (True, "given", "catalogue value without a passport, or set by the user"),
    )
    return next((kind, note) for holds, kind, note in cases if holds)


def screen(document: Document) -> list[str]:
    """The explanation as lines of text."""
    lines = _tree_lines(document["tree"], "")
    inputs: Sequence[Document] = document["inputs"]
    if inputs:
        shown = inputs[:INPUTS]
        head = f"rests on {len(inputs)} numbers of the scenario; by how much the figure changes when one of them grows by 1 %:"
        lines += ["", head, *(text for row in shown for text in _input_lines(row))]
        if len(inputs) > len(shown):
            lines.append(f"  and {len(inputs) - len(shown)} more (--json lists all)")
        lines.append(f"computed again from these numbers alone: {document['recomputed']!r}")
    return lines


def _tree_lines(entry: Document, indent: str) -> list[str]:
    """One entry and what it is made of, two spaces deeper."""
    closed = "  (above)" if entry.get("repeated") else "" if entry.get("formula") else "  ..."
    note = {"literal": "  (constant)", "input": "  (input)"}.get(entry["kind"], closed)
    place = f"  {entry['home']}" if entry.get("formula") else ""
    lines = [f"{indent}{entry['name']} = {_with_unit(entry)}{note}{place}"]
    if not entry.get("formula"):
        return lines
    zeros = f"  ({entry['zero_terms']} more terms are zero)" if entry["zero_terms"] else ""
    lines += _wrapped(f"= {entry['formula']}{zeros}", indent + "  ")
    if entry["substituted"] != entry["formula"]:
        lines += _wrapped(f"= {entry['substituted']}", indent + "  ")
    for operand in entry["operands"]:
        lines += _tree_lines(operand, indent + "    ")
    further = entry["further_terms"]
    if further["count"]:
        lines.append(f"{indent}    {further['count']} further terms = {_number(further['value'])}")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    width = max(WIDTH, len(indent) + WIDTH // 2)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False
    )


def _input_lines(row: Document) -> list[str]:
    """One input: influence, path, value, then its passport."""
    value = row["value_text"] or _number(row["value"])
    span = f", {row['low']} to {row['high']}" if row["low"] or row["high"] else ""
    source = f", {row['source']}" if row["source"] else ""
    note = f": {row['note']}" if row["note"] else ""
    text = f"{row['elasticity']:+7.3f} %  {row['path']} = {value} ({row['kind']}{source}{span}){note}"
    return _wrapped(text, "  ")[:2]


def _with_unit(entry: Document) -> str:
    """A value with its unit."""
    words = [WRITTEN.get(word, word) for word in entry["unit"].split("_")]
    unit = " ".join(words).replace(" per ", "/").replace("per ", "1/")
    if unit in ("B", "B/s", "FLOP", "FLOP/s", "W", "J") and abs(entry["value"]) >= 1e3:
        return format_si(entry["value"], unit, 4)
    return f"{_number(entry['value'])} {unit}".rstrip()


WRITTEN = {"byte": "B", "flop": "FLOP", "usd": "USD", "w": "W", "j": "J", "kwh": "kWh"}
"""Unit words whose symbol differs."""


def _number(value: float) -> str:
    """Four significant digits, whole numbers whole.

    >>> _number(4096.0), _number(0.0123456), _number(8030261248)
    ('4096', '0.01235', '8.03e+09')
    """
    if value == int(value) and abs(value) < 1e7 if math.isfinite(value) else False:
        return str(int(value))
    return f"{value:.4g}"
