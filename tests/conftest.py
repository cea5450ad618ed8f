"""How much the randomised tests try: a quick count by default, a thorough one with ``FORETRAIN_FUZZ=full``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SOURCE = str(Path(__file__).parents[1] / "src")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (SOURCE, os.environ.get("PYTHONPATH"))))
"""Child processes of a test run the checkout, installed or not."""

FULL = os.environ.get("FORETRAIN_FUZZ", "") == "full"

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("full" if FULL else "quick")


@pytest.fixture(scope="session")
def fuzz_count() -> Callable[[int, int], int]:
    """Chooses between a quick and a full number of random cases."""
    return lambda quick, full: full if FULL else quick
