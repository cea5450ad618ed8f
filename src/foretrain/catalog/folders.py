"""Where entries are looked for: the user's own folders in their order, then the catalogue that foretrain comes with.

A folder of a user has the layout of the shipped one: ``chips/my-chip.yaml``, ``models/...``, and a ``sources.yaml`` for new sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from foretrain.catalog import yamlfile
from foretrain.catalog.provenance import is_passported
from foretrain.core.errors import InputError, Problem
from foretrain.core.record import record

VARIABLE = "FORETRAIN_CATALOG"
"""Environment variable with folders to search, separated as in ``PATH``."""
SOURCES = "sources.yaml"
Keys = tuple[str, ...]

_CHOSEN: ContextVar[tuple[Path, ...]] = ContextVar("chosen", default=())
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@record
class Origin:
    """An entry of a user's folder that went into another one: the ``keys`` of the section it fills, and the entry it stands in for."""

    keys: Keys
    kind: str
    name: str
    folder: str
    shadows: bool

    @property
    def reason(self) -> str:
        """Where the entry comes from, in words."""
        instead = ", in place of the catalogue's own entry" if self.shadows else ""
        return f"{self.kind}/{self.name}.yaml of {self.folder}{instead}"


@record
class Sheet:
    """One entry's document, with ``file:line:col`` of its keys and its origins where it comes from a user's folder.

    ``folder_index`` is the position in the search path of the folder it was found in.
    """

    document: Mapping[str, Any]
    name: str = ""
    folder_index: int = -1
    places: Mapping[Keys, str]
    origins: tuple[Origin, ...] = ()


@contextmanager
def searching(folders: Sequence[str | Path]) -> Iterator[None]:
    """Search ``folders`` first, before those of the environment, for as long as the context lasts.

    Raises
    ------
    InputError
        For what is not a folder.
    """
    token = _CHOSEN.set((*_checked(folders, "--catalog"), *_CHOSEN.get()))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def user_folders() -> tuple[Path, ...]:
    """The folders searched before the shipped one: those of ``searching``, then those of the environment variable."""
    listed = [text for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    return (*_CHOSEN.get(), *_checked(listed, VARIABLE))


def _checked(folders: Sequence[str | Path], field: str) -> tuple[Path, ...]:
    paths = tuple(Path(folder) for folder in folders)
    wrong = [str(path) for path in paths if "\0" in str(path) or not path.is_dir()]
    if wrong:
        raise InputError([Problem(field=field, value=name, message="is not a folder", allowed="a folder of entries") for name in wrong])
    return paths


def shipped(*names: str) -> Any:
    """A file or folder of the catalogue that foretrain comes with."""
    return files("foretrain.catalog").joinpath("data", *names)


def names_in(folder: Any) -> frozenset[str]:
    """Ids of the entries in one folder of one kind; none if it does not exist."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def ids(kind: str) -> tuple[str, ...]:
    """All ids of a kind in all folders, sorted."""
    return tuple(sorted(names_in(shipped(kind)).union(*(names_in(folder / kind) for folder in user_folders()))))


def find(kind: str, name: str, start: int = 0) -> Sheet | None:
    """The entry of this id in the first folder that has one, from the ``start``-th on; None if there is none."""
    own = user_folders()
    for folder_index, folder in enumerate(own[start:], start):
        if name in names_in(folder / kind):
            shadows = any(name in names_in(other / kind) for other in own[folder_index + 1 :]) or name in _shipped_ids(kind)
            return _read(kind, name, folder, folder_index, shadows=shadows)
    if start <= len(own) and name in _shipped_ids(kind):
        return Sheet(document=_shipped_document(kind, name), name=name, folder_index=len(own), places={})
    return None


@lru_cache(maxsize=64)
def _shipped_ids(kind: str) -> frozenset[str]:
    return names_in(shipped(kind))


@lru_cache(maxsize=1024)
def _shipped_document(kind: str, name: str) -> Any:
    """A shipped file, read without places: it is checked before it is shipped."""
    path = shipped(kind, f"{name}.yaml")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise yamlfile.fail(f"{kind}.{name}", f"is not valid YAML: {str(error).splitlines()[0]}", str(path)) from None


def _read(kind: str, name: str, folder: Path, folder_index: int, *, shadows: bool) -> Sheet:
    """A user's file, read anew every time: it may have changed."""
    path = folder / kind / f"{name}.yaml"
    document, where = yamlfile.parse(yamlfile.read_text(path, f"{kind}.{name}"), str(path), f"{kind}.{name}")
    places = {keys: where(keys) for keys in ((), *_paths(document, ()))}
    origin = Origin(keys=(), kind=kind, name=name, folder=str(folder), shadows=shadows)
    return Sheet(document=_stamped(document, str(folder)), name=name, folder_index=folder_index, places=places, origins=(origin,))


def _paths(node: Any, keys: Keys) -> Iterator[Keys]:
    """The path of every key and list item below ``node``."""
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield (*keys, str(key))
        if not is_passported(value):
            yield from _paths(value, (*keys, str(key)))


def _stamped(node: Any, folder: str) -> Any:
    """``node`` with the folder written into every passport."""
    if is_passported(node):
        return {**node, "folder": folder}
    if isinstance(node, Mapping):
        return {key: _stamped(value, folder) for key, value in node.items()}
    return [_stamped(value, folder) for value in node] if isinstance(node, list) else node


@lru_cache(maxsize=1)
def _shipped_sources() -> dict[str, dict[str, str]]:
    document: dict[str, dict[str, str]] = yaml.load(shipped(SOURCES).read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
    return document


def sources(folders: Sequence[str | Path] | None = None) -> dict[str, Any]:
    """The source list, key to title, authors, year, address and licence: the shipped one and those of ``folders`` (the user's)."""
    merged: dict[str, Any] = dict(_shipped_sources())
    for folder in reversed(user_folders() if folders is None else [Path(name) for name in folders]):
        path = Path(folder) / SOURCES
        if path.is_file():
            merged.update(yamlfile.parse(yamlfile.read_text(path, "sources"), str(path), "sources")[0])
    return merged
