"""``rootpool demo``: some methods on the embedded photographs, and a page that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import rootpool
from rootpool.nn import method_names, resolve_pool
from rootpool.progress import Display
from rootpool.report import Code, Note, Page, Paragraph, runs_page

from .config import merge
from .recipe import recipe
from .study import Event, Trial, run_trials

__all__ = ["demo", "demo_trials"]

FAMILY = "patches"
METHODS = ("exact", "isqrt-cov", "mpn-cov", "svd-pade", "gap")
WITHOUT_SWITCH = ("gap", "isqrt-cov")  # what a hybrid training begins with, and what has no root
LEAD = (
    "Which of 18 photographs is this patch from? A small network with several pooling methods, each "
    "trained standalone and, if it decomposes a matrix, also after a first stage of Newton-Schulz (hybrid)."
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
    """Train what is not trained yet, and write ``index.html`` and ``report.md``.

    Args:
        output: folder of the report.
        runs: folder of the trainings, which commands can share; by default in the output.
        seeds: repetitions of every training.
        methods: those to compare, with the first; ``["all"]`` for every one, None for a selection.
        workers: trainings at a time; None for one per core.
        markdown: where to write the Markdown report instead of the output.
    """
    if seeds < 1:
        raise ValueError(f"--seeds must be positive, got {seeds}")
    output = Path(output)
    runs = Path(runs or output / "runs")
    everything = [*method_names("ours", "paper", "follow-up"), "gap"]
    chosen = everything if methods and list(methods) == ["all"] else methods or METHODS
    for method in chosen:
        resolve_pool(method)  # an unknown name is said before anything is trained
    trials = demo_trials(chosen, seeds)
    print(f"{len(trials)} trainings; stop and start again as you like")
    _train(trials, runs, workers)
    command = f"rootpool demo --seeds {seeds} --methods {' '.join(methods or METHODS)}"
    page = _page(trials, runs, seeds, command)
    page.write_markdown(Path(markdown or output / "report.md"))
    print(f"Look at {page.write(output / 'index.html').resolve().as_uri()}")
    return 0


def demo_trials(methods: Sequence[str], seeds: int) -> list[Trial]:
    """A training for each seed, method and protocol for which there is a recipe.

    >>> [trial.label for trial in demo_trials(["gap", "exact"], 1)]
    ['gap', 'exact', 'exact, hybrid']
    """
    return [
        Trial(
            f"{method}, hybrid" if hybrid else method,
            merge(recipe(FAMILY, method, hybrid).config, {"seed": seed, "spectrum_every": 21}),
        )
        for seed in range(seeds)
        for method in methods
        for hybrid in ((False,) if method in WITHOUT_SWITCH else (False, True))
    ]


def _train(trials: Sequence[Trial], folder: Path, workers: int | None) -> None:
    """Run the trials under a bar that counts epochs; first stages count as runs of their own."""
    labels = {t.key: t.label for trial in trials for t in (trial, trial.first_stage) if t}
    done: set[str] = set()
    with Display("training", len(labels)) as display:

        def on_event(event: Event) -> None:
            done.update([event.key] if event.done else [])
            about = labels[event.key]
            if event.record is not None:
                about += f", epoch {event.record['epoch'] + 1}"
            display.update(len(done), about)

        run_trials(trials, folder, workers=workers, on_event=on_event)


def _page(trials: Sequence[Trial], folder: Path, seeds: int, command: str) -> Page:
    labels = [trial.label for trial in trials]
    page = runs_page([folder / trial.key for trial in trials], "The demo", labels)
    page.lead = LEAD
    page.footer = f"Written by rootpool {rootpool.__version__}: {command}"
    if seeds == 1:
        text = "One seed: another can change a result by a few points. Five seeds tell more:"
        page.blocks[:0] = [Note(text, "unclear"), Code("rootpool demo --seeds 5", "sh")]
    page.add(
        Paragraph(
            "Grey patches of 28 pixels: 2016 for training, and 3600 from other parts of the pictures for "
            "validation. The network has three convolutions and ends in 64 channels at 7 x 7 positions."
        )
    )
    return page
