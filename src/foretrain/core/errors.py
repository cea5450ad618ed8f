"""What can go wrong at a door.

::

    ForetrainError
    └── InputError          what the user gave cannot be used; lists every problem found; exit code 2
        └── NotFoundError   a name that is not in the catalogue, with the nearest names

A plan that does not fit is not an error: it is a result with a verdict (``core.verdict``).
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.core.record import record

LONGEST_LIST = 320
"""Characters of a list of allowed names that are printed; the catalogue's commands list them all."""


@record
class Problem:
    """One thing wrong with one input.

    ``field`` is the dotted path the user can set, ``value`` what was given, ``message`` the rule
    that is broken, ``allowed`` the permitted range or names, ``nearest`` the closest valid
    choices, ``where`` ``file:line:col`` when it came from a file.
    """

    field: str
    message: str
    value: object = None
    allowed: str = ""
    nearest: tuple[object, ...] = ()
    where: str = ""

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        got = "" if self.value is None else f" (got {self.value!r:.200})"
        cut = self.allowed if len(self.allowed) <= LONGEST_LIST else f"{self.allowed[:LONGEST_LIST].rpartition(', ')[0]} ..."
        allowed = f"; allowed: {cut}" if self.allowed else ""
        nearest = f"; nearest valid: {', '.join(str(v) for v in self.nearest)}" if self.nearest else ""
        return f"{head}{self.field}: {self.message}{got}{nearest}{allowed}"


class ForetrainError(Exception):
    """Root of all errors that foretrain raises on purpose."""


class InputError(ForetrainError):
    """The input breaks one or more rules; ``problems`` lists them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class NotFoundError(InputError):
    """A name that is in no catalogue."""
