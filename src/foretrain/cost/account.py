"""The cost bill's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Prices:
    """What things cost. ``tenure`` says which bill is the total: ``rented`` chip-hours or an ``owned`` cluster.

    ``network_usd_fraction``: network over server purchase price; ``facility_usd_per_w``: building, power and
    cooling per watt of IT; lives are straight annuity lives; ``opex_fraction_per_s``: yearly maintenance and staff as a share of
    purchase; ``utilisation``: share of an owned cluster's life that is sold to jobs.
    """

    tenure: Literal["rented", "owned"] = "rented"
    rental_usd_per_chip_s: Annotated[Num, Quantity("USD/s", ge=0)]
    network_usd_fraction: Annotated[Num, Quantity(ge=0, le=5)]
    facility_usd_per_w: Annotated[Num, Quantity("USD/W", ge=0)]
    discount_rate_per_year: Annotated[Num, Quantity(ge=0, le=1)]
    server_life_s: Annotated[Num, Quantity("s", gt=0)]
    network_life_s: Annotated[Num, Quantity("s", gt=0)]
    facility_life_s: Annotated[Num, Quantity("s", gt=0)]
    opex_fraction_per_year: Annotated[Num, Quantity(ge=0, le=1)]
    utilisation: Annotated[Num, Quantity(gt=0, le=1)]


@record
class Cost:
    """``parts_usd`` sum to ``total_usd`` for the chosen tenure; both totals are kept side by side.

    ``rented_usd`` is chip-hours times the rental price (power included by the landlord); ``owned_usd`` is the job's share of
    annuities, opex and the electricity bill.
    """

    total_usd: Num
    parts_usd: Mapping[str, Num]
    rented_usd: Num
    owned_usd: Num
    usd_per_chip_hour: Num
