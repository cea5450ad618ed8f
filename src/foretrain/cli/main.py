"""The entry point: exit codes, and what must not wait for the other imports."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from foretrain._version import __version__
from foretrain.cli.output import OutputError, drop, tolerate_encoding, writing

OK, FAILED, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141
"""Exit codes: an answer (also when the plan runs out of memory), output that cannot be written, an input error, Ctrl-C, a reader
that went away (the last two as shells report the signals)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; every mistake of the user is one line ``error: ...`` on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    tolerate_encoding()
    try:
        return _print_version() if words in (["--version"], ["-V"]) else _command(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop()
        return PIPE_CLOSED
    except OutputError as error:
        drop()
        print(f"error: output: cannot be written: {error}", file=sys.stderr)
        return FAILED


def _command(words: list[str]) -> int:
    from foretrain.cli.app import run

    return run(words)


def _print_version() -> int:
    with writing():
        print(f"foretrain {__version__}")
    return OK


if __name__ == "__main__":
    sys.exit(main())
