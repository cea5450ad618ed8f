"""Memory tiers, offload through them, and the storage: what they take, what they hold, and that they vanish when unused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from foretrain.carbon.account import Amortisation
from foretrain.carbon.footprint import storage_kg
from foretrain.core.constants import J_PER_KWH
from foretrain.core.errors import InputError
from foretrain.core.terms import total
from foretrain.energy.energy import account_energy
from foretrain.report.json import as_document
from foretrain.report.text import plain, screen
from foretrain.run.goodput import input_stall
from foretrain.run.run import simulate_run
from foretrain.simulate.batch import stack_plans
from foretrain.simulate.open import open_scenario
from foretrain.simulate.result import Result
from foretrain.simulate.simulate import simulate_scenario
from foretrain.step.fits import fullness, verdict
from foretrain.system.memory import TIERS, MemoryTier, transfer_s
from foretrain.system.server import host_tier
from tests.bill import Metered, logged, machine, step_of
from tests.plans import base, with_plan

PLAN = {"tp": 1, "pp": 1, "dp": 8, "microbatch_size": 1, "recompute": "none", "zero": 3, "global_batch_size": 8, "seq_len": 4096}
POOL = "{capacity_byte: 4 TB, read_byte_per_s: 20 GB/s, write_byte_per_s: 20 GB/s, latency_s: 3 us}"


def run(*overrides: str, system: str = "dgx-h100", **options: object) -> Result:
    return simulate_scenario(open_scenario("llama-3.1-8b", system, 8, {**PLAN, **options}, list(overrides)))


def offload(**words: object) -> list[str]:
    return [f"strategy.{name}={value}" for name, value in words.items()]


def parts(result: Result) -> dict[str, float]:
    return {name: float(value) for name, value in result.step.time.parts_s.items()}


def test_both_directions_of_a_transfer_run_at_once() -> None:
    tier = MemoryTier(capacity_byte=1e12, read_byte_per_s=10e9, write_byte_per_s=5e9, latency_s=1e-3)
    assert transfer_s(tier, 10e9, 0.0) == pytest.approx(1.001)
    assert transfer_s(tier, 10e9, 10e9) == pytest.approx(2.001)
    assert transfer_s(tier, 0.0, 0.0) == 0.0
    np.testing.assert_allclose(transfer_s(tier, np.array([0.0, 10e9]), np.array([0.0, 1e9])), [0.0, 1.001])


@pytest.mark.parametrize("system", ["dgx-a100", "dgx-h100", "dgx-b200"])
def test_farther_tiers_are_larger_and_slower(system: str) -> None:
    server = open_scenario("llama-3.1-8b", system, 8, PLAN).cluster.server
    host, nvme = host_tier(server), server.nvme
    assert nvme is not None
    assert server.chip.hbm_byte * server.num_chips < host.capacity_byte < nvme.capacity_byte
    assert server.chip.hbm_byte_per_s > host.read_byte_per_s > nvme.read_byte_per_s > nvme.write_byte_per_s
    assert host.read_byte_per_s <= server.host_link_byte_per_s


def test_nothing_offloaded_costs_nothing_whatever_the_tier() -> None:
    kept = run()
    for words in (offload(offload_tier="nvme"), offload(offload_update="chip"), offload(offload_tier="nvme", offload_update="chip")):
        other = run(*words)
        assert parts(other) == parts(kept)
        assert other.step.memory.parts_byte == kept.step.memory.parts_byte
        assert total(other.step.memory.tier_byte) == 0
    assert parts(kept)["offload"] == parts(kept)["host_optimizer"] == kept.step.time.hidden_s["offload"] == 0
    assert kept.step.memory.parts_byte["offload_buffers"] == 0


def test_a_tiny_share_is_close_to_none() -> None:
    """Without the fixed latency of its transfers, which does not shrink with their size."""
    none = run("system.server.host_latency_s=0 s")
    tiny = run("system.server.host_latency_s=0 s", *offload(optimizer_offload=1e-9, parameter_offload=1e-9))
    assert tiny.step.time.step_s == pytest.approx(none.step.time.step_s, rel=1e-6)
    assert tiny.step.memory.device_byte == pytest.approx(none.step.memory.device_byte, rel=1e-6)


def test_more_offload_takes_less_device_memory_and_not_less_time() -> None:
    for name in ("optimizer_offload", "parameter_offload"):
        results = [run(*offload(**{name: share, "offload_tier": "nvme"})) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        need = [float(result.step.memory.device_byte) for result in results]
        seconds = [float(result.step.time.step_s) for result in results]
        assert need == sorted(need, reverse=True)
        assert len(set(need)) == len(need)
        assert seconds == sorted(seconds)


def test_a_faster_tier_is_not_slower() -> None:
    words = offload(optimizer_offload=1, parameter_offload=1, offload_tier="nvme")
    steps = [run(*words, f"system.server.nvme.read_byte_per_s={rate} GB/s").step.time.step_s for rate in (1, 3, 6, 12, 60)]
    assert steps == sorted(steps, reverse=True)


def test_transfers_hide_under_compute_layer_by_layer() -> None:
    """What the passes cover is hidden, the rest exposed; both add up to the transfers of all layers and microbatches."""
    result = run(*offload(parameter_offload=1), zero=1)
    server = open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN).cluster.server
    whole = sum(
        repeat * float(transfer_s(host_tier(server), move.read_byte, move.write_byte))
        for index, repeat in result.program.stages[0].repeats
        for move in result.program.blocks[index].offload
    )
    # The updated weights go back once per step, beside and after the update on the chip.
    rest = float(transfer_s(host_tier(server), result.program.offload_read_byte, result.program.offload_write_byte))
    late = max(rest - parts(result)["optimizer"], 0.0)
    hidden = float(result.step.time.hidden_s["offload"])
    assert parts(result)["offload"] - late + hidden == pytest.approx(whole * float(result.program.num_microbatches), rel=1e-9)
    assert hidden > 0
    long = run(*offload(parameter_offload=1), zero=3, microbatch_size=4, global_batch_size=32)
    assert parts(long)["offload"] < 0.1 * float(long.step.time.step_s), "eight ranks bring an eighth of every layer each"


def test_the_host_updates_at_the_published_speed_of_cpu_adam() -> None:
    """ZeRO-Offload's table: 0.22 s for 1e9 and 2.57 s for 10e9 parameters on a host with 256 GB/s; 28 bytes a parameter here."""
    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN, offload(optimizer_offload=1))
    result = simulate_scenario(scenario)
    params = float(result.program.offload_host_byte) / 28.0
    on_that_host_s = parts(result)["host_optimizer"] * scenario.cluster.server.host_memory_byte_per_s / 256e9
    assert 0.22 * 0.9 < on_that_host_s / (params / 1e9) < 0.257 * 1.1


