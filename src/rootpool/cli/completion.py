"""``rootpool completion``: a script that completes our commands, options, names and keys in a shell.

The script is written by shtab and holds all words itself, so that pressing the key does not start Python.
"""

from __future__ import annotations

import argparse

import shtab

from rootpool.recipes import families, known_keys, pooling_names, recipe_names

from .commands import build_parser

__all__ = ["completion", "completion_script"]

# Values by the name that an option's help gives them.
FILES = ("CHECKPOINT", "FILE", "IMAGE", "PATH", "FOLDER", "RUN")

# The value of a key follows at once, without a space.
NO_SPACE = """
_rootpool() {
  _shtab_rootpool
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o bashdefault -F _rootpool rootpool
"""


def completion(shell: str) -> int:
    """Print the script."""
    print(completion_script(shell), end="")
    return 0


def completion_script(shell: str) -> str:
    """The script for one of ``shtab.SUPPORTED_SHELLS``."""
    parser = build_parser()
    _add_words(parser)
    return shtab.complete(parser, shell) + NO_SPACE * (shell == "bash")


def _add_words(parser: argparse.ArgumentParser) -> None:
    """Tell shtab what values there are. As choices: this parser never reads a command line."""
    words = {
        "RECIPE": recipe_names(),
        "METHOD": ["all", *pooling_names()],
        "FAMILY": list(families()),
        "key=value": [f"{key}=" for key in known_keys()],
    }
    for action in parser._actions:  # there is no public list of them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _add_words(command)
        elif action.metavar in words:
            action.choices = words[str(action.metavar)]
        elif action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
