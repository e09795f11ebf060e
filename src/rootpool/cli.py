"""The command line. Each command imports what it needs when it runs, so ``--help`` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import rootpool

__all__ = ["main"]

Arguments = argparse.Namespace


@dataclass(frozen=True)
class Command:
    """A subcommand: what it says of itself, its arguments, what it does."""

    summary: str
    examples: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Arguments], int]


# --------------------------------------------------------------------------------------------------


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--recipe",
        required=True,
        metavar="NAME",
        help="see 'rootpool recipes'; or your own NAME.yaml",
    )
    add("--data", metavar="PATH", help="the images; photo-patches needs none")
    add("--weights", metavar="FILE", help="a checkpoint to start from (fine-tuning)")
    add("--output", metavar="FOLDER", help="default: runs/NAME")
    add("--resume", action="store_true", help="go on from last.ckpt in the output folder")
    add("--on-bad-image", choices=["raise", "skip"], help="default: raise at the first")
    add("--show", action="store_true", help="print the effective configuration and stop")
    add(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="such as model.lr=0.01 trainer.max_epochs=3",
    )


def _train(arguments: Arguments) -> int:
    from rootpool.train.command import train

    return train(
        arguments.recipe,
        data=arguments.data,
        weights=arguments.weights,
        output=arguments.output,
        resume=arguments.resume,
        on_bad_image=arguments.on_bad_image,
        overrides=arguments.overrides,
        show=arguments.show,
    )


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--data", metavar="PATH", help="default: the data of the training")


def _evaluate(arguments: Arguments) -> int:
    from rootpool.train.command import evaluate

    return evaluate(arguments.checkpoint, arguments.data)


def _predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("images", nargs="+", metavar="IMAGE")


def _predict(arguments: Arguments) -> int:
    from rootpool.train.command import predict

    return predict(arguments.checkpoint, arguments.images)


def _recipes_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="list those whose name has all words"
    )


def _recipes(arguments: Arguments) -> int:
    from rootpool.train.command import recipes

    return recipes(arguments.words)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--output", default="runs/demo", metavar="FOLDER", help="default: %(default)s")
    add("--seeds", type=int, default=1, metavar="N", help="repetitions (default: %(default)s)")
    add(
        "--methods",
        nargs="+",
        metavar="METHOD",
        help="default: a selection; 'all' for every method",
    )
    add("--workers", type=int, metavar="N", help="runs at a time (default: one a core)")


def _demo(arguments: Arguments) -> int:
    from rootpool.train.demo import demo

    return demo(arguments.output, arguments.seeds, arguments.methods, arguments.workers)


def _paper_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("entries", nargs="*", metavar="ENTRY", help="such as table:speed or theory; default: all")
    add("--list", action="store_true", help="list the entries and stop")
    add("--output", default="runs/paper", metavar="FOLDER", help="default: %(default)s")
    add(
        "--seeds", type=int, default=3, metavar="N", help="of every training (default: %(default)s)"
    )
    add("--workers", type=int, metavar="N", help="trainings at a time (default: one a core)")
    add("--data", metavar="PATH", help="train on these images instead of the embedded ones")
    add("--recipes", metavar="FAMILY", help="such as resnet50-imagenet (default: by the data)")
    add("--weights", metavar="FILE", help="a checkpoint to start from (fine-tuning)")
    add("--markdown", metavar="FILE", help="of the Markdown report (default: in the output)")


def _paper(arguments: Arguments) -> int:
    from rootpool.paper.command import paper, show_entries

    if arguments.list:
        return show_entries(arguments.entries)
    return paper(
        arguments.entries,
        output=arguments.output,
        seeds=arguments.seeds,
        workers=arguments.workers,
        data=arguments.data,
        recipes=arguments.recipes,
        weights=arguments.weights,
        markdown=arguments.markdown,
    )


COMMANDS = {
    "demo": Command(
        "compare the methods on embedded photographs (three minutes)",
        "rootpool demo\nrootpool demo --seeds 5 --methods all",
        _demo_arguments,
        _demo,
    ),
    "paper": Command(
        "measure the tables and figures of the paper and write a report",
        "rootpool paper\nrootpool paper table:approximation-error\nrootpool paper theory --list",
        _paper_arguments,
        _paper,
    ),
    "train": Command(
        "train a network by a recipe of the paper, or by yours",
        "rootpool train --recipe patches-exact\n"
        "rootpool train --recipe alexnet-imagenet-exact --data PATH trainer.devices=8\n"
        "rootpool train --recipe patches-exact --resume",
        _train_arguments,
        _train,
    ),
    "evaluate": Command(
        "errors of a checkpoint on data",
        "rootpool evaluate runs/patches-exact/best.ckpt",
        _evaluate_arguments,
        _evaluate,
    ),
    "predict": Command(
        "the five most probable classes of each image",
        "rootpool predict runs/birds-exact/best.ckpt cardinal.jpg wren.jpg",
        _predict_arguments,
        _predict,
    ),
    "recipes": Command(
        "list the recipes, one line each",
        "rootpool recipes\nrootpool recipes alexnet hybrid",
        _recipes_arguments,
        _recipes,
    ),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="rootpool", description="Stable, fast, differentiable spectral layers for PyTorch."
    )
    parser.add_argument("--version", action="version", version=f"rootpool {rootpool.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog="examples:\n" + "".join(f"  {line}\n" for line in command.examples.split("\n")),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when all went well, 1 for a problem that is explained, 2 for wrong usage."""
    parsed = build_parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        return code
    except ModuleNotFoundError as error:
        print(
            f"rootpool: {error.name} is not installed; try pip install 'rootpool[train]'",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        print(
            "\nrootpool: stopped; what was saved is good, --resume goes on from it", file=sys.stderr
        )
        return 130
    except (OSError, ValueError, FloatingPointError) as error:
        print(f"rootpool: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
