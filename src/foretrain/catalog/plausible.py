"""What physics and arithmetic say about an entry: slips that have the right unit and still cannot be true.

Each function takes an entry's record and yields what is wrong as the keys of the field and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.units import parse
from foretrain.system.chip import Chip, Kernels
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.server import Server
from foretrain.workload.convnet import ConvNet
from foretrain.workload.counting import num_parameters
from foretrain.workload.model import Model

Keys = tuple[str, ...]
Fault = tuple[Keys, str]

RANGES: Mapping[str, tuple[str, str]] = {
    "dense_flop_per_s": ("0.1 TFLOP/s", "100 PFLOP/s"),
    "vector_flop_per_s": ("0.1 TFLOP/s", "1 PFLOP/s"),
    "hbm_byte": ("1 GiB", "4 TiB"),
    "hbm_byte_per_s": ("30 GB/s", "100 TB/s"),
    "l2_byte": ("64 KiB", "16 GiB"),
    "tdp_w": ("10 W", "10 kW"),
    "kernel_s": ("10 ns", "1 ms"),
    "wave_s": ("0 s", "1 ms"),
    "rated_w": ("50 W", "1 MW"),
    "host_link_byte_per_s": ("1 GB/s", "4 TB/s"),
    "host_memory_byte_per_s": ("1 GB/s", "4 TB/s"),
    "psu_efficiency": ("0.7", "1"),
    "purchase_usd": ("100 USD", "20000000 USD"),
    "embodied_kg": ("0 kg", "200 t"),
    "byte_per_s": ("10 MB/s", "10 TB/s"),
    "hop_s": ("0 s", "10 ms"),
    "small_hop_s": ("0 s", "10 ms"),
    "collective_s": ("0 s", "10 ms"),
    "switch_w": ("0 W", "2 kW"),
    "write_byte_per_s": ("10 MB/s", "1 PB/s"),
    "read_byte_per_s": ("10 MB/s", "1 PB/s"),
    "server_byte_per_s": ("10 MB/s", "10 TB/s"),
    "pue": ("1", "3"),
    "location_kg_per_j": ("0 g/kWh", "1500 g/kWh"),
    "market_kg_per_j": ("0 g/kWh", "1500 g/kWh"),
    "electricity_usd_per_j": ("0 USD/kWh", "2 USD/kWh"),
    "wue_l_per_j": ("0 l/kWh", "20 l/kWh"),
    "rental_usd_per_chip_s": ("0.01 USD/h", "100 USD/h"),
    "failure_per_chip_s": ("0 1/h", "0.01 1/h"),
    "restart_s": ("0 s", "2 days"),
    "host_kernel_s": ("0 s", "10 ms"),
    "host_collective_s": ("0 s", "10 ms"),
    "context_byte": ("0 B", "16 GiB"),
    "communicator_byte": ("0 B", "16 GiB"),
}
"""Widest credible range of a field, for slips of a prefix, a bit for a byte, an hour for a second."""

RATIO_TOLERANCE = 0.05
SIXTEEN_BIT = ("bf16", "fp16")
MEMORY_SWEEPS_PER_S = (6.0, 80.0)
"""How often per second a chip can read its whole memory: 11 (L4), 39 (H100), 52 (V100 16 GB); a bit for a byte leaves the range."""
LARGEST_CLOCK_RATIO = 1.5
"""Between chips of one family; a sparse peak is twice the dense one."""
LARGEST_ADAPTER_BYTE_PER_S = 2e11
"""A network adapter of 1.6 Tbit/s."""
LARGEST_FLOP_PER_J = 2e13
LARGEST_SHARE_RESERVED = 0.25
SPARSE_WORDS, DENSE_WORDS = ("sparse", "sparsity"), ("dense", "without", "half", "not ", "no ")
PARAMETERS_TOLERANCE = 0.01
"""Published counts are rounded to two or three digits."""


def in_range(keys: Keys, number: float, unit: str) -> str:
    """What is wrong with the size of the ``number`` of SI ``unit`` at ``keys``; empty if nothing is.

    >>> in_range(("tdp_w",), 700.0, "W"), in_range(("tdp_w",), 700e3, "W")
    ('', 'is not plausible; expected 10 W to 10 kW')
    """
    field = next((key for key in reversed(keys) if key in RANGES), "")
    if not field:
        return ""
    low, high = RANGES[field]
    return "" if parse(low, unit) <= number <= parse(high, unit) else f"is not plausible; expected {low} to {high}"


def chip_faults(chip: Chip, document: Mapping[str, Any]) -> Iterator[Fault]:
    """Peaks in their usual ratios and dense, capacities in binary units, power and memory that go together."""
    yield from _peak_ratios(chip)
    yield from _sparse_notes(document.get("dense_flop_per_s"))
    for field in ("hbm_byte", "l2_byte"):
        yield from _binary(field, document.get(field))
    sweeps = chip.hbm_byte_per_s / chip.hbm_byte
    if not MEMORY_SWEEPS_PER_S[0] <= sweeps <= MEMORY_SWEEPS_PER_S[1]:
        low, high = MEMORY_SWEEPS_PER_S
        yield ("hbm_byte_per_s",), f"reads the whole memory {sweeps:.3g} times per second, expected {low:g} to {high:g}: bits for bytes?"
    if chip.idle_w >= chip.tdp_w:
        yield ("idle_w",), "is not below tdp_w"
    if chip.reserved_byte > LARGEST_SHARE_RESERVED * chip.hbm_byte:
        yield ("reserved_byte",), f"is more than {LARGEST_SHARE_RESERVED:.0%} of hbm_byte"
    if max(float(peak) for peak in chip.dense_flop_per_s.values()) / float(chip.tdp_w) > LARGEST_FLOP_PER_J:
        yield ("dense_flop_per_s",), f"is more than {LARGEST_FLOP_PER_J:.0e} FLOP per joule at tdp_w"
    missing = set(chip.dense_flop_per_s).intersection(DTYPE_BYTE) - set(chip.kernels.matmul_efficiency)
    if missing:
        yield ("kernels", "matmul_efficiency"), f"lacks {', '.join(sorted(missing))}, which dense_flop_per_s has"
    yield from ((("kernels", *keys), text) for keys, text in kernel_faults(chip.kernels, document))


def _peak_ratios(chip: Chip) -> Iterator[Fault]:
    """Dense peaks of one machine against its first 16-bit format, in the ratios that exist; a sparse peak beside dense ones is twice off.

    fp16 runs like bf16 (a quarter on Gaudi 3), fp8 as fast or twice, TF32 half as fast, as fast (Trainium) or like fp16.
    """
    peaks = chip.dense_flop_per_s
    half = next((name for name in SIXTEEN_BIT if name in peaks), None)
    if half is None:
        return
    like_fp16 = float(peaks.get("fp16", peaks[half]) / peaks[half])
    for other, allowed in (("fp16", (1.0, 0.25)), ("fp8", (1.0, 2.0)), ("tf32", (1.0, 0.5, like_fp16))):
        if other not in peaks or other == half:
            continue
        ratio = float(peaks[other] / peaks[half])
        if not any(abs(ratio / expected - 1.0) < RATIO_TOLERANCE for expected in allowed):
            words = " or ".join(f"{expected:g}" for expected in dict.fromkeys(allowed))
            yield ("dense_flop_per_s", other), f"is {ratio:.3g} times that of {half}, expected {words}: is one of them a sparse peak?"
    if "fp32" in peaks and peaks["fp32"] > peaks[half]:
        yield ("dense_flop_per_s", "fp32"), f"is above that of {half}"


def _sparse_notes(peaks: Any) -> Iterator[Fault]:
    for dtype, node in (peaks or {}).items():
        note = str(node.get("note", "")).lower() if isinstance(node, Mapping) else ""
        if any(word in note for word in SPARSE_WORDS) and not any(word in note for word in DENSE_WORDS):
            yield ("dense_flop_per_s", dtype), "its note speaks of sparsity: dense peaks are meant"


def _binary(field: str, node: Any) -> Iterator[Fault]:
    """Memories are built in powers of two: their capacity is given in GiB, whatever the data sheet writes."""
    if not isinstance(node, Mapping):
        return
    text = str(node.get("value", ""))
    if text.endswith(("GB", "MB", "TB")) and "decimal" not in str(node.get("note", "")):
        yield (field,), f"is given as {text}; memory comes in GiB and MiB (if it is decimal indeed, say so in the note)"


def kernel_faults(kernels: Kernels, document: Mapping[str, Any]) -> Iterator[Fault]:
    """The first tile is the best and the largest; a backward pass is no faster than its forward pass."""
    if not kernels.tiles:
        yield ("tiles",), "must list at least one tile"
    for index, tile in enumerate(kernels.tiles[1:], 1):
        if tile.m * tile.n > kernels.tiles[0].m * kernels.tiles[0].n or tile.efficiency > kernels.tiles[0].efficiency:
            yield ("tiles", str(index)), "is larger or better than the first tile, which the others are measured against"
    for name, kernel in kernels.attention.items():
        if kernel.backward_efficiency > kernel.forward_efficiency:
            yield ("attention", name, "backward_efficiency"), "is above forward_efficiency"


def same_family_fault(chip: Chip, reference: Chip) -> Iterator[Fault]:
    """An SM of one family does the same work per clock, so peaks per SM differ by clocks only (SMs are NVIDIA's)."""
    mine, theirs = (next((c.dense_flop_per_s[name] for name in SIXTEEN_BIT if name in c.dense_flop_per_s), None) for c in (chip, reference))
    if mine is None or theirs is None or not all(c.name.startswith("NVIDIA") for c in (chip, reference)):
        return
    ratio = (mine / chip.num_sm) / (theirs / reference.num_sm)
    if ratio > LARGEST_CLOCK_RATIO:
        text = f"its 16-bit peak per SM is {ratio:.3g} times that of {reference.name}, whose kernels it shares: is it the sparse peak?"
        yield ("dense_flop_per_s",), text


def server_faults(server: Server, document: Mapping[str, Any]) -> Iterator[Fault]:
    """The host draws more when busy, and the chassis is rated for its chips."""
    if server.host_idle_w > server.host_busy_w:
        yield ("host_idle_w",), "is above host_busy_w"
    if server.rated_w < server.num_chips * server.chip.tdp_w:
        yield ("rated_w",), f"is below the {server.num_chips * server.chip.tdp_w:g} W of its chips"


def fabric_faults(fabric: Fabric, document: Mapping[str, Any]) -> Iterator[Fault]:
    """Tiers grow from inside to outside, and small messages use the wire no better than large ones."""
    for index, (inner, outer) in enumerate(pairwise(fabric.tiers), 1):
        if outer.size <= inner.size:
            yield ("tiers", str(index), "size"), f"is {outer.size:g}, not above that of the tier inside it, {inner.size:g}"
    for index, tier in enumerate(fabric.tiers):
        if tier.small_efficiency > tier.efficiency:
            yield ("tiers", str(index), "small_efficiency"), "is above efficiency"
    last = str(len(fabric.tiers) - 1)
    if "fat tree" in fabric.topology and fabric.tiers and fabric.tiers[-1].byte_per_s > LARGEST_ADAPTER_BYTE_PER_S:
        yield ("tiers", last, "byte_per_s"), "is more than an adapter of 1.6 Tbit/s: bytes for bits?"


def cluster_faults(cluster: Cluster, document: Mapping[str, Any]) -> Iterator[Fault]:
    """Servers and the innermost tier fill one another whole."""
    chips, tiers = cluster.server.num_chips, cluster.fabric.tiers
    if tiers and tiers[0].size % chips and chips % tiers[0].size:
        yield ("fabric", "tiers", "0", "size"), f"is {tiers[0].size:g}, which servers of {chips:g} chips do not fill"


def model_faults(model: Model | ConvNet, document: Mapping[str, Any]) -> Iterator[Fault]:
    """As many parameters as were published; heads that can be shared, and sequences that fit."""
    if isinstance(model, Model):
        yield from transformer_faults(model, document)
    node = document.get("published_parameters")
    published = _number(node)
    if published is None or not isinstance(node, Mapping):
        return
    low = _number({"value": node.get("low")}) or published * (1.0 - PARAMETERS_TOLERANCE)
    high = _number({"value": node.get("high")}) or published * (1.0 + PARAMETERS_TOLERANCE)
    count = float(num_parameters(model))
    if not low <= count <= high:
        yield ("published_parameters",), f"is {published:.4g}, but the model described has {count:.4g}"


def transformer_faults(model: Model, document: Mapping[str, Any]) -> Iterator[Fault]:
    """Heads that can be shared, and sequences that fit."""
    if model.num_heads % model.num_kv_heads:
        yield ("model", "num_heads"), f"is {model.num_heads}, not a multiple of num_kv_heads = {model.num_kv_heads}"
    seq_len = _number(document.get("recipe", {}).get("seq_len"))
    if seq_len is not None and 0 < model.max_seq_len < seq_len:
        yield ("recipe", "seq_len"), f"is above the model's max_seq_len = {model.max_seq_len}"


def _number(node: Any) -> float | None:
    """The pure number of a passport; None where there is none that can be read."""
    try:
        return parse(node["value"], "1")
    except (TypeError, KeyError, ValueError):
        return None


FAULTS: Mapping[str, Callable[[Any, Mapping[str, Any]], Iterator[Fault]]] = {
    "chips": chip_faults,
    "kernels": kernel_faults,
    "servers": server_faults,
    "fabrics": fabric_faults,
    "models": model_faults,
}
"""The rules of each kind of entry."""
