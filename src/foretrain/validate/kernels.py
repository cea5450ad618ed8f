"""Published kernel timings beside the model, and the fit of a chip's kernel constants.

Works on CSV files in either of two layouts, further columns being ignored:

- ``id, device, op, m, n, k, batch, seq_len, num_heads, head_dim, causal, direction, dtype, time_us, tflops, bandwidth_gbps, library``
  (a time, or a rate that it follows from; bandwidth in 1e9 B/s counts each tensor once);
- ``source, device, op, dtype, m, n, k, elements, tokens, shape_params, measured_us``.

Which timings fix constants and which only judge them is written down in ``catalog/data/fits/kernels.yaml``, not here.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from foretrain.compute.protocol import ComputeModel
from foretrain.compute.tiled import Tiled
from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.numeric import Array
from foretrain.core.record import record
from foretrain.program.op import Ops
from foretrain.program.rows import Rows
from foretrain.system.chip import Chip
from foretrain.validate.metrics import Errors, errors

SECOND_PER_US = 1e-6
GIGA = 1e9
TERA = 1e12
PASSES = {"add": 3.0, "attn_rope": 2.0, "input_layernorm": 2.0, "post_attention_layernorm": 2.0, "mlp_act": 2.0}
"""How often a stream of the second layout reads or writes its elements; a gated activation reads one more."""
KINDS = ("gemm", "attention", "stream")


@record
class Timing:
    """One measured kernel: ``kind`` of op, its ``shape`` (m, n, k, batch; q_len, head_dim, heads, seen; or bytes) and seconds.

    ``rows``: m of a GEMM, tokens of a stream, by which an entry can select.
    """

    source: str
    chip: str
    op: str
    kind: str
    dtype: str
    library: str
    direction: str
    rows: float
    shape: tuple[float, ...]
    measured_s: float


@record
class Series:
    """All timings of one entry of the membership."""

    name: str
    chip: str
    kind: str
    role: str
    weight: float
    kernel: str
    timings: tuple[Timing, ...]

    @property
    def measured_s(self) -> Array:
        """Measured seconds, one per timing."""
        return np.array([timing.measured_s for timing in self.timings])


def load_timings(path: Path, membership: Sequence[Mapping[str, Any]] = ()) -> list[Timing]:
    """GEMM, attention and stream timings whose shape is known from the file or an entry's ``shapes``; other rows are passed over."""
    shapes = {name: shape for entry in membership for name, shape in entry.get("shapes", {}).items()}
    with path.open(newline="", encoding="utf-8") as stream:
        return [timing for row in csv.DictReader(stream) for timing in _timing(_with_shape(row, shapes))]


def _with_shape(row: dict[str, str], shapes: Mapping[str, Sequence[float]]) -> dict[str, str]:
    shape = shapes.get(row.get("id") or "")
    return {**row, "op": "gemm", **dict(zip("mnk", map(str, shape), strict=False)), "batch": str(shape[3])} if shape else row


def _number(row: Mapping[str, str], key: str) -> float:
    return float(row.get(key) or 0.0)


def _timing(row: Mapping[str, str]) -> list[Timing]:
    op = row["op"].removeprefix("gemm:")
    second_s = SECOND_PER_US * (_number(row, "time_us") or _number(row, "measured_us"))
    kind, shape, flop = _gemm(row) or _attention(row) or _stream(row, op, second_s)
    rate = _number(row, "tflops") * TERA
    measured_s = second_s or (flop / rate if rate else 0.0)
    if not kind or not measured_s:
        return []
    return [
        Timing(
            source=row.get("id") or row["source"],
            chip=row["device"],
            op=op,
            kind=kind,
            dtype=row["dtype"] if row["dtype"] == "fp8" else "fp16",
            library=row.get("library") or "",
            direction=row.get("direction") or "fwd",
            rows=_number(row, "m") or _number(row, "tokens"),
            shape=shape,
            measured_s=measured_s,
        )
    ]


