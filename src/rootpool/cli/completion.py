"""Scripts that complete our commands, options, recipes and methods in a shell.

They are written once, from the table of commands, and hold all words themselves: asking Python at every
press of the key would import torch each time.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources

from rootpool.nn import METHODS

from .commands import COMMANDS

__all__ = ["completion_script"]

FILES = ("CHECKPOINT", "FILE", "FOLDER", "IMAGE", "PATH")  # values that are names of files


def recipe_words() -> list[str]:
    """Names of the recipes, from those of their files: `rootpool.train` would need Lightning."""
    folder = resources.files("rootpool") / "train" / "recipes"
    files = [file.name for file in folder.iterdir()]
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


@dataclass(frozen=True)
class Argument:
    """An option, or a positional argument with no flags, and what may stand for its value."""

    flags: tuple[str, ...]
    about: str
    value: str  # nothing for a switch
    words: tuple[str, ...]
    many: bool


def _argument(action: argparse.Action) -> Argument:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest)
    words = {"RECIPE": recipe_words(), "METHOD": ["all", "gap", *METHODS]}
    return Argument(
        tuple(action.option_strings),
        (action.help or "").replace("%(default)s", str(action.default)),
        value,
        tuple(action.choices if action.choices is not None else words.get(value, [])),
        action.nargs in ("+", "*"),
    )


def _arguments(command: str) -> list[Argument]:
    parser = argparse.ArgumentParser()
    COMMANDS[command].fill(parser)
    return [_argument(action) for action in parser._actions]  # there is no public list of them


Table = dict[str, list[Argument]]


def _options(table: Table) -> Iterator[tuple[str, str, Argument]]:
    for command, arguments in table.items():
        for argument in arguments:
            for flag in argument.flags:
                yield command, flag, argument


def _rest(arguments: list[Argument]) -> Argument | None:
    """What a word may be that belongs to no option before it: a positional, or one more of a list."""
    return next((argument for argument in arguments if argument.many or not argument.flags), None)


# bash completes names of files by itself where we have no words (-o default). It takes --option=value
# for three words.
BASH = """\
_rootpool() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
    [[ $before == = ]] && before=${{COMP_WORDS[COMP_CWORD - 2]}}
    [[ $word == = ]] && word=
    if ((COMP_CWORD == 1)); then
        words={commands}
    else
        case ${{COMP_WORDS[1]}}:$before:$word in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _rootpool rootpool
"""


def _bash(table: Table) -> str:
    cases = {
        f"{name}:{flag}:*": option.words for name, flag, option in _options(table) if option.value
    }
    for command, arguments in table.items():
        cases[f"{command}:*:-*"] = tuple(flag for option in arguments for flag in option.flags)
        rest = _rest(arguments)
        cases[f"{command}:*"] = rest.words if rest else ()
    return BASH.format(
        commands=shlex.quote(" ".join([*table, "--help", "--version"])),
        cases="\n".join(
            f"            {pattern}) words={shlex.quote(' '.join(words))} ;;"
            for pattern, words in cases.items()
        ),
    )


ZSH = """\
#compdef rootpool
_rootpool() {{
    local state line
    _arguments -C '(- *)--help[show the help]' '(- *)--version[show the version]' \\
        '1:command:->command' '*::argument:->arguments'
    case $state in
        command) local commands=(
{commands}
            )
            _describe command commands ;;
        arguments) case $words[1] in
{arguments}
        esac ;;
    esac
}}
if [[ $funcstack[1] == _rootpool ]]; then _rootpool "$@"; else compdef _rootpool rootpool; fi
"""


def _zsh(table: Table) -> str:
    def escape(text: str) -> str:
        return "".join(f"\\{letter}" if letter in "[]:" else letter for letter in text)

    def specification(argument: Argument) -> str:
        words = f"({' '.join(argument.words)})" if argument.words else " "
        action = "_files" if argument.value in FILES else words
        value = f":{escape(argument.value)}:{action}" if argument.value else ""
        many = "*" if argument.many else ""
        if not argument.flags:
            return shlex.quote(f"{many or '1'}{value}")
        return shlex.quote(f"{argument.flags[-1]}[{escape(argument.about)}]{many and ':*'}{value}")

    return ZSH.format(
        commands="\n".join(
            f"                {shlex.quote(f'{command}:{COMMANDS[command].summary}')}"
            for command in table
        ),
        arguments="\n".join(
            f"            {command}) _arguments {' '.join(map(specification, arguments))} ;;"
            for command, arguments in table.items()
        ),
    )


def _fish(table: Table) -> str:
    def line(condition: str, *words: str) -> str:
        return shlex.join(["complete", "-c", "rootpool", "-n", condition, *words])

    def value(argument: Argument) -> list[str]:
        if argument.value in FILES:
            return ["-r", "-F"]
        return ["-x", "-a", " ".join(argument.words)] if argument.value else []

    lines = ["complete -c rootpool -f"]
    lines += [
        line("__fish_use_subcommand", "-a", command, "-d", COMMANDS[command].summary)
        for command in table
    ]
    for command, flag, option in _options(table):
        name = ["-l", flag[2:]] if flag.startswith("--") else ["-s", flag[1:]]
        seen = f"__fish_seen_subcommand_from {command}"
        lines.append(line(seen, *name, *value(option), "-d", option.about))
    for command, arguments in table.items():
        rest = _rest(arguments)
        if rest and (rest.words or rest.value in FILES):
            words = ["-F"] if rest.value in FILES else ["-a", " ".join(rest.words)]
            lines.append(line(f"__fish_seen_subcommand_from {command}", *words))
    return "\n".join([*lines, ""])


SHELLS: dict[str, Callable[[Table], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def completion_script(shell: str) -> str:
    """The script for a shell in ``SHELLS``."""
    return SHELLS[shell]({command: _arguments(command) for command in COMMANDS})
