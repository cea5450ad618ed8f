"""Writing to stdout, told apart from every other thing that can fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
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
