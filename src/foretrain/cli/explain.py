"""``foretrain explain``: why a figure has its value."""

from __future__ import annotations

from typing import Annotated

from foretrain.cli.options import NOTHING, Given, flag, option
from foretrain.cli.output import writing


def explain(
    model: str,
    figure: str,
    /,
    *,
    depth: Annotated[str, option("--depth", "Output", "Levels of formulas below the figure (default 3).")] = "3",
    given: Given = NOTHING,
    json: Annotated[bool, flag("--json", "Print the tree and all inputs with their passports as JSON.")] = False,
) -> int:
    """Show how a figure is computed: formulas with numbers substituted, down to the inputs and their sources.

    Parameters
    ----------
    model
        Catalogue id, Hugging Face config.json or its folder, or a scenario YAML.
    figure
        Dotted name as in the JSON report, e.g. step.step_s, step.mfu, memory.peak_byte, cost.total_usd.
    """
    from foretrain.core.errors import InputError, Problem
    from foretrain.report.explain import explain as explained
    from foretrain.report.explain import screen

    if not depth.isdecimal() or not 1 <= int(depth) <= MOST_LEVELS:
        raise InputError([Problem(field="--depth", value=depth, message="must be a whole number", allowed=f"1 to {MOST_LEVELS}")])
    document = explained(given.open(model), figure, int(depth))
    with writing():
        if json:
            from foretrain.report.json import dumps

            print(dumps(document))
        else:
            print("\n".join(screen(document)))
    return 0


MOST_LEVELS = 50
