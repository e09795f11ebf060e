"""``python -m studies NAME``: run a study from a clone; the same command again continues."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rootpool.cli import run
from rootpool.cli.commands import Command, add_commands

__all__ = ["COMMANDS", "main"]

RUN = "a checkpoint, or the folder of a run"
AGAIN = "; run the same command again to continue"


def _study_arguments(parser: argparse.ArgumentParser, name: str, seeds: int) -> None:
    """What ``demo`` and ``paper`` share: both train by recipes and write a page."""
    add = parser.add_argument
    add("--output", default=f"runs/{name}", metavar="FOLDER", help="default: %(default)s")
    add("--runs", metavar="FOLDER", help="of the trainings; can be shared (default: in the output)")
    add("--seeds", type=int, default=seeds, metavar="N", help="repetitions (default: %(default)s)")
    add("--workers", type=int, metavar="N", help="trainings at a time (default: one per core)")
    add("--markdown", metavar="FILE", help="of the Markdown report (default: in the output)")


def _paper_arguments(parser: argparse.ArgumentParser) -> None:
    _study_arguments(parser, "paper", seeds=3)
    add = parser.add_argument
    add("entries", nargs="*", metavar="ENTRY", help="such as table:speed or theory; default: all")
    add("--list", action="store_true", dest="show", help="list the entries and stop")
    add("--methods", nargs="+", metavar="METHOD", help="default: those of each entry, and ours")
    add("--data", metavar="PATH", help="train on these images instead of the embedded ones")
    add("--recipes", metavar="FAMILY", help="such as resnet50-imagenet (default: by the data)")
    add("--weights", metavar="RUN", help=f"to start from (fine-tuning): {RUN}")
    add("--record", metavar="FILE", help="add the verdicts to this JSON file")


def _approximation_arguments(parser: argparse.ArgumentParser) -> None:
    _study_arguments(parser, "approximation", seeds=5)
    add = parser.add_argument
    add("--data", metavar="PATH", help="train a third network on these images, such as CIFAR-10")
    add("--birds", metavar="FOLDER", help="CUB-200-2011, for heads on frozen features")
    decided = "of the main comparison (default: --seeds)"
    add("--deciding-seeds", type=int, metavar="N", help=f"seeds {decided}")
    add(
        "--large-seeds",
        type=int,
        default=3,
        metavar="N",
        help="repetitions with --data and --birds (default: %(default)s)",
    )
    add("--large-deciding-seeds", type=int, metavar="N", help=f"the same, {decided}")
    _features_argument(parser)


def _followups_arguments(parser: argparse.ArgumentParser) -> None:
    _study_arguments(parser, "followups", seeds=5)
    add = parser.add_argument
    add(
        "parts",
        nargs="*",
        metavar="PART",
        help="miniature, birds, few-shot (default: all, or without --birds the first)",
    )
    add("--birds", metavar="FOLDER", help="CUB-200-2011, for heads and episodes of few shots")
    add(
        "--bird-seeds",
        type=int,
        default=5,
        metavar="N",
        help="repetitions of every head (default: %(default)s)",
    )
    add("--methods", nargs="+", metavar="METHOD", help="of the heads (default: all, and dropcov)")
    add(
        "--episodes",
        type=int,
        default=2000,
        metavar="N",
        help="of few shots (default: %(default)s)",
    )
    _features_argument(parser)


def _features_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--features",
        default="runs/birds",
        metavar="FOLDER",
        help="output of 'python -m studies birds', where the features are kept (default: %(default)s)",
    )


def _birds_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--data",
        required=True,
        metavar="FOLDER",
        help="CUB-200-2011 as its authors lay it out, or a folder with train/ and test/",
    )
    add("--output", default="runs/birds", metavar="FOLDER", help="default: %(default)s")
    add("--methods", action="store_true", help="compare all methods too, which takes longer")
    add("--seeds", type=int, default=5, metavar="N", help="of every head (default: %(default)s)")
    add("--workers", type=int, metavar="N", help="heads at a time (default: one per core)")
    add("--markdown", metavar="FILE", help="of the Markdown report (default: in the output)")


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
        "studies.approximation.study:approximation",
        AGAIN,
    ),
    "followups": Command(
        "try methods published since the paper: in miniature, on birds, with few shots",
        "python -m studies followups --seeds 6\npython -m studies followups few-shot --birds CUB_200_2011",
        _followups_arguments,
        "studies.followups.study:followups",
        AGAIN,
    ),
    "birds": Command(
        "compare heads on frozen features of birds (a quarter of an hour)",
        "python -m studies birds --data CUB_200_2011\npython -m studies birds --data CUB_200_2011 --methods",
        _birds_arguments,
        "studies.birds.command:birds",
        AGAIN,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    add_commands(parser, COMMANDS)
    return run(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