def _gemm(row: Mapping[str, str]) -> tuple[str, tuple[float, ...], float] | None:
    m, n, k, batch = (_number(row, key) for key in ("m", "n", "k", "batch"))
    batch = batch or 1.0
    return ("gemm", (m, n, k, batch), 2 * m * n * k * batch) if m and n and k and "gemm" in row["op"] and not row.get("groups") else None


def _attention(row: Mapping[str, str]) -> tuple[str, tuple[float, ...], float] | None:
    s, d = _number(row, "seq_len"), _number(row, "head_dim")
    heads = _number(row, "batch") * _number(row, "num_heads")
    seen = 0.5 if row.get("causal") == "1" else 1.0
    flop = 4.0 * s * s * d * heads * seen * (3.5 if row.get("direction") == "fwd+bwd" else 1.0)
    return ("attention", (s, d, heads, seen), flop) if row["op"] == "attention" and s and d and heads else None


def _stream(row: Mapping[str, str], op: str, second_s: float) -> tuple[str, tuple[float, ...], float]:
    passes = PASSES.get(op, 0.0) + ("gated=True" in (row.get("shape_params") or "") and op == "mlp_act")
    byte = _number(row, "bandwidth_gbps") * GIGA * second_s or (passes and passes * _number(row, "elements") * DTYPE_BYTE["fp16"])
    return ("stream" if byte else "", (byte,), 0.0)


