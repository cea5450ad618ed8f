"""The entry point: exit codes, and what must not wait for the other imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

OK, FAILED, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141
"""Exit codes: an answer (also when the plan runs out of memory), output that cannot be written, an input error, Ctrl-C, a reader
that went away (the last two as shells report the signals)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; every mistake of the user is one line ``error: ...`` on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _tolerant_output()
    try:
        code = _version() if words in (["--version"], ["-V"]) else _command(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = PIPE_CLOSED
    except OSError as error:
        _drop_output()
        print(f"error: output: cannot be written: {error.strerror}", file=sys.stderr)
        code = FAILED
    return code


def _command(words: list[str]) -> int:
    from foretrain.cli.app import run

    return run(words)


def _version() -> int:
    print(f"foretrain {version()}")
    return OK


def version() -> str:
    """The installed version, or a word that says there is none."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("foretrain")
    except PackageNotFoundError:
        return "(not installed)"


def _tolerant_output() -> None:
    """Characters that the terminal's encoding lacks are escaped instead of ending the program."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Point stdout at the null device so that the interpreter's last flush does not fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends


if __name__ == "__main__":
    sys.exit(main())
