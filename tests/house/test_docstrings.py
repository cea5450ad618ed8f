"""Every public name says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(tree: ast.Module, name: str) -> Iterator[tuple[str, Documented]]:
    """The module, its public classes and functions, and the public methods and properties of those classes."""
    yield name, tree
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield f"{name}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and not member.name.startswith("_"):
                        yield f"{name}.{node.name}.{member.name}", member


def test_public_names_have_docstrings() -> None:
    missing = [
        name
        for path in sorted(SOURCE.rglob("*.py"))
        for name, node in public(ast.parse(path.read_text(encoding="utf-8")), ".".join(path.relative_to(SOURCE).with_suffix("").parts))
        if not ast.get_docstring(node)
    ]
    assert not missing


def test_no_notes_to_self() -> None:
    words = [a + b for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK"))]
    found = [
        f"{path.relative_to(SOURCE)}: {word}"
        for path in sorted(SOURCE.rglob("*.py"))
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert not found
