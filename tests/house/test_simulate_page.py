"""The one page stays one page: no branch, no loop, and short enough to see at once."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

PAGE = Path(__file__).parents[2] / "src/foretrain/simulate/simulate.py"
BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.Match, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Assert)
MAX_LINES = 60


def test_page_has_no_branch() -> None:
    tree = ast.parse(PAGE.read_text(encoding="utf-8"))
    found = [f"line {node.lineno}: {type(node).__name__}" for node in ast.walk(tree) if isinstance(node, BRANCHES)]
    found += [f"line {node.target.lineno}: condition" for node in ast.walk(tree) if isinstance(node, ast.comprehension) and node.ifs]
    assert not found, "a branch on this page says that a waist is wrong"


def test_page_is_short() -> None:
    assert len(code_lines(PAGE.read_text(encoding="utf-8"))) <= MAX_LINES


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold code: no blank lines, comments or docstrings."""
    tree = ast.parse(source)
    documented = [
        node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    ]
    docstrings = {line for node in documented for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {line for token in tokens if token.type not in skipped for line in range(token.start[0], token.end[0] + 1)} - docstrings
