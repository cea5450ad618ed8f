"""Carbon per unit of use."""

from __future__ import annotations

from foretrain.carbon.account import Carbon
from foretrain.core.numeric import Num


def software_carbon_intensity(carbon: Carbon, units: Num) -> Num:
    """kg CO2e per functional unit (token, step, run): ``SCI = (E I + M) / R`` (ISO/IEC 21031:2024).

    E I is the location-based operational carbon, because the standard excludes market instruments, whatever accounting the total uses;
    M the amortised embodied carbon; R the number of ``units``.
    """
    return (carbon.operational_location_kg + carbon.embodied_kg) / units
