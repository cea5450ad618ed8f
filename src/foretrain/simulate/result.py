"""What a simulation returns."""

from __future__ import annotations

from foretrain.carbon.account import Carbon
from foretrain.core.record import record
from foretrain.cost.account import Cost
from foretrain.energy.account import Energy
from foretrain.program.program import Program
from foretrain.run.phases import Run
from foretrain.step.step import Step


@record
class Bill:
    """Waist 3 and what follows from it: the run and its joules, dollars and kilograms."""

    run: Run
    energy: Energy
    cost: Cost
    carbon: Carbon


@record
class Result:
    """A simulated plan: the program, its step, and the bill of the run."""

    program: Program
    step: Step
    bill: Bill