def test_slow_cpus_limit_the_host_update() -> None:
    fast = run(*offload(optimizer_offload=1))
    slow = run(*offload(optimizer_offload=1), "system.server.host_flop_per_s=1 GFLOP/s")
    assert parts(slow)["host_optimizer"] == pytest.approx(float(slow.program.offload_host_flop) / 1e9)
    assert parts(slow)["host_optimizer"] > parts(fast)["host_optimizer"]


def test_the_chip_can_update_what_it_streams_in() -> None:
    host, chip = run(*offload(optimizer_offload=1)), run(*offload(optimizer_offload=1, offload_update="chip"))
    assert parts(chip)["host_optimizer"] == 0
    assert parts(chip)["optimizer"] > parts(host)["optimizer"]
    assert float(chip.step.memory.device_byte) == pytest.approx(float(host.step.memory.device_byte))


@pytest.mark.parametrize(("tier", "field"), [("host", "host_memory_byte"), ("nvme", "nvme.capacity_byte")])
def test_a_tier_that_is_too_small_is_named(tier: str, field: str) -> None:
    words = offload(optimizer_offload=1, parameter_offload=1, offload_tier=tier)
    assert verdict(run(*words).step.memory).ok
    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN, [*words, f"system.server.{field}=100 GB"])
    result = simulate_scenario(scenario)
    answer = verdict(result.step.memory)
    assert answer.status == "oom"
    assert any(reason.startswith(f"{tier} memory of a server needs") for reason in answer.reasons)
    assert fullness(result.step.memory) > 1
    document = as_document(scenario, result)
    assert document["step"]["step_s"] is None
    assert f"{tier} memory of a server needs" in plain(screen(document))


