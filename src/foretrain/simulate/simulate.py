"""The whole house on one page, with an entry at each waist."""

from __future__ import annotations

from foretrain.carbon.account import Amortisation
from foretrain.carbon.carbon import account_carbon
from foretrain.core.numeric import Num
from foretrain.cost.account import Prices
from foretrain.cost.cost import account_cost
from foretrain.energy.energy import account_energy
from foretrain.program.lower import lower
from foretrain.program.program import Program
from foretrain.run.phases import Run
from foretrain.run.run import simulate_run
from foretrain.simulate.models import Models
from foretrain.simulate.result import Bill, Result
from foretrain.simulate.scenario import Scenario
from foretrain.step.step import simulate_step
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site
from foretrain.system.stack import Stack


def simulate_scenario(scenario: Scenario) -> Result:
    """From a description: lower it to a program and simulate that."""
    program = lower(scenario.workload, scenario.strategy)
    return simulate_program(
        program, scenario.cluster, scenario.stack, scenario.models,
        scenario.num_steps, scenario.site, scenario.prices, scenario.amortisation,
    )  # fmt: skip


def simulate_program(
    program: Program, cluster: Cluster, stack: Stack, models: Models, num_steps: Num, site: Site, prices: Prices, amortisation: Amortisation
) -> Result:
    """From waist 1: clock, job, bill. Also the entry for imported graphs."""
    step = simulate_step(program, cluster, stack, models.compute, models.collective, models.schedule)
    run = simulate_run(step, num_steps, program.checkpoint_byte, cluster, program.input_byte)
    return Result(program=program, step=step, bill=account(run, cluster, models, site, prices, amortisation))


def account(run: Run, cluster: Cluster, models: Models, site: Site, prices: Prices, amortisation: Amortisation) -> Bill:
    """From waist 3: joules, dollars and kilograms of a run, simulated or taken from a log."""
    energy = account_energy(run, cluster, site, models.power)
    cost = account_cost(run, energy, cluster, prices, site)
    carbon = account_carbon(run, energy, cluster, site, models.embodied, amortisation)
    return Bill(run=run, energy=energy, cost=cost, carbon=carbon)
