"""``rootpool demo``: a few entries of the paper in miniature, on the embedded photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rootpool.report import Mono, Paragraph

from .command import measure_entries, train, write_page
from .entries import choose
from .overview import overview
from .plan import Measured, Plan, named_methods
from .report import Cover, make_page

__all__ = ["ENTRIES_SHOWN", "SELECTION", "demo"]

SELECTION = ("gap", "isqrt-cov", "mpn-cov", "svd-pade", "exact")
ENTRIES_SHOWN = ("table:alexnet", "table:resnet", "table:condition-number")
TITLE = "Covariance pooling on photo-patches"
LEAD = (
    "Which of 18 photographs is this patch from? A small network with several pooling methods, each "
    "trained standalone and, if it decomposes a matrix, also after a first stage of Newton-Schulz "
    "(hybrid). A method of the paper has its gradient as published; ‘fused’ is our form of it."
)


def demo(
    output: str | Path = "runs/demo",
    *,
    runs: str | Path | None = None,
    seeds: int = 1,
    methods: Sequence[str] | None = None,
    workers: int | None = None,
    markdown: str | Path | None = None,
) -> int:
    """Compare methods by what ``rootpool paper`` trains and asks; write a page about it.

    Args:
        output: folder of the results and the report.
        runs: folder of the trainings, which commands can share; by default in the output.
        seeds: repetitions of every training.
        methods: those to compare; ``["all"]`` for every one with a recipe, None for a selection.
        workers: trainings at a time; None for one per core.
        markdown: where to write the Markdown report instead of the output.
    """
    plan = Plan(seeds=seeds, methods=named_methods(methods or SELECTION))
    output, console = Path(output), Console(highlight=False)
    runs = Path(runs or output / "runs")
    trials = plan.comparison(())
    console.print(f"{len(trials)} trainings; stop and start again as you like")
    trained = train(trials, runs, workers)
    entries = [entry for entry in choose(ENTRIES_SHOWN) if entry.suits(plan)]
    results = measure_entries(entries, plan, trained, runs, output / "results", console)
    study = Measured(plan, trials, [trained[trial.key] for trial in trials], runs)
    command = f"rootpool demo --seeds {seeds} --methods {' '.join(methods or SELECTION)}"
    cover = Cover(TITLE, LEAD, command, [*overview(study), _setting(plan)])
    write_page(make_page(results, plan, cover), trained, output, markdown, console)
    return 0


def _setting(plan: Plan) -> Paragraph:
    config = plan.recipe().config
    model = config["model"]
    text = (
        "The network sees grey patches of 28 pixels from the photographs inside scikit-image and "
        "scikit-learn, 2016 for training and 3600 from other parts of the pictures for validation. It has "
        f"three convolutions and ends in 64 channels at 7 x 7 positions. SGD with rate {model['lr']}, "
        f"momentum {model['momentum']} and weight decay {model['weight_decay']}, batches of "
        f"{config['data']['batch_size']}, {plan.epochs} epochs, rate divided by ten at "
        f"{' and '.join(map(str, plan.milestones))}, switch at {plan.switch}. SVD-TopN keeps 50 of 64 "
        "eigenvalues, as the paper keeps 200 of 256; with 49 positions at most 48 are not zero, so it "
        "drops nothing here. All settings: "
    )
    return Paragraph((text, Mono("rootpool train --recipe patches-exact --show"), "."))
