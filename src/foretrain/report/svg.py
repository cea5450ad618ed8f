"""Bars as inline SVG: rectangles only, stretched to the width they get, so that all words stay HTML text in the reader's own size."""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.core.record import record
from foretrain.report.markup import Markup, element

WIDTH = 1000.0
HEIGHT = 20.0
NUM_COLOURS = 12


@record
class Segment:
    """A stretch of a bar from ``offset`` over ``extent``, both in the unit of the bar's ``whole``.

    ``name`` is shown to those who point at it, ``colour`` is a class of the style sheet.
    """

    name: str
    offset: float
    extent: float
    colour: str


def chain(named: Sequence[tuple[str, float, str]], start: float = 0.0) -> list[Segment]:
    """Segments laid end to end from (name, length, colour).

    >>> [segment.offset for segment in chain([("a", 1.0, "c1"), ("b", 2.0, "c2")])]
    [0.0, 1.0]
    """
    segments = []
    for name, length, colour in named:
        segments.append(Segment(name=name, offset=start, extent=length, colour=colour))
        start += length
    return segments


def colour(index: int) -> str:
    """The class of the ``index``-th part of a bar; colours repeat after ``NUM_COLOURS``.

    >>> colour(0), colour(12)
    ('c1', 'c1')
    """
    return f"c{index % NUM_COLOURS + 1}"


def bar(title: str, segments: Sequence[Segment], whole: float, *, description: str = "", mark: float | None = None) -> Markup:
    """One horizontal bar; ``whole`` is its full width, ``mark`` the place of a line across it (a capacity)."""
    scale = WIDTH / whole if whole > 0 else 0.0
    shapes = [
        element(
            "rect", element("title", segment.name), x=_short(segment.offset * scale), y=0, width=_short(segment.extent * scale),
            height=_short(HEIGHT), class_=segment.colour,
        )
        for segment in segments
    ]  # fmt: skip
    if mark is not None:
        place = _short(min(mark * scale, WIDTH))
        shapes.append(element("line", x1=place, x2=place, y1=0, y2=_short(HEIGHT), class_="mark"))
    return element(
        "svg",
        element("title", title),
        element("desc", description) if description else None,
        *shapes,
        viewBox=f"0 0 {_short(WIDTH)} {_short(HEIGHT)}",
        preserveAspectRatio="none",
        role="img",
        aria_label=title,
        class_="bar",
    )


def swatch(colour: str) -> Markup:
    """A square of ``colour`` that ties a row of a table to its part of a bar."""
    square = element("rect", x=0, y=0, width=10, height=10, class_=colour)
    return element("svg", square, viewBox="0 0 10 10", aria_hidden="true", class_="swatch")


def _short(value: float) -> str:
    """A length with at most two decimals.

    >>> _short(1.0), _short(0.123)
    ('1', '0.12')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")
