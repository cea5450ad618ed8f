"""``foretrain catalog``: what the catalogue knows, entry by entry, and whether a folder of entries is sound."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from foretrain.cli.options import CATALOG, flag
from foretrain.cli.output import writing

UNSOUND = 2
Folders = Annotated[list[str] | None, CATALOG]
Json = Annotated[bool, flag("--json", "Print everything as JSON.")]


def make_catalog() -> App:
    """The commands below ``catalog``."""
    catalog = App(name="catalog", help="What the catalogue knows.")
    catalog.command(list_entries, name="list")
    catalog.command(show_entry, name="show")
    catalog.command(check_entries, name="check")
    return catalog


def list_entries(
    kind: Annotated[str | None, Parameter(show_default=False)] = None, /, *, catalog: Folders = None, json: Json = False
) -> int:
    """List the ids of all kinds, or the entries of one (chips, models, systems, sites, stacks ...) with their main numbers.

    Parameters
    ----------
    kind
        The kind of entry.
    """
    from foretrain.catalog.loader import KINDS, ids, searching
    from foretrain.report import entry

    with searching(catalog or ()):
        if kind is None:
            listed = {name: list(ids(name)) for name in KINDS}
            text = entry.dumps(listed) if json else "\n".join(f"{name}: {', '.join(known)}" for name, known in listed.items())
        else:
            rows = entry.overview(entry.kind_named(kind))
            text = entry.dumps(rows) if json else entry.table(rows)
    with writing():
        print(text)
    return 0


def show_entry(
    name: str, second: Annotated[str | None, Parameter(show_default=False)] = None, /, *, catalog: Folders = None, json: Json = False
) -> int:
    """Show every number of one entry: value, kind, range, source and note.

    Parameters
    ----------
    name
        The kind of entry, or its id if only one kind has it.
    second
        The id, after a kind.
    """
    from foretrain.catalog.loader import searching
    from foretrain.report import entry

    with searching(catalog or ()):
        kind, known = entry.resolved(name) if second is None else (entry.kind_named(name), second)
        document = entry.as_document(kind, known)
    with writing():
        print(entry.dumps(document) if json else entry.text(document))
    return 0


def check_entries(folder: Annotated[str | None, Parameter(show_default=False)] = None, /, *, catalog: Folders = None) -> int:
    """Check a folder of your own entries, or the shipped catalogue: one line per problem, and exit code 2 if there is any.

    Parameters
    ----------
    folder
        Folder with the layout of the catalogue: chips/my-chip.yaml, models/..., sources.yaml.
    """
    from foretrain.catalog.check import check
    from foretrain.catalog.loader import searching

    with searching(catalog or ()):
        problems = check(folder)
    with writing():
        for problem in problems:
            print(" ".join(problem.split()))
        if not problems:
            print(f"{folder or 'the catalogue'}: sound")
    if problems:
        print(f"error: {folder or 'the catalogue'}: {len(problems)} problem{'s' * (len(problems) > 1)}", file=sys.stderr)
    return UNSOUND if problems else 0
