"""Writing to stdout, told apart from every other thing that can fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class OutputError(Exception):
    """The output cannot be written: the disk is full, or the device is gone."""


@contextmanager
def writing() -> Iterator[None]:
    """Turn the errors of writing and flushing into ``OutputError``; a reader that went away stays a ``BrokenPipeError``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from None


def tolerate_encoding() -> None:
    """Characters that the terminal's encoding lacks are escaped instead of ending the program."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def drop() -> None:
    """Point stdout at the null device, so that the interpreter's last flush does not fail again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        sys.stdout = sys.__stdout__ if sys.stdout is not sys.__stdout__ else None


def command_line(model: str, options: Mapping[str, object], settings: Sequence[str], folders: Sequence[str] = ()) -> str:
    """The ``simulate`` command with these options, quoted for a shell; options of value None were not given.

    >>> command_line("gpt2-124m", {"on": "dgx-h100", "microbatch_size": "4", "tp": None}, ["prices.rental_usd_per_chip_s=2 USD/h"])
    "foretrain simulate gpt2-124m --on dgx-h100 --microbatch-size 4 --set 'prices.rental_usd_per_chip_s=2 USD/h'"
    """
    import shlex

    words = ["foretrain", "simulate", model]
    for name, value in options.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    for name, texts in (("--set", settings), ("--catalog", folders)):
        for text in texts:
            words += [name, text]
    return shlex.join(words)


def write_page(name: str, text: str) -> None:
    """Write ``text`` to the file ``name`` and say so on stderr; a file that cannot be opened is the user's mistake."""
    from pathlib import Path

    from foretrain.core.errors import InputError, Problem

    try:
        with Path(name).open("w", encoding="utf-8", newline="\n") as stream, writing():
            stream.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot be written: {reason}"
        raise InputError([Problem(field="--html", value=name, message=message, allowed="a file in a folder that exists")]) from None
    print(f"wrote {name}", file=sys.stderr)
