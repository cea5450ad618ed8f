"""Laws of op times: arrays give what scalars give, physics is a floor, more work is never less time, units do not matter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from foretrain.catalog.loader import load
from foretrain.compute.protocol import ComputeModel
from foretrain.compute.roofline import Roofline
from foretrain.compute.tiled import Tiled
from foretrain.compute.work import attention_flop, matmul_flop
from foretrain.core.numeric import Num
from foretrain.program.op import Attentions, Matmuls, Ops, Phase, Streams
from foretrain.system.chip import Chip
from foretrain.timeline.optime import OpTime

CHIPS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb")
MODELS: tuple[ComputeModel, ...] = (Tiled(), Roofline())
PHASES: tuple[Phase, ...] = ("forward", "recompute", "backward")
ROWS, CANDIDATES = 12, 200


def chip_of(name: str) -> Chip:
    chip: Chip = load("chips", name)[0]
    return chip


def table(seed: int, *, shape: tuple[int, ...] = (ROWS, CANDIDATES), kernel: str = "flash2") -> Ops:
    """Random shapes from single rows to a hundred thousand."""
    random = np.random.default_rng(seed)

    def whole(low: float, high: float) -> NDArray[np.float64]:
        return np.floor(np.exp(random.uniform(np.log(low), np.log(high), shape)))

    names, phases = ("x",) * shape[0], tuple(PHASES[index % 3] for index in range(shape[0]))
    m, n, k, batch = whole(1, 1e5), whole(1, 1e5), whole(1, 1e5), whole(1, 200)
    q, kv, d, heads = whole(16, 1e5), whole(16, 1e5), whole(64, 256), whole(1, 500)
    return Ops(
        matmuls=Matmuls(
            name=names, phase=phases, dtype=("bf16", "fp16") * (shape[0] // 2),
            m=m, n=n, k=k, batch=batch, byte=2 * batch * (m * k + k * n + m * n), kernels=np.ones(shape),
        ),
        attentions=Attentions(
            name=names, phase=phases, kernel=kernel,
            q_len=q, kv_len=kv, head_dim=d, batch=heads, seen=random.uniform(0.01, 1, shape), byte=4 * heads * d * (q + kv),
        ),
        streams=Streams(name=names, phase=phases, byte=whole(1, 1e10), flop=whole(1, 1e10), kernels=whole(1, 8)),
    )  # fmt: skip


def grown(ops: Ops, section: str, field: str, factor: float, *, byte: bool = True) -> Ops:
    """``ops`` with one column times ``factor``, its bytes too."""
    rows = getattr(ops, section)
    changed = {field: np.ceil(getattr(rows, field) * factor)} | ({"byte": rows.byte * factor} if byte else {})
    return dataclasses.replace(ops, **{section: dataclasses.replace(rows, **changed)})


def column(ops: Ops, index: int) -> Ops:
    """The tables of one candidate."""
    sections = {}
    for field in dataclasses.fields(ops):
        rows = getattr(ops, field.name)
        numbers = {
            f.name: getattr(rows, f.name)[:, index] for f in dataclasses.fields(rows) if isinstance(getattr(rows, f.name), np.ndarray)
        }
        sections[field.name] = dataclasses.replace(rows, **numbers)
    return Ops(**sections)


def numbers(times: OpTime) -> dict[str, Num]:
    return {field.name: getattr(times, field.name) for field in dataclasses.fields(times)}


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("model", MODELS, ids=("tiled", "roofline"))
def test_arrays_equal_scalars(model: ComputeModel, name: str) -> None:
    chip, ops = chip_of(name), table(1)
    together = numbers(model.time(ops, chip))
    for index in range(CANDIDATES):
        for key, alone in numbers(model.time(column(ops, index), chip)).items():
            value = together[key] if np.ndim(together[key]) == 1 else together[key][:, index]
            np.testing.assert_allclose(alone, value, rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", CHIPS)
def test_columns_of_different_width_broadcast(name: str) -> None:
    chip, ops = chip_of(name), table(2)
    narrow = dataclasses.replace(ops.matmuls, k=ops.matmuls.k[:, :1], batch=ops.matmuls.batch[:, :1])
    wide = dataclasses.replace(narrow, k=np.repeat(narrow.k, CANDIDATES, 1), batch=np.repeat(narrow.batch, CANDIDATES, 1))
    one, other = (Tiled().time(dataclasses.replace(ops, matmuls=rows), chip).matmul_s for rows in (narrow, wide))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("kernel", ["flash1", "flash2", "flash3", "cudnn"])
@pytest.mark.parametrize("model", MODELS, ids=("tiled", "roofline"))
def test_never_faster_than_dense_peak_and_wire(model: ComputeModel, kernel: str, name: str) -> None:
    chip, ops = chip_of(name), table(3, kernel=kernel)
    times, slack = model.time(ops, chip), 1 - 1e-12
    peak = chip.dense_flop_per_s["bf16"]
    assert np.all(times.matmul_s >= slack * matmul_flop(ops.matmuls) / peak)
    assert np.all(times.attention_s >= slack * attention_flop(ops.attentions) / peak)
    for seconds, rows in ((times.matmul_s, ops.matmuls), (times.attention_s, ops.attentions), (times.stream_s, ops.streams)):
        assert np.all(seconds >= slack * rows.byte / chip.hbm_byte_per_s)
    assert np.all(times.matmul_ideal_s <= times.matmul_s)
    assert np.all(times.attention_ideal_s <= times.attention_s)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize(("section", "field"), [
    ("matmuls", "m"), ("matmuls", "n"), ("matmuls", "k"), ("matmuls", "batch"),
    ("attentions", "q_len"), ("attentions", "kv_len"), ("attentions", "head_dim"), ("attentions", "batch"),
    ("streams", "byte"), ("streams", "kernels"),
])  # fmt: skip
@pytest.mark.parametrize("factor", [1.001, 1.5, 2.0])
def test_more_work_is_never_less_time(factor: float, section: str, field: str, name: str) -> None:
    chip, ops = chip_of(name), table(4)
    more = grown(ops, section, field, factor, byte=section != "streams")
    for model in MODELS:
        before, after = numbers(model.time(ops, chip)), numbers(model.time(more, chip))
        for key in ("matmul_s", "attention_s", "stream_s"):
            assert np.all(after[key] >= before[key] * (1 - 1e-12)), key


@pytest.mark.parametrize("name", CHIPS)
def test_rescaling_the_second_rescales_every_time(name: str) -> None:
    """In units of 1000 s, rates are 1000 times as large and durations a thousandth."""
    chip, ops, factor = chip_of(name), table(5), 1000.0
    scaled = dataclasses.replace(
        chip,
        dense_flop_per_s={key: value * factor for key, value in chip.dense_flop_per_s.items()},
        vector_flop_per_s=chip.vector_flop_per_s * factor,
        hbm_byte_per_s=chip.hbm_byte_per_s * factor,
        kernels=dataclasses.replace(chip.kernels, kernel_s=chip.kernels.kernel_s / factor, wave_s=chip.kernels.wave_s / factor),
    )
    for model in MODELS:
        here, there = numbers(model.time(ops, chip)), numbers(model.time(ops, scaled))
        for key in here:
            expected = here[key] / (1.0 if key == "attention_kernels" else factor)
            np.testing.assert_allclose(there[key], expected, rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", CHIPS)
def test_better_constants_never_slow_anything(name: str) -> None:
    chip, ops = chip_of(name), table(6)
    for field, value in (("stream_efficiency", 1.0), ("kernel_s", 0.0), ("wave_s", 0.0)):
        better = dataclasses.replace(chip, kernels=dataclasses.replace(chip.kernels, **{field: value}))
        before, after = numbers(Tiled().time(ops, chip)), numbers(Tiled().time(ops, better))
        assert all(np.all(after[key] <= before[key] * (1 + 1e-12)) for key in before), field
