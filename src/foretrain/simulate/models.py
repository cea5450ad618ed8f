"""The chosen answer to each question of fidelity."""

from __future__ import annotations

from foretrain.carbon.declared import Declared
from foretrain.carbon.protocol import EmbodiedModel
from foretrain.compute.protocol import ComputeModel
from foretrain.compute.tiled import Tiled
from foretrain.core.record import record
from foretrain.energy.activity import Activity
from foretrain.energy.protocol import PowerModel
from foretrain.network.alphabeta import AlphaBeta
from foretrain.network.protocol import CollectiveModel
from foretrain.schedule.closedform import ClosedForm
from foretrain.schedule.protocol import ScheduleModel


@record
class Models:
    """One answer per question: op time, collective time, schedule, power, embodied carbon."""

    compute: ComputeModel
    collective: CollectiveModel
    schedule: ScheduleModel
    power: PowerModel
    embodied: EmbodiedModel


def default_models() -> Models:
    """The analytical preset: tiles and waves, alpha-beta, closed forms, activity-based power, declared embodied carbon."""
    return Models(compute=Tiled(), collective=AlphaBeta(), schedule=ClosedForm(), power=Activity(), embodied=Declared())
