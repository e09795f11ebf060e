"""``rootpool completion``: a script that completes our commands, options, names and keys in a shell.

The script is written by shtab and holds all words itself, so that pressing the key does not start Python.
"""

from __future__ import annotations

import argparse
from typing import Any

import shtab

from rootpool.nn import METHODS
from rootpool.train import families
from rootpool.train.settings import setting_names

from .commands import build_parser

__all__ = ["completion"]

# Values by the name that an option's help gives them.
FILES = ("CHECKPOINT", "FILE", "IMAGE", "PATH", "FOLDER", "RUN")
WORDS = {
    "RECIPE": list(families()),
    "METHOD": ["gap", *METHODS],
    "key=value": [f"{key}=" for key in setting_names()],
}

# The value of a key follows at once, without a space.
NO_SPACE = """
_rootpool() {
  _shtab_rootpool
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o bashdefault -F _rootpool rootpool
"""


class _Completed(argparse.ArgumentParser):
    """Tells shtab what values there are. As choices: this parser never reads a command line."""

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        if action.metavar in WORDS:
            action.choices = WORDS[str(action.metavar)]
        elif action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        return action


def completion(shell: str) -> int:
    """Print the script for one of ``shtab.SUPPORTED_SHELLS``."""
    print(shtab.complete(build_parser(_Completed), shell) + NO_SPACE * (shell == "bash"), end="")
    return 0
