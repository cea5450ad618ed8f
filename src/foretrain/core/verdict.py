"""Whether a plan works, and if not, why: an answer, not an exception."""

from __future__ import annotations

from typing import Literal

from foretrain.core.record import record

Status = Literal["fits", "marginal", "oom"]


@record
class Verdict:
    """``status`` is ``fits``, ``marginal`` (inside the stated margin of the capacity) or ``oom``.

    ``ok`` is true unless the plan runs out of memory; ``reasons`` say what decided it.
    """

    status: Status
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the plan can run."""
        return self.status != "oom"
