"""foretrain: time, memory, energy, cost and carbon of a training run, before it is run.

``open_scenario`` resolves a description, ``simulate_scenario`` answers it; the other names are the waists and records in between.
Names are imported on first use, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foretrain._version import __version__

_HOME = {
    "open_scenario": "foretrain.simulate.open",
    "simulate_scenario": "foretrain.simulate.simulate",
    "simulate_program": "foretrain.simulate.simulate",
    "account": "foretrain.simulate.simulate",
    "lower": "foretrain.program.lower",
    "verdict": "foretrain.step.fits",
    "num_parameters": "foretrain.workload.counting",
    "Scenario": "foretrain.simulate.scenario",
    "Result": "foretrain.simulate.result",
    "Model": "foretrain.workload.model",
    "Strategy": "foretrain.strategy.strategy",
    "InputError": "foretrain.core.errors",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    """Import a public name from the room it lives in."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'foretrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
