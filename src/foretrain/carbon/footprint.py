"""The job's share of what was emitted to make the servers."""

from __future__ import annotations

from collections.abc import Mapping

from foretrain.carbon.account import Amortisation
from foretrain.core.numeric import Num
from foretrain.system.storage import Storage


def amortised(embodied_kg: Num, used_s: Num, amortisation: Amortisation) -> Num:
    """Share of ``embodied_kg`` of one device that falls on ``used_s`` device-seconds: ``kg x used / (life x utilisation)``.

    Time that nobody uses is charged to the jobs in proportion (Luccioni et al., arXiv 2211.02001; the time share TiR / EL of
    ISO/IEC 21031, SCI). It does not say what stopping the job would save: the server is built already.

    >>> life = Amortisation(life_s=6 * 8760 * 3600.0, utilisation=0.85)
    >>> round(amortised(2500.0, 3600.0, life), 4)
    0.056
    """
    return embodied_kg * used_s / (amortisation.life_s * amortisation.utilisation)


def embodied_parts(server_kg: Mapping[str, Num], server_s: Num, amortisation: Amortisation) -> Mapping[str, Num]:
    """kg CO2e by component of the server for ``server_s`` server-seconds of use."""
    return {name: amortised(kg, server_s, amortisation) for name, kg in server_kg.items()}


def storage_kg(storage: Storage, chip_s: Num, amortisation: Amortisation) -> Num:
    """kg CO2e of the file system that fall on ``chip_s`` chip-seconds: ``capacity per chip x kg per byte``, amortised like a server."""
    return amortised(storage.capacity_byte_per_chip * storage.embodied_kg_per_byte, chip_s, amortisation)
