"""Published collective timings beside the model, and the fit of a tier's constants.

Works on CSV files of nccl-tests results in either of two layouts, further columns being ignored:

- ``id, collective, bytes, num_ranks, ranks_per_node, accelerator, algorithm, time_us, busbw_gbps`` (bandwidth in 1e9 B/s, used
  where the time is empty);
- ``source, device, op, bytes, num_devices, devices_per_node, measured_us``.

``bytes`` counts as nccl-tests do. Which timings fix constants and which only judge them is written down in
``catalog/data/fits/collectives.yaml``, not here.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import yaml

from foretrain.core.numeric import Array
from foretrain.core.record import record
from foretrain.network.alphabeta import AlphaBeta
from foretrain.network.bandwidth import busbw
from foretrain.network.protocol import CollectiveModel
from foretrain.program.program import CollectiveOp, Group
from foretrain.system.fabric import Fabric, Tier

SMALLEST_BYTE = 1024.0
SECOND_PER_US = 1e-6
GIGA = 1e9
RANGES: tuple[Mapping[str, tuple[float, float]], ...] = (
    {
        "efficiency": (0.5, 1.0),
        "hop_s": (1e-6, 8e-6),
        "small_hop_s": (4e-7, 2.5e-6),
        "small_efficiency": (0.1, 0.7),
        "collective_s": (2e-6, 2.5e-5),
        "in_network_reduction": (0.3, 1.0),
        "reduction_s": (1e-6, 5e-5),
    },
    {
        "efficiency": (0.75, 1.0),
        "hop_s": (5e-6, 3e-5),
        "small_hop_s": (2.5e-6, 1e-5),
        "small_efficiency": (0.1, 0.7),
        "collective_s": (2e-6, 2.5e-5),
    },
)
"""Where the constants of the inner and the outer tier are looked for (shares, and seconds).

