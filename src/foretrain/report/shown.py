"""A number of the document as a reader sees it, with the number itself kept beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from foretrain.report.markup import Markup, element
from foretrain.report.sources import value_at

Form = Callable[[float], str]


def number(document: Mapping[str, Any], path: str, form: Form) -> Markup:
    """The number at ``path`` in few digits, in a ``data`` element that carries all of them and the path; or why there is none.

    >>> number({"step": {"mfu": 0.4123}}, "step.mfu", "{:.1%}".format)
    '<data value="0.4123" data-path="step.mfu" title="step.mfu = 0.4123">41.2%</data>'
    """
    value = value_at(document, path)
    if not isinstance(value, (int, float)):
        return element("em", "none", title=reason(document, path), class_="none")
    exact = json.dumps(value)
    return element("data", form(value), value=exact, data_path=path, title=f"{path} = {exact}")


def reason(document: Mapping[str, Any], path: str) -> str:
    """Why the number at ``path`` is null, as the document's list of missing numbers has it."""
    for item in document.get("missing", ()):
        if path == item["path"] or path.startswith(f"{item['path']}."):
            return str(item["reason"])
    return "not computed"


def parts_of(document: Mapping[str, Any], path: str) -> dict[str, float]:
    """The parts at ``path`` that are numbers above zero, by their own names."""
    parts: Mapping[str, float | None] = value_at(document, path) or {}  # type: ignore[assignment]
    return {name: value for name, value in parts.items() if value is not None and value > 0}
