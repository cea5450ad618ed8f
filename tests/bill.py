"""A machine of round numbers, and runs of which only the log is known: what the tests of the bill share."""

from __future__ import annotations

from dataclasses import replace

from foretrain.core.constants import J_PER_KWH, SECOND_PER_HOUR
from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.run.phases import Busy, Phase, Run
from foretrain.step.memory import Memory
from foretrain.step.step import Step
from foretrain.system.chip import Chip, Kernels
from foretrain.system.cluster import Cluster
from foretrain.system.fabric import Fabric
from foretrain.system.reliability import Reliability
from foretrain.system.server import Server
from foretrain.system.site import Site
from foretrain.system.storage import Storage
from foretrain.timeline.steptime import StepTime


def machine(num_chips: float = 8.0) -> Cluster:
    """Eight 700 W chips per server, round numbers everywhere else."""
    kernels = Kernels(measured_on="nothing", matmul_efficiency={}, stream_efficiency=0.9, kernel_s=0.0, wave_s=0.0, tiles=(), attention={})
    chip = Chip(
        name="chip", dense_flop_per_s={"bf16": 1e15}, vector_flop_per_s=6e13, num_sm=132, hbm_byte=8e10, hbm_byte_per_s=3.35e12,
        l2_byte=5e7, tdp_w=700.0, idle_w=75.0, reserved_byte=0.0, kernels=kernels,
    )  # fmt: skip
    server = Server(
        name="server", chip=chip, num_chips=8.0, rated_w=10200.0, host_idle_w=1450.0, host_busy_w=2050.0, host_link_byte_per_s=63e9,
        host_memory_byte_per_s=77e9, psu_efficiency=0.94,
        purchase_usd=300000.0, embodied_boundary="cradle-to-gate", embodied_kg={"board": 1312.0, "rest": 3000.0},
    )  # fmt: skip
    return Cluster(
        name="cluster", num_chips=num_chips, server=server,
        fabric=Fabric(name="fabric", topology="fat tree", tiers=(), switch_w=100.0),
        storage=Storage(name="storage", write_byte_per_s=2e12, read_byte_per_s=4e12, server_byte_per_s=5e9),
        reliability=Reliability(failure_per_chip_s=5e-9, restart_s=600.0, step_overhead_s=0.05, evaluation_fraction=0.01),
    )  # fmt: skip


@record
class Metered:
    """A power model for logs: the chip drew ``mean_w`` [W], whatever it did."""

    mean_w: float

    def watts(self, chip: Chip, busy: Busy) -> Num:
        return self.mean_w


def logged(num_chips: float, hours: float, busy: Busy | None = None) -> Run:
    """A run of which only chips and wall-clock hours are known."""
    wall_s = hours * SECOND_PER_HOUR
    phase = Phase(purpose="steps", duration_s=wall_s, num_chips=num_chips, busy=busy or Busy())
    return Run(
        num_chips=num_chips, num_steps=1.0, phases=(phase,), wall_s=wall_s, goodput=1.0, checkpoint_interval_s=wall_s, num_failures=0.0
    )


def site_of(pue: float = 1.0, location_kg_per_kwh: float = 0.4, market_kg_per_kwh: float = 0.0) -> Site:
    return Site(
        name="site", pue=pue, location_kg_per_j=location_kg_per_kwh / J_PER_KWH, market_kg_per_j=market_kg_per_kwh / J_PER_KWH,
        intensity_definition="average", electricity_usd_per_j=0.08 / J_PER_KWH, wue_l_per_j=0.2 / J_PER_KWH,
    )  # fmt: skip


def chips_only(num_chips: float) -> Cluster:
    """A machine whose only consumers are its chips: what is metered per chip is all there is."""
    base = machine(num_chips)
    server = replace(base.server, host_idle_w=0.0, host_busy_w=0.0, psu_efficiency=1.0)
    return replace(base, server=server, fabric=replace(base.fabric, switch_w=0.0))


def step_of(step_s: Num, matrix: Num = 0.5, memory: Num = 0.4, links: Num = 0.3) -> Step:
    """A step of ``step_s`` seconds, with its chips' parts busy for these shares of it."""
    return Step(
        time=StepTime(
            step_s=step_s, parts_s={}, hidden_s={}, matrix_s=matrix * step_s, memory_s=memory * step_s, link_s=links * step_s,
            bubble_fraction=0.0,
        ),
        memory=Memory(
            peak_byte=0.0, reserved_byte=0.0, device_byte=0.0, context_byte=0.0, communicator_byte=0.0, capacity_byte=1.0,
            worst_stage=0.0, peak_moment="", parts_byte={}, stages={}, stage_params={},
        ),
        mfu=0.4, hfu=0.4, token_per_s=1.0, token_per_s_per_chip=1.0, useful_token_per_s=1.0, model_flop_per_s_per_chip=1.0,
        peak_flop_per_s=1.0,
    )  # fmt: skip