NCCL's own tuning table (NVIDIA/nccl, src/graph/tuning.cc) has 3.4 us per NVLink hop and 9.6 to 14 us per network hop of a ring with large
messages, 0.5 to 1.9 us and 2.7 to 4 us with its two low-latency protocols, 4 to 14 us to start; a factor of two or so to either side.
"""
WIDEST_STEP, MOVED_SHARE = 0.5, 0.5
"""Settings of the search in ``fit``: its first step in ln units, and which share of the constants a trial moves."""


@record
class Timing:
    """One measured call of ``op`` over ``size`` ranks, ``per_server`` of them on each server.

    ``switch_off``: in-switch reduction was disabled; ``payload_byte`` as nccl-tests count.
    """

    source: str
    chip: str
    op: CollectiveOp
    size: int
    per_server: int
    switch_off: bool
    payload_byte: float
    measured_s: float


@record
class Series:
    """All timings of one source, operation and placement: payloads [B] and seconds; and what they are used for."""

    name: str
    fabric: str
    role: str
    op: CollectiveOp
    size: int
    per_server: int
    switch_off: bool
    payload_byte: Array
    measured_s: Array

    @property
    def tier(self) -> int:
        """The tier whose constants it concerns: 0 on one server, 1 on several."""
        return int(self.size > self.per_server)


def load_timings(path: Path) -> list[Timing]:
    """Collectives of at least 1 KiB on a known number of ranks with a time or a bandwidth; other rows are passed over."""
    with path.open(newline="", encoding="utf-8") as stream:
        return [timing for row in csv.DictReader(stream) for timing in _timing(row)]


def _timing(row: Mapping[str, str]) -> list[Timing]:
    op = row.get("collective") or row.get("op") or ""
    size = row.get("num_ranks") or row.get("num_devices")
    per_server = row.get("ranks_per_node") or row.get("devices_per_node")
    time_us, bandwidth = row.get("time_us") or row.get("measured_us"), row.get("busbw_gbps")
    known = op in get_args(CollectiveOp) and size and per_server and row["bytes"] and (time_us or bandwidth)
    if not known or not size or not per_server or float(row["bytes"]) < SMALLEST_BYTE:
        return []
    name, payload_byte = cast(CollectiveOp, op), float(row["bytes"])
    from_bandwidth_s = busbw(name, int(size), payload_byte, 1.0) / (float(bandwidth or math.inf) * GIGA)
    return [
        Timing(
            source=row.get("id") or row["source"],
            chip=row.get("accelerator") or row.get("device") or "",
            op=name,
            size=int(size),
            per_server=int(per_server),
            switch_off="NVLS off" in (row.get("algorithm") or ""),
            payload_byte=payload_byte,
            measured_s=float(time_us) * SECOND_PER_US if time_us else float(from_bandwidth_s),
        )
    ]


def load_membership() -> list[dict[str, Any]]:
    """The entries of ``catalog/data/fits/collectives.yaml``."""
    text = files("foretrain.catalog").joinpath("data", "fits", "collectives.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.safe_load(text)
    return entries


def sort_timings(timings: Iterable[Timing], membership: Sequence[Mapping[str, Any]]) -> list[Series]:
    """Timings as series, each under the first entry that it matches; those that match none are left out."""
    found: dict[tuple[int, CollectiveOp, int, int, bool], list[Timing]] = defaultdict(list)
    for timing in timings:
        index = next((index for index, entry in enumerate(membership) if _matches(timing, entry)), None)
        if index is not None:
            found[index, timing.op, timing.size, timing.per_server, timing.switch_off].append(timing)
    return [
        Series(
            name=membership[index]["name"],
            fabric=membership[index]["fabric"],
            role=membership[index]["role"],
            op=op,
            size=size,
            per_server=per_server,
            switch_off=switch_off,
            payload_byte=np.array([timing.payload_byte for timing in rows]),
            measured_s=np.array([timing.measured_s for timing in rows]),
        )
        for (index, op, size, per_server, switch_off), rows in sorted(found.items())
    ]


def _matches(timing: Timing, entry: Mapping[str, Any]) -> bool:
    servers = "several" if timing.size > timing.per_server else "one"
    return (
        timing.source.startswith(entry["source"])
        and timing.chip.startswith(entry["chip"])
        and timing.op in entry["ops"]
        and timing.size in entry["sizes"]
        and servers == entry["servers"]
        and timing.switch_off >= entry.get("switch_off", False)
    )


def predict(series: Series, fabric: Fabric, model: CollectiveModel) -> Array:
    """Seconds of every timing of a series."""
    tiers = fabric.tiers
    if series.switch_off:
        fabric = replace(fabric, tiers=(replace(tiers[0], in_network_reduction=0.0), *tiers[1:]))
    stride = 1.0 if series.tier == 0 else tiers[0].size / series.per_server
    group = Group(axis="dp", size=float(series.size), stride=stride)
    return np.asarray(model.time(series.op, group, series.payload_byte, fabric), dtype=np.float64)


def log_error(series: Series, fabric: Fabric, model: CollectiveModel) -> float:
    """Mean of ``|ln(predicted / measured)|``; ``exp`` of it minus 1 is the typical relative error, the same for too fast and too slow."""
    return float(np.abs(np.log(predict(series, fabric, model) / series.measured_s)).mean())


def loss(series: Iterable[Series], fabrics: Mapping[str, Fabric], model: CollectiveModel) -> float:
    """Mean log error over sources, each the mean over its series: every source counts the same, however many rows it has."""
    by_source: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in series:
        by_source[one.fabric, one.name].append(log_error(one, fabrics[one.fabric], model))
    means = [sum(values) / len(values) for values in by_source.values()]
    return sum(means) / len(means)


def fit(
    series: Sequence[Series],
    fabrics: Mapping[str, Fabric],
    tier: int,
    fields: Sequence[str],
    starts: int = 16,
    tries: int = 1500,
    seed: int = 0,
) -> dict[str, Fabric]:
    """``fabrics`` with the constants ``fields`` of one tier set to what fits the ``fit`` series of that tier best, the same in all of them.

    A seeded random search in the logarithm of the constants, inside ``RANGES``: from several starts, because minima and maxima of
    straight lines have many local optima; the step grows on success and shrinks on failure (Rechenberg's one-fifth rule).
    """
    model = AlphaBeta()
    chosen = [one for one in series if one.role == "fit" and one.tier == tier and one.fabric in fabrics]
    low, high = (np.log([RANGES[tier][name][end] for name in fields]) for end in (0, 1))
    random = np.random.default_rng(seed)

    def build(logs: Array) -> dict[str, Fabric]:
        values = {name: float(value) for name, value in zip(fields, np.exp(logs), strict=True)}
        return {name: _with_tier(fabric, tier, replace(fabric.tiers[tier], **cast(Any, values))) for name, fabric in fabrics.items()}

    def search() -> tuple[float, Array]:
        best = random.uniform(low, high)
        lowest, step = loss(chosen, build(best), model), WIDEST_STEP
        for _ in range(tries):
            moved = random.standard_normal(len(fields)) * (random.random(len(fields)) < MOVED_SHARE)
            candidate = np.clip(best + step * moved, low, high)
            found = loss(chosen, build(candidate), model)
            better = found < lowest
            best, lowest = (candidate, found) if better else (best, lowest)
            step = step * (1.5 if better else 0.98)
        return lowest, best

    return build(min((search() for _ in range(starts)), key=lambda result: result[0])[1])


def spread(series: Sequence[Series], fabrics: Mapping[str, Fabric], tier: int, name: str, worse: float = 1.1) -> tuple[float, float]:
    """Lowest and highest value of one constant, the others held, that keep ``loss`` of the fit series below ``worse`` times what it is.

    Looked for on a grid of steps of 2 %, inside ``RANGES``; says how firmly the timings hold the constant.
    """
    model = AlphaBeta()
    chosen = [one for one in series if one.role == "fit" and one.tier == tier and one.fabric in fabrics]
    centre = float(getattr(next(iter(fabrics.values())).tiers[tier], name))
    low, high = RANGES[tier][name]
    limit = worse * loss(chosen, fabrics, model)
    grid = np.unique(np.clip(centre * 1.02 ** np.arange(-200.0, 201.0), low, high))

    def keeps(value: float) -> bool:
        changed = {
            key: _with_tier(fabric, tier, replace(fabric.tiers[tier], **cast(Any, {name: value}))) for key, fabric in fabrics.items()
        }
        return loss(chosen, changed, model) <= limit

    kept = [float(value) for value in grid if keeps(float(value))]
    return min(kept), max(kept)


def _with_tier(fabric: Fabric, index: int, tier: Tier) -> Fabric:
    return replace(fabric, tiers=(*fabric.tiers[:index], tier, *fabric.tiers[index + 1 :]))
