"""The table of commands. A command is imported when it runs, so that ``--help`` imports nothing."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import rootpool

__all__ = ["COMMANDS", "EXPLORE", "USE", "Add", "Command", "add_commands", "build_parser"]

RUN = "the folder of a run (its best.ckpt), or a checkpoint"
Add: TypeAlias = Callable[..., object]  # ``add_argument`` of a parser


@dataclass(frozen=True)
class Command:
    """A subcommand: its help, its arguments and the function that runs it."""

    summary: str
    examples: str
    arguments: Callable[[Add], None] | None
    function: str  # "module:name"; called with the arguments by name, it returns the exit code
    when_stopped: str = ""  # said at Ctrl-C: how to continue

    def run(self, arguments: dict[str, Any]) -> int:
        """Import the function and call it."""
        module, _, name = self.function.partition(":")
        code: int = getattr(import_module(module), name)(**arguments)
        return code


def _positive(text: str) -> int:
    """A count of things that there must be one of."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text}")
    return int(text)


def _name_in(*suffixes: str) -> Callable[[str], str]:
    """The name of a file of a known kind, so that another one is refused before the work."""

    def checked(text: str) -> str:
        if not text.endswith(suffixes):
            raise argparse.ArgumentTypeError(f"must end in {' or '.join(suffixes)}, got {text}")
        return text

    return checked


def _doctor_arguments(add: Add) -> None:
    table = "a table of speed and accuracy of pooling on this device instead (a minute)"
    add("--bench", action="store_true", help=table)


def _train_arguments(add: Add) -> None:
    recipe = "a name from 'rootpool recipes', or your own file.yaml"
    add("recipe", nargs="?", metavar="RECIPE", help=recipe)
    add("--method", help="pooling method (default: exact); gap for average pooling")
    add("--hybrid", action="store_true", help="train with isqrt-cov first, and switch near the end")
    add("--data", metavar="PATH", help="the images; patches and patches-norm need none")
    add("--weights", metavar="RUN", help=f"weights to start from (fine-tuning): {RUN}")
    add("--output", metavar="FOLDER", help="default: runs/RECIPE-METHOD")
    add("--resume", action="store_true", help="continue the run in --output, which needs no RECIPE")
    add("--on-bad-image", choices=["raise", "skip"], help="an unreadable image (default: raise)")
    add("--show", action="store_true", help="print the effective configuration and stop")
    add("overrides", nargs="*", metavar="key=value", help="such as trainer.max_epochs=3")


def _evaluate_arguments(add: Add) -> None:
    add("checkpoint", metavar="RUN", help=RUN)
    add("--data", metavar="PATH", help="a data set, or class folders (default: the run's data)")
    add("--output", metavar="FOLDER", help="write a page, tables and the confusion matrix there")
    add("--on-bad-image", choices=["raise", "skip"], help="default: as the run was trained")
    add("--mirrored", action="store_true", help="average over each image and its flip")


def _predict_arguments(add: Add) -> None:
    add("checkpoint", metavar="RUN", help=RUN)
    add("images", nargs="+", metavar="IMAGE", help="a picture, or a folder of pictures")
    add("--csv", dest="table", metavar="FILE", help="write a line per image there")
    add("--top", dest="count", type=_positive, default=5, metavar="N", help="classes (default: 5)")
    add("--on-bad-image", choices=["raise", "skip"], default="raise", help="default: %(default)s")


def _export_arguments(add: Add) -> None:
    add("checkpoint", metavar="RUN", help=RUN)
    files = "name.onnx, or name.pt2 for torch.export (default: model.onnx in the folder of the run)"
    add("--output", metavar="FILE", type=_name_in(".onnx", ".pt2"), help=files)


def _demo_arguments(add: Add) -> None:
    add("--output", default="runs/demo", metavar="FOLDER", help="default: %(default)s")
    add("--runs", metavar="FOLDER", help="where to keep the runs (default: OUTPUT/runs)")
    add("--seeds", type=_positive, default=1, metavar="N", help="repetitions (default: 1)")
    add("--workers", type=_positive, metavar="N", help="runs at a time (default: one per core)")
    add("--markdown", metavar="FILE", help="the page as Markdown (default: OUTPUT/report.md)")


def _report_arguments(add: Add) -> None:
    add("runs", nargs="+", metavar="RUN", help="a folder; the others are compared with the first")
    files = "a name that ends in .html or .md (default: %(default)s)"
    kind = _name_in(".html", ".md")
    add("--output", default="report.html", metavar="FILE", type=kind, help=files)
    add("--title", default="Report of training runs", help="of the page (default: %(default)s)")


