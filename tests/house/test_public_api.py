"""The public face: few names, each there, documented and mentioned to readers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import foretrain

ROOT = Path(__file__).parents[2]
NAMES = [name for name in foretrain.__all__ if not name.startswith("__")]


def test_there_are_about_a_dozen() -> None:
    assert 8 <= len(NAMES) <= 15
    assert len(set(NAMES)) == len(NAMES)
    assert set(foretrain.__all__) <= set(dir(foretrain))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_documented(name: str) -> None:
    value = getattr(foretrain, name)
    assert inspect.getdoc(value)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(re.search(rf"`{name}\b|foretrain\.{name}\b", page.read_text(encoding="utf-8")) for page in pages)


def test_names_stay_what_they_are_when_everything_is_imported() -> None:
    """A public name may be spelt like a room (``simulate``); importing that room must not put the module in its place."""
    before = {name: getattr(foretrain, name) for name in NAMES}
    for module in pkgutil.walk_packages(foretrain.__path__, "foretrain."):
        if module.name != "foretrain.__main__":
            importlib.import_module(module.name)
    after = {name: getattr(foretrain, name) for name in NAMES}
    assert not {name for name in NAMES if inspect.ismodule(after[name])}
    assert before == after


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = foretrain.no_such_name


def test_version_is_the_packages() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+([a-z0-9.+]*)", foretrain.__version__)