def test_tiers_hold_what_leaves_the_chips() -> None:
    kept = run("strategy.offload_master=true")
    moved = run(*offload(optimizer_offload=1, parameter_offload=1, offload_tier="nvme", offload_master="true"))
    gone = sum(
        float(kept.step.memory.parts_byte[name]) - float(moved.step.memory.parts_byte[name]) for name in ("weights", "master", "moments")
    )
    assert moved.step.memory.tier_byte["nvme"] == pytest.approx(8 * gone, rel=1e-9)
    assert moved.step.memory.tier_byte["host"] == pytest.approx(8 * float(kept.step.memory.parts_byte["gradients"]), rel=1e-9)


def test_a_server_without_the_tier_says_which_it_has() -> None:
    with pytest.raises(InputError) as error:
        open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN, offload(offload_tier="remote"))
    problem = error.value.problems[0]
    assert (problem.field, problem.nearest) == ("strategy.offload_tier", ("nvme",))
    assert problem.allowed == "host, nvme"
    assert set(TIERS) == {"host", "remote", "nvme"}


def test_a_remote_pool_is_one_setting() -> None:
    result = run(f"system.server.remote={POOL}", *offload(optimizer_offload=1, offload_tier="remote"))
    assert result.step.memory.tier_byte["remote"] > 0
    assert result.step.memory.tier_capacity_byte["remote"] == 4e12


def test_a_capacity_that_is_not_stated_never_limits() -> None:
    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN, offload(optimizer_offload=1))
    server = dataclasses.replace(scenario.cluster.server, host_memory_byte=math.inf)
    open_ended = dataclasses.replace(scenario, cluster=dataclasses.replace(scenario.cluster, server=server))
    result = simulate_scenario(open_ended)
    assert verdict(result.step.memory).ok
    assert as_document(open_ended, result)["memory"]["tiers"][0]["capacity_byte"] is None


def test_live_parameters_are_gathered_up_to_their_limit() -> None:
    """DeepSpeed's default of 1e9 live parameters holds 2 GB of 16-bit weights where two layers take less; never more than there are."""
    few, live, all_of_them = run(), run(*offload(live_params=1e9)), run(*offload(live_params=1e12))
    grads = run(zero=2).step.memory.parts_byte["gathered"]
    assert few.step.memory.parts_byte["gathered"] < live.step.memory.parts_byte["gathered"]
    assert live.step.memory.parts_byte["gathered"] - grads == pytest.approx(2e9, rel=1e-9)
    assert all_of_them.step.memory.parts_byte["gathered"] - grads == pytest.approx(2 * 8.03e9, rel=1e-3)


def test_arrays_equal_scalars_with_offload() -> None:
    scenario = base()
    shares = ((0.0, 0.0, 0.0), (0.3, 0.0, 1e9), (1.0, 0.5, 1e8), (0.7, 1.0, 0.0))
    for tier in ("host", "nvme"):
        for update in ("host", "chip"):
            plans = [
                dataclasses.replace(
                    scenario.strategy,
                    zero=3,
                    optimizer_offload=a,
                    parameter_offload=b,
                    live_params=c,
                    offload_tier=tier,
                    offload_update=update,
                )  # type: ignore[arg-type]
                for a, b, c in shares
            ]
            for members, strategy in stack_plans(plans):
                together = simulate_scenario(with_plan(scenario, strategy)).step
                for position, index in enumerate(members):
                    alone = simulate_scenario(with_plan(scenario, plans[index])).step
                    for name, value in alone.time.parts_s.items():
                        column = np.broadcast_to(together.time.parts_s[name], len(members))
                        assert float(value) == pytest.approx(float(column[position]), rel=1e-12, abs=1e-300), name
                    column = np.broadcast_to(together.memory.device_byte, len(members))
                    assert float(alone.memory.device_byte) == pytest.approx(float(column[position]), rel=1e-12)