USE = {
    "train": Command(
        "train a network by one of the paper's recipes, or by your own",
        "rootpool train patches\n"
        "rootpool train patches --method svd-pade --hybrid trainer.max_epochs=10\n"
        "rootpool train alexnet-imagenet --data PATH trainer.devices=8\n"
        "rootpool train mine.yaml --data photos model.optimizer=adamw\n"
        "rootpool train --resume --output runs/patches-exact",
        _train_arguments,
        "rootpool.cli.training:train",
        "; continue from the last checkpoint with --resume",
    ),
    "evaluate": Command(
        "measure the errors of a trained network, on its data or on yours",
        "rootpool evaluate runs/patches-exact\n"
        "rootpool evaluate runs/birds-exact --data holiday-photos --output evaluation",
        _evaluate_arguments,
        "rootpool.cli.trained:evaluate",
    ),
    "predict": Command(
        "print the five most probable classes of each image",
        "rootpool predict runs/birds-exact cardinal.jpg wren.jpg\n"
        "rootpool predict runs/birds-exact holiday-photos --csv birds.csv",
        _predict_arguments,
        "rootpool.cli.trained:predict",
    ),
    "export": Command(
        "write a trained network as ONNX or torch.export, and check it",
        "rootpool export runs/birds-exact\nrootpool export runs/birds-exact --output birds.pt2",
        _export_arguments,
        "rootpool.cli.trained:export",
    ),
    "report": Command(
        "compare training runs on one page: errors, curves, settings",
        "rootpool report runs/mine runs/mine-gap\n"
        "rootpool report runs/exact-* runs/gap-* --output report.md",
        _report_arguments,
        "rootpool.report.run_report:report",
    ),
}
EXPLORE = {
    "recipes": Command(
        "list the recipes, with their data, time and hardware",
        "rootpool recipes",
        None,
        "rootpool.cli.training:recipes",
    ),
    "doctor": Command(
        "print versions and devices and check the numerics: for bug reports",
        "rootpool doctor\nrootpool doctor --bench",
        _doctor_arguments,
        "rootpool.cli.doctor:doctor",
    ),
    "demo": Command(
        "show what fails and what helps, on embedded photographs (about four minutes)",
        "rootpool demo\nrootpool demo --seeds 5",
        _demo_arguments,
        "rootpool.train.demo:demo",
        "; run the same command again to continue",
    ),
    "completion": Command(
        "print a script that lets bash or zsh complete commands, options and names",
        "rootpool completion > ~/.local/share/bash-completion/completions/rootpool\n"
        "rootpool completion > ~/.rootpool   # zsh: source it after bashcompinit",
        None,
        "rootpool.cli.completion:completion",
    ),
}
COMMANDS = USE | EXPLORE

EPILOG = """\
examples:
  rootpool train patches --method exact          train a small network
  rootpool train --help                          all about one command

exit codes:
  0    done
  1    an error, explained on stderr; --traceback shows where it came from
  2    wrong usage
  130  stopped by Ctrl-C
  141  the output pipe was closed, for example by head

With NO_COLOR set in the environment, nothing is coloured.
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples, and has room for our longest option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="rootpool",
        description="Stable, fast, differentiable spectral layers for PyTorch.",
        epilog=EPILOG,
    )
    version = f"rootpool {rootpool.__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    add_commands(parser, use=USE, explore=EXPLORE)
    return parser


def add_commands(parser: argparse.ArgumentParser, **groups: Mapping[str, Command]) -> None:
    """Add a subparser for every command, and list them in the help under the headings of their groups."""
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    known: dict[str, Command] = {}
    for heading, table in groups.items():
        parser.description = f"{parser.description}\n\n{heading}:"
        for name, command in table.items():
            known[name] = command
            parser.description += "\n" + textwrap.fill(
                command.summary, 79, initial_indent=f"  {name:<14} ", subsequent_indent=" " * 17
            )
            subparser = subparsers.add_parser(
                name,
                description=command.summary[0].upper() + command.summary[1:] + ".",
                epilog="examples:\n  " + command.examples.replace("\n", "\n  "),
                formatter_class=_Formatter,
            )
            if command.arguments is not None:
                command.arguments(subparser.add_argument)
            subparser.add_argument(
                "--traceback", action="store_true", help="show where an error came from"
            )
            subparser.set_defaults(command=command)
    parser.usage = "%(prog)s COMMAND ..."
    parser.formatter_class = _Formatter
    parser.set_defaults(commands=known)
