"""``python -m studies NAME``: run a study from a clone; the same command again continues."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rootpool.cli import run
from rootpool.cli.commands import Add, Command, add_commands

__all__ = ["COMMANDS", "main"]

RUN = "a checkpoint, or the folder of a run"
AGAIN = "; run the same command again to continue"
BIRDS = "CUB-200-2011, for heads on frozen features"


def _shared_arguments(add: Add, name: str, seeds: int) -> None:
    """What all studies share: they train by recipes and write a page."""
    add("--list", action="store_true", dest="show", help="list the entries and stop")
    add("--output", default=f"runs/{name}", metavar="FOLDER", help="default: %(default)s")
    add(
        "--runs",
        metavar="FOLDER",
        help="where to keep the runs; can be shared (default: OUTPUT/runs)",
    )
    add("--seeds", type=int, default=seeds, metavar="N", help="repetitions (default: %(default)s)")
    add("--workers", type=int, metavar="N", help="runs at a time (default: one per core)")
    add("--markdown", metavar="FILE", help="Markdown report (default: OUTPUT/report.md)")


def _count(add: Add, name: str, default: int | None, what: str) -> None:
    shown = what if default is None else f"{what} (default: %(default)s)"
    add(name, type=int, default=default, metavar="N", help=shown)


def _paper_arguments(add: Add) -> None:
    _shared_arguments(add, "paper", seeds=3)
    add("entries", nargs="*", metavar="ENTRY", help="such as table:speed or theory; default: all")
    add("--data", metavar="PATH", help="train on these images instead of the embedded ones")
    add(
        "--recipes",
        metavar="FAMILY",
        help="such as resnet50-imagenet (default: by the data, or both small networks)",
    )
    add("--weights", metavar="RUN", help=f"to start from (fine-tuning): {RUN}")


def _approximation_arguments(add: Add) -> None:
    _shared_arguments(add, "approximation", seeds=5)
    add("entries", nargs="*", metavar="ENTRY", help="such as why:halves; default: all")
    add("--data", metavar="PATH", help="train a third network on these images, such as CIFAR-10")
    add("--birds", metavar="FOLDER", help=BIRDS)
    decided = "of the main comparison"
    _count(add, "--deciding-seeds", None, f"seeds {decided} (default: --seeds)")
    _count(add, "--large-seeds", 3, "repetitions with --data and --birds")
    _count(add, "--large-deciding-seeds", None, f"the same, {decided} (default: --large-seeds)")


def _law_arguments(add: Add) -> None:
    _shared_arguments(add, "law", seeds=5)
    text = "write the page of these numbers again, and run nothing"
    add("--record", metavar="FOLDER", help=text)


def _cifar_arguments(add: Add) -> None:
    _shared_arguments(add, "cifar", seeds=3)
    add("--data", metavar="PATH", help="CIFAR-10 in its official layout")


def _followups_arguments(add: Add) -> None:
    _shared_arguments(add, "followups", seeds=5)
    places = "small, birds, few-shot (default: all, or without --birds the first)"
    add("parts", nargs="*", metavar="PART", help=places)
    add("--birds", metavar="FOLDER", help=f"{BIRDS} and episodes of few shots")
    _count(add, "--bird-seeds", 5, "repetitions of every head")
    _count(add, "--episodes", 2000, "of few shots")


def _birds_arguments(add: Add) -> None:
    _shared_arguments(add, "birds", seeds=5)
    layouts = "CUB-200-2011 as its authors lay it out, or a folder with train/ and test/"
    add(
        "--data", metavar="FOLDER", default="CUB_200_2011", help=f"{layouts} (default: %(default)s)"
    )
    default = "(default: birds:heads and birds:poolings)"
    add("entries", nargs="*", metavar="ENTRY", help=f"such as birds:methods {default}")


COMMANDS = {
    "paper": Command(
        "measure the paper's tables and figures and write a report",
        "python -m studies paper\npython -m studies paper table:approximation-error\n"
        "python -m studies paper theory --list",
        _paper_arguments,
        "studies.paper.command:main",
        AGAIN,
    ),
    "approximation": Command(
        "ablate value and gradient of Newton-Schulz (1 h)",
        "python -m studies approximation\n"
        "python -m studies approximation --seeds 4 --deciding-seeds 20 --data CIFAR10",
        _approximation_arguments,
        "studies.approximation.command:main",
        AGAIN,
    ),
    "law": Command(
        "count failures by the scale of the features",
        "python -m studies law\n"
        "python -m studies law --record docs/appendix/law --markdown docs/appendix/law.md",
        _law_arguments,
        "studies.approximation.law:main",
        AGAIN,
    ),
    "cifar": Command(
        "compare the paper's methods on CIFAR-10 (a night)",
        "python -m studies cifar --data CIFAR10",
        _cifar_arguments,
        "studies.paper.command:cifar",
        AGAIN,
    ),
    "followups": Command(
        "try methods published since the paper: in small networks, on birds, with few shots",
        "python -m studies followups --seeds 6\npython -m studies followups few-shot --birds CUB_200_2011",
        _followups_arguments,
        "studies.followups.command:main",
        AGAIN,
    ),
    "birds": Command(
        "compare heads on frozen features of birds (a quarter of an hour)",
        "python -m studies birds --data CUB_200_2011\npython -m studies birds birds:methods",
        _birds_arguments,
        "studies.birds.command:main",
        AGAIN,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study and return its exit code."""
    about = "Run a study from a clone; the same command again continues."
    parser = argparse.ArgumentParser(prog="python -m studies", description=about)
    add_commands(parser, commands=COMMANDS)
    return run(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
