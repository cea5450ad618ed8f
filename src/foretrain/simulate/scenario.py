"""A scenario: everything a simulation needs, resolved, with what was assumed on the way."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.carbon.account import Amortisation
from foretrain.catalog.provenance import Passport
from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.cost.account import Prices
from foretrain.simulate.models import Models
from foretrain.strategy.strategy import Strategy
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site
from foretrain.system.stack import Stack
from foretrain.workload.recipe import Workload


@record
class Assumption:
    """A value that the user did not give: the field's path, the value, and why it was taken."""

    field: str
    value: object
    reason: str


@record
class Scenario:
    """One description of workload, machine, plan and accounting, ready to be simulated.

    ``document`` is the same in plain text and numbers, with the paths that ``--set`` understands; ``passports`` give the source of every
    catalogue number by path.
    """

    model_name: str
    system_name: str
    workload: Workload
    strategy: Strategy
    cluster: Cluster
    stack: Stack
    site: Site
    prices: Prices
    amortisation: Amortisation
    models: Models
    num_steps: Num
    document: Mapping[str, object]
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()
    passports: Mapping[str, Passport]
