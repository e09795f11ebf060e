"""``rootpool completion``: a script that completes commands, options, recipes and methods in a shell.

It holds all words, so that pressing the key does not start Python. Zsh reads it after ``bashcompinit``.
"""

from __future__ import annotations

import argparse

from rootpool.nn import METHODS
from rootpool.train import families

from .commands import build_parser

__all__ = ["completion"]

SCRIPT = """\
_rootpool() {{
  local words
  case "$COMP_CWORD ${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD - 1]}}" in
    "1 "*) words="{commands}" ;;
    *" train --method") words="{methods}" ;;
{options}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o bashdefault -o default -F _rootpool rootpool
"""


def completion() -> int:
    """Print the script."""
    (commands,) = (
        action.choices
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    cases = []
    for name, parser in commands.items():
        words = [option for a in parser._actions for option in a.option_strings]
        words += families() if name == "train" else []
        cases.append(f'    *" {name} "*) words="{" ".join(words)}" ;;')
    methods = " ".join(["gap", *METHODS])
    print(
        SCRIPT.format(commands=" ".join(commands), methods=methods, options="\n".join(cases)),
        end="",
    )
    return 0
