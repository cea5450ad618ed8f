"""``foretrain compare``: what a change of the scenario changes in the answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from foretrain.cli.options import NOTHING, Given, flag
from foretrain.cli.output import writing
from foretrain.core.errors import InputError, Problem

if TYPE_CHECKING:
    from foretrain.simulate.scenario import Scenario
    from foretrain.sweep.variants import Variant


def compare(
    a: str,
    b: str | None = None,
    /,
    *,
    given: Given = NOTHING,
    knobs: Annotated[bool, flag("--knobs", "Turn every knob of the plan once, and find what fits.")] = False,
    json: Annotated[bool, flag("--json", "Print all figures, changes and differing fields as JSON.")] = False,
) -> int:
    """Compare two scenarios, or one with variants of itself.

    With two scenarios, B stands against A, both under the options given. With one, every --set makes a variant that differs in this
    setting alone: the plan chosen for A is kept. With --knobs, batch, sequence, ranks, sharding, recomputation, gradients and offload
    are changed one at a time, and the largest microbatch, the longest sequence and the fewest chips that fit are found.

    Parameters
    ----------
    a
        Catalogue id, Hugging Face config.json or its folder, or a scenario YAML: the base.
    b
        Another one, to stand against it.
    """
    from foretrain.report.compare import blocks, comparison, limits, table
    from foretrain.report.json import dumps

    ways = (b is not None) + bool(knobs) + bool(given.settings and b is None)
    if ways != 1:
        message = "needs one thing to compare with" if ways == 0 else "only one of these at a time"
        raise InputError(
            [Problem(field="compare", message=message, allowed="a second scenario, --set path=value (repeatable), or --knobs")]
        )
    base = given.open(a) if b is not None else dataclasses.replace(given, settings=None).open(a)
    document = comparison(base, _variants(base, a, b, given, knobs=knobs), Path(a).name)
    if knobs:
        document["limits"] = limits(base)
    with writing():
        print(dumps(document) if json else "\n".join(table(document) if knobs else blocks(document)))
    return 0


def _variants(base: Scenario, a: str, b: str | None, given: Given, *, knobs: bool) -> list[Variant]:
    """The scenarios that stand against the base."""
    from foretrain.sweep import variants

    if b is not None:
        return [variants.Variant(name=Path(b).name, scenario=given.open(b))]
    if knobs:
        return variants.knobs(base)
    return variants.set_one(lambda settings: dataclasses.replace(given, settings=list(settings)).open(a), base, given.settings or ())