def load_membership() -> list[dict[str, Any]]:
    """The entries of ``catalog/data/fits/kernels.yaml``."""
    text = files("foretrain.catalog").joinpath("data", "fits", "kernels.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.safe_load(text)
    return entries


def sort_timings(timings: Iterable[Timing], membership: Sequence[Mapping[str, Any]]) -> list[Series]:
    """Timings as series, each under the first entry that it matches, less the entry's ``start_us``; those that match none are left out."""
    found: dict[int, list[Timing]] = defaultdict(list)
    for timing in timings:
        index = next((index for index, entry in enumerate(membership) if _matches(timing, entry)), None)
        if index is not None:
            start_s = SECOND_PER_US * float(membership[index].get("start_us", 0.0))
            found[index].append(replace(timing, measured_s=timing.measured_s - start_s))
    return [
        Series(
            name=membership[index]["name"],
            chip=membership[index]["chip"],
            kind=membership[index]["kind"],
            role=membership[index]["role"],
            weight=float(membership[index].get("weight", 1.0)),
            kernel=membership[index].get("kernel", "flash2"),
            timings=tuple(rows),
        )
        for index, rows in sorted(found.items())
    ]


def _matches(timing: Timing, entry: Mapping[str, Any]) -> bool:
    return (
        timing.kind == entry["kind"]
        and timing.source.startswith(entry["source"])
        and any(word in timing.source for word in entry.get("containing", ("",)))
        and timing.chip.startswith(entry["device"])
        and timing.op in entry.get("ops", (timing.op,))
        and timing.dtype in entry.get("dtypes", (timing.dtype,))
        and timing.library == entry.get("library", timing.library)
        and entry.get("rows_from", 0.0) <= timing.rows <= entry.get("rows_to", np.inf)
        and (timing.kind != "attention" or timing.shape[1] in entry.get("head_dims", (timing.shape[1],)))
        and timing.measured_s >= SECOND_PER_US * entry.get("from_us", 0.0)
    )


def operations(series: Series) -> Ops:
    """The op tables of a series; a timing of both directions of attention is two rows, forward first."""
    rows = Rows()
    for timing in series.timings:
        if timing.kind == "gemm":
            m, n, k, batch = timing.shape
            byte = batch * ((m * k + k * n) * DTYPE_BYTE[timing.dtype] + m * n * DTYPE_BYTE["fp16"])
            rows.matmul(timing.op, "forward", timing.dtype, m, n, k, batch, byte)
        elif timing.kind == "attention":
            s, d, heads, seen = timing.shape
            byte = 4 * s * d * heads * DTYPE_BYTE["fp16"]
            rows.attention(timing.op, "forward", s, s, d, heads, seen, byte)
            if timing.direction == "fwd+bwd":
                rows.attention(timing.op, "backward", s, s, d, heads, seen, 2 * byte)
        else:
            rows.stream(timing.op, "forward", *timing.shape)
    return rows.ops(series.kernel)


def predict(series: Series, ops: Ops, chip: Chip, model: ComputeModel) -> Array:
    """Seconds of every timing of a series whose tables are ``ops``."""
    times = model.time(ops, chip)
    if series.kind != "attention":
        return np.asarray(times.matmul_s if series.kind == "gemm" else times.stream_s)
    both = [1 + (timing.direction == "fwd+bwd") for timing in series.timings]
    return np.add.reduceat(times.attention_s, np.cumsum([0, *both[:-1]]))


def evaluate(series: Series, chip: Chip, model: ComputeModel) -> Errors:
    """Relative errors of a series."""
    return errors(list(predict(series, operations(series), chip, model)), list(series.measured_s))


def with_value(node: Any, path: str, value: float) -> Any:
    """``node`` (records, mappings and tuples) with one number below it replaced.

    >>> with_value({"a": (1.0, 2.0)}, "a.1", 3.0)
    {'a': (1.0, 3.0)}
    """
    key, _, rest = path.partition(".")
    if isinstance(node, tuple):
        return tuple(_replaced(item, rest, value) if index == int(key) else item for index, item in enumerate(node))
    if isinstance(node, Mapping):
        return {name: _replaced(item, rest, value) if name == key else item for name, item in node.items()}
    return replace(node, **{key: _replaced(getattr(node, key), rest, value)})


def _replaced(item: Any, rest: str, value: float) -> Any:
    return with_value(item, rest, value) if rest else value


def fit(series: Sequence[Series], chip: Chip, fields: Mapping[tuple[str, ...], float], tries: int = 1500, seed: int = 0) -> Chip:
    """``chip`` with the constants ``fields`` set to what fits its ``fit`` series best.

    ``fields`` maps paths below ``kernels`` that share one value (16-bit types, say) to where the search starts. What is
    least is the weighted mean over series of the mean squared ``ln(predicted / measured)``: where sources disagree it lands between them in
    proportion to their weights, however many rows each has. Seeded random search in the logarithm of the constants, with
    a step that grows on success and shrinks on failure (Rechenberg's one-fifth rule), widened again a few times.
    """
    chosen = [(one, operations(one), one.measured_s) for one in series if one.role == "fit" and chip.name.startswith(one.chip)]
    top = np.array([0.0 if any("efficiency" in path for path in paths) else np.inf for paths in fields])
    random = np.random.default_rng(seed)

    def build(logs: Array) -> Chip:
        kernels = chip.kernels
        for paths, value in zip(fields, np.exp(logs), strict=True):
            for path in paths:
                kernels = with_value(kernels, path, float(value))
        return replace(chip, kernels=kernels)

    def loss(logs: Array) -> float:
        candidate = build(logs)
        squares = [one.weight * np.mean(np.log(predict(one, ops, candidate, Tiled()) / seconds) ** 2) for one, ops, seconds in chosen]
        return float(sum(squares)) / sum(one.weight for one, _, _ in chosen)

    best, step = np.log(list(fields.values())), 0.3
    lowest = loss(best)
    for count in range(tries):
        candidate = np.minimum(best + step * random.standard_normal(len(best)), top)
        found = loss(candidate)
        better = found < lowest
        best, lowest = (candidate, found) if better else (best, lowest)
        step = 0.3 if count % (tries // 4) == 0 else step * (1.5 if better else 0.96)
    return build(best)