def test_words_of_an_offload_plan_are_on_the_screen() -> None:
    words = offload(optimizer_offload=1, parameter_offload=1, offload_tier="nvme")
    scenario = open_scenario("llama-3.1-8b", "dgx-h100", 8, PLAN, words)
    text = " ".join(plain(screen(as_document(scenario, simulate_scenario(scenario)))).split())
    assert "optimizer 100% in nvme memory, updated by the host" in text
    assert "weights 100% in nvme memory" in text
    assert "optimizer on the host" in text


def test_data_are_waited_for_only_beyond_the_step() -> None:
    cluster = machine(16.0)
    rate = 2 * 5e9
    assert input_stall(rate * 0.5, 1.0, cluster) == 0.0
    assert input_stall(rate * 3.0, 1.0, cluster) == pytest.approx(2.0)
    assert input_stall(0.0, 1.0, cluster) == 0.0
    plenty = simulate_run(step_of(1.0), 1000.0, 0.0, cluster, rate * 0.5)
    starved = simulate_run(step_of(1.0), 1000.0, 0.0, cluster, rate * 3.0)
    assert plenty == simulate_run(step_of(1.0), 1000.0, 0.0, cluster)
    assert starved.goodput < plenty.goodput / 2.5
    assert {phase.purpose: float(phase.duration_s) for phase in starved.phases}["input"] == pytest.approx(2000.0)


def test_text_never_waits_and_images_can() -> None:
    """Token numbers are a few MB a step; a recipe of large files on a slow file system stalls, and its share shows."""
    assert {phase.purpose: float(phase.duration_s) for phase in run().bill.run.phases}["input"] == 0.0
    slow = run("recipe.input_byte_per_token=2 MB", "system.storage.read_byte_per_s=5 GB/s")
    waited = {phase.purpose: float(phase.duration_s) for phase in slow.bill.run.phases}["input"]
    assert waited / float(slow.bill.run.wall_s) > 0.5


def test_storage_is_a_part_of_energy_and_carbon_and_vanishes() -> None:
    with_storage, without = run(), run("system.storage.capacity_byte_per_chip=0 B")
    for name in ("energy", "carbon"):
        assert bill_part(without, name) == 0.0
    energy, none = with_storage.bill.energy, without.bill.energy
    pue = 1.0 + float(none.parts_j["facility"] / none.it_j)
    assert float(energy.total_j - none.total_j) == pytest.approx(float(energy.parts_j["storage"]) * pue, rel=1e-9)
    carbon = with_storage.bill.carbon
    assert bill_part(with_storage, "carbon") > 0
    assert float(carbon.embodied_kg - without.bill.carbon.embodied_kg) == pytest.approx(bill_part(with_storage, "carbon"), rel=1e-9)
    assert float(total(carbon.parts_kg)) == pytest.approx(float(carbon.total_kg), rel=1e-9)


def bill_part(result: Result, name: str) -> float:
    parts: dict[str, Any] = {"energy": result.bill.energy.parts_j, "carbon": result.bill.carbon.parts_kg}
    return float(parts[name]["storage" if name == "energy" else "embodied_storage"])


def test_storage_by_hand() -> None:
    """16 chips for a day with 10 TB each at 10 W/TB: 38.4 kWh before PUE; 50 kg/TB over six years: 3.65 kg."""
    plain_machine = machine(16.0)
    storage = dataclasses.replace(plain_machine.storage, capacity_byte_per_chip=10e12, w_per_byte=1e-11, embodied_kg_per_byte=5e-11)
    day = logged(16.0, 24.0)
    site = base().site
    energy = account_energy(day, dataclasses.replace(plain_machine, storage=storage), site, Metered(mean_w=700.0))
    assert float(energy.parts_j["storage"]) / J_PER_KWH == pytest.approx(38.4)
    life = Amortisation(life_s=6 * 365 * 86400.0, utilisation=1.0)
    assert storage_kg(storage, day.chip_s, life) == pytest.approx(16 * 500 / (6 * 365))
