"""The command line: ``rootpool --help``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

from rootpool.suggest import unknown_name

from .commands import build_parser

__all__ = ["main", "run"]

# What the shell gets, listed by `rootpool --help`; the last two are those of a command that a signal ends.
FAILED, STOPPED, READER_LEFT = 1, 130, 141
STDOUT = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """``rootpool``: run a command and return its exit code."""
    return run(build_parser(), arguments)


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> int:
    """Run a command of a parser and return its exit code; wrong usage leaves through argparse, with 2.

    An error is a message on stderr. The traceback of an unexpected one goes to a file that the message
    names, and ``--traceback`` shows every one.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = parser.get_default("commands")
    if not words:
        parser.print_help()
        return 0
    if not words[0].startswith("-") and words[0] not in commands:
        parser.error(unknown_name("command", words[0], commands))
    parsed, rest = parser.parse_known_args(words)
    options = vars(parsed)
    del options["commands"]
    # argparse leaves over what follows an option after the first positional arguments.
    if rest and ("overrides" not in options or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    elif rest:
        options["overrides"] += rest
    command, show_traceback = options.pop("command"), options.pop("traceback")
    try:
        code: int = command.run(options)
        sys.stdout.flush()  # here, where a closed pipe is still caught
        return code
    except (KeyboardInterrupt, SystemExit) as end:
        stopped = isinstance(end, KeyboardInterrupt)
        if not stopped and not isinstance(end.__context__, KeyboardInterrupt):
            raise  # Lightning answers Ctrl-C with an exit
        _say(f"stopped{command.when_stopped}")
        return STOPPED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_left():
            return READER_LEFT
        if show_traceback:
            traceback.print_exc()
        _say(_explain(error))
        return FAILED


def _reader_left() -> bool:
    """True if the reader of stdout has gone (as with ``| head``); silences further output."""
    try:
        os.write(STDOUT, b"\n")
        return False
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
        return True


def _say(text: str) -> None:
    lines = text.splitlines()
    if "Original Traceback (most recent call last):" in lines:  # torch's loading processes
        lines = lines[-1:]
    print("rootpool:", "\n  ".join(lines), file=sys.stderr)


def _explain(error: Exception) -> str:
    """What was wrong, and what to try."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed; try pip install 'rootpool[train]'"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"  # without its number
    if isinstance(error, OSError | ValueError | ImportError | FloatingPointError):
        return str(error)
    torch = sys.modules.get("torch")  # not imported, so not the one who raised it
    if isinstance(error, MemoryError) or (torch and isinstance(error, torch.OutOfMemoryError)):
        return f"{type(error).__name__}: {error}; try a smaller data.batch_size"
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="rootpool-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    return (
        f"{type(error).__name__}: {error}; this is unexpected: please report it with {file.name} "
        "and the output of rootpool doctor"
    )
