"""Options that several commands share."""

from __future__ import annotations

from cyclopts import Parameter

SETUP = "Setting"
OUTPUT = "Output"


def option(name: str, group: str, text: str) -> Parameter:
    """An option with a value, read as text."""
    return Parameter(name=name, group=group, help=text, allow_leading_hyphen=True, negative=(), show_default=False)


def flag(name: str, text: str) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, group=OUTPUT, help=text, negative=(), show_default=False)


CATALOG = option("--catalog", SETUP, "Folder of your own entries, searched first; repeatable (also: FORETRAIN_CATALOG).")
