"""HTML that cannot be broken by what it shows: text is escaped where it enters, and only there."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already. Every other text is escaped by ``element``."""

    __slots__ = ()


VOID = frozenset({"meta", "link", "br"})


def legal(text: object) -> str:
    """``text`` with a question mark for every character that HTML forbids or that reorders a line: control characters, lone surrogates.

    >>> legal("a" + chr(27) + "[1m")
    'a?[1m'
    """
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in str(text))


def join(*children: object) -> Markup:
    """The children one after another, escaped unless they are markup; None leaves nothing.

    >>> join("a < b", Markup("<br>"), None)
    'a &lt; b<br>'
    """
    parts = (child if isinstance(child, Markup) else escape(legal(child)) for child in children if child is not None)
    return Markup("".join(parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element with its children and attributes.

    Underscores in the names of attributes stand for hyphens, one at the end is dropped (``class_``); attributes of value None are left out.

    >>> element("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    >>> element("meta", charset="utf-8")
    '<meta charset="utf-8">'
    """
    pairs = ((key.removesuffix("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    words = "".join(f' {key}="{escape(legal(value))}"' for key, value in pairs)
    if name in VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{join(*children)}</{name}>")


def table(caption: str, columns: tuple[str, ...], rows: list[tuple[object, ...]], *, foot: int = 0, class_: str | None = None) -> Markup:
    """A table whose first column heads its rows; the last ``foot`` rows are totals."""
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    lines = [element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows]
    body, feet = lines[: len(lines) - foot], lines[len(lines) - foot :]
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *body),
        element("tfoot", *feet) if feet else None,
        class_=class_,
    )
