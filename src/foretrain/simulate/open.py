"""The door: names, options and overrides in; a checked scenario out.

Everything becomes one nested document of text and numbers, overrides are applied to it, and only then is it validated into records: so
``--set path=value`` reaches every field, with the same units and the same errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretrain.carbon.account import Amortisation
from foretrain.catalog import loader
from foretrain.catalog.loader import Entry
from foretrain.core.errors import InputError, NotFoundError, Problem
from foretrain.cost.account import Prices
from foretrain.run.run import num_steps
from foretrain.simulate.choose import choose
from foretrain.simulate.defaults import complete
from foretrain.simulate.models import default_models
from foretrain.simulate.scenario import Assumption, Scenario
from foretrain.strategy import rules
from foretrain.strategy.strategy import Strategy
from foretrain.system.cluster import Cluster
from foretrain.system.site import Site
from foretrain.system.stack import Stack
from foretrain.workload.model import Model
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe, Workload

STRATEGY_OPTIONS = ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "microbatch_size", "zero", "recompute", "schedule")
RECIPE_OPTIONS = ("seq_len", "global_batch_size", "tokens")
ROOTS = ("model", "recipe", "strategy", "system", "stack", "site", "prices", "amortisation")

Document = dict[str, Any]


def open_scenario(
    model: str,
    on: str,
    chips: object = None,
    options: Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
) -> Scenario:
    """Resolve a description into a scenario.

    Parameters
    ----------
    model
        A catalogue id, a Hugging Face ``config.json`` or its folder, or a scenario YAML.
    on
        A catalogue system id.
    chips
        Number of chips; None takes one server, and says so.
    options
        Values of the command line's plan options by name (``tp``, ``microbatch_size``, ``precision``, ``site`` ...); None where not given.
    overrides
        ``path=value`` settings on any field of the document, applied last.

    Raises
    ------
    InputError
        With every problem found: unknown names, wrong units, values out of range, broken rules of the plan.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    assumptions: list[Assumption] = []
    document, passports, settings = _collect(model, on, chips, given, assumptions)
    for text in (*settings, *overrides):
        _set(document, text)
    _sizes_follow(document)
    cluster = loader.validate(Cluster, document["system"], "system")
    stack = loader.validate(Stack, document["stack"], "stack")
    parsed_model = loader.validate(Model, document["model"], "model")
    complete(document, parsed_model, cluster, assumptions)
    recipe = loader.validate(Recipe, {**document["recipe"], "precision": _precision(document, cluster)}, "recipe")
    workload = Workload(model=parsed_model, recipe=recipe)
    site = loader.validate(Site, document["site"], "site")
    prices = loader.validate(Prices, document["prices"], "prices")
    amortisation = loader.validate(Amortisation, document["amortisation"], "amortisation")
    workload, strategy = choose(workload, document["strategy"], cluster, stack, assumptions)
    problems = [*rules.check(workload, strategy), *_machine_rules(workload, strategy, cluster)]
    if problems:
        raise InputError(problems)
    return Scenario(
        model_name=parsed_model.name,
        system_name=on,
        workload=workload,
        strategy=strategy,
        cluster=cluster,
        stack=stack,
        site=site,
        prices=prices,
        amortisation=amortisation,
        models=default_models(),
        num_steps=num_steps(workload.recipe.tokens, workload.recipe.seq_len * workload.recipe.global_batch_size),
        document={**document, "recipe": loader.plain(workload.recipe), "strategy": loader.plain(strategy), "model": loader.plain(parsed_model)},
        assumptions=tuple(assumptions),
        warnings=tuple(rules.warnings(workload, strategy)),
        passports=passports,
    )


load_scenario = open_scenario
