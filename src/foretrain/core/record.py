"""``record``: the frozen, slotted, keyword-only dataclass that all data of the house is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen, slotted, keyword-only dataclass that refuses unknown keys at the door.

    The configuration attribute is read only by the validator at the door (``catalog.schema``);
    inside, a record is a plain standard-library dataclass.
    """
    settings: dict[str, Any] = {"extra": "forbid", "arbitrary_types_allowed": True}
    cls.__pydantic_config__ = settings  # type: ignore[attr-defined]
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)
