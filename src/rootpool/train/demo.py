"""``rootpool demo``: six short runs that show what this project is about, and a page that tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

import rootpool
from rootpool import report
from rootpool.nn import covariance_pools
from rootpool.progress import Display
from rootpool.report.plots import learning_curves

from .config import merge
from .recipe import recipe
from .run import build
from .settings import resolve
from .study import Event, Trial, run_trials

__all__ = ["demo", "demo_trials", "gradient_errors"]

AVERAGE, EXACT, LOW = "average pooling", "exact root, float64", "exact root, float32"
NEWTON, PUBLISHED, HYBRID = "Newton-Schulz", "MPN-COV, float32", "MPN-COV, hybrid"
# Method, precision of the pooling (None: float64), and whether it begins with Newton-Schulz.
RUNS: Mapping[str, tuple[str, str | None, bool]] = {
    EXACT: ("exact", None, False),
    AVERAGE: ("gap", None, False),
    NEWTON: ("isqrt-cov", None, False),
    LOW: ("exact", "float32", False),
    PUBLISHED: ("mpn-cov-published", "float32", False),
    HYBRID: ("mpn-cov-published", "float32", True),
}
FAR = 10.0  # points above the exact root: a run that ends there has failed
LEAD = (
    "Which of 18 photographs is this patch from? A small network answers by average pooling, and by the "
    "square root of a covariance, computed in several ways."
)
ABOUT = (
    "Grey patches of 28 pixels: 2016 for training, and 3600 from other parts of the pictures for "
    "validation. Three convolutions with batch norm end in 64 channels at 7 x 7 positions. A run has "
    f"failed if it diverges, or ends {FAR:.0f} points above the exact root. One seed decides little, and "
    "rounding decides with it: rootpool demo --seeds 5 tells more. The network was chosen after a look at "
    "both: MPN-COV in float32 failed with every seed with batch norm and with four of six without, where "
    "average pooling is further behind; one hybrid run of eleven with batch norm failed as well."
)


def demo(
    output: str | Path = "runs/demo",
    *,
    runs: str | Path | None = None,
    seeds: int = 1,
    workers: int | None = None,
    markdown: str | Path | None = None,
) -> int:
    """Train what is not trained yet, and write ``index.html`` and ``report.md``.

    Args:
        output: folder of the report.
        runs: folder of the runs, which commands can share; by default in the output.
        seeds: repetitions of every run.
        workers: runs at a time; None for one per core.
        markdown: where to write the Markdown report instead of the output.
    """
    output = Path(output)
    runs = Path(runs or output / "runs")
    trials = demo_trials(seeds)
    print(f"{len(trials)} runs; stop and start again as you like")
    _train(trials, runs, workers)
    folders, labels = [runs / trial.key for trial in trials], [trial.label for trial in trials]
    page = report.runs_page(folders, "Pooling by a matrix square root", labels)
    page.lead = LEAD
    curves = page.blocks[page.blocks.index(report.Heading("Learning curves")) + 1]
    page.blocks.remove(curves)  # of the validation errors: first on this page
    page.blocks[:0] = _story(curves, report.group_runs([*map(report.read_run, folders)], labels))
    page.footer = f"Written by rootpool {rootpool.__version__}: rootpool demo --seeds {seeds}"
    page.write_markdown(Path(markdown or output / "report.md"))
    print(f"Look at {page.write(output / 'index.html').resolve().as_uri()}")
    return 0


def demo_trials(seeds: int) -> list[Trial]:
    """The runs of each seed.

    >>> [trial.label for trial in demo_trials(1)][:2]
    ['exact root, float64', 'average pooling']
    """
    return [Trial(run, _config(run, seed)) for seed in range(seeds) for run in RUNS]


def _config(run: str, seed: int = 0) -> dict[str, Any]:
    method, dtype, hybrid = RUNS[run]
    own = {"model": {"compute_dtype": dtype}, "seed": seed}
    return merge(recipe("patches-norm", method, hybrid).config, own)


def _train(trials: Sequence[Trial], folder: Path, workers: int | None) -> None:
    """Run the trials under a bar that counts them; first stages count as runs of their own."""
    labels = {t.key: t.label for trial in trials for t in (trial, trial.first_stage) if t}
    done: set[str] = set()
    with Display("training", len(labels)) as display:

        def on_event(event: Event) -> None:
            done.update([event.key] if event.done else [])
            epoch = "" if event.record is None else f", epoch {event.record['epoch'] + 1}"
            display.update(len(done), labels[event.key] + epoch)

        run_trials(trials, folder, workers=workers, on_event=on_event)


def gradient_errors() -> list[report.Record]:
    """Relative errors of the gradient by the features, in every step of one epoch of the exact root.

    Those of runs in float32; the reference is the exact gradient in float64, of the same loss.
    """
    module, data = build(resolve(_config(EXACT)))
    network, optimizer = module.model, module.configure_optimizers()["optimizer"]
    (pool,) = covariance_pools(network).values()

    def loss(run: str, features: Tensor, classes: Tensor) -> Tensor:
        method, dtype, _ = RUNS[run]
        pool.method, pool.compute_dtype = method, None if dtype is None else torch.float32
        return torch.nn.functional.cross_entropy(network.forward_head(features), classes)

    records: list[report.Record] = []
    for step, (images, classes) in enumerate(data.train_dataloader()):
        features = network.forward_features(images)
        gradients = {
            run: torch.autograd.grad(loss(run, features, classes), features)[0].double()
            for run in (LOW, PUBLISHED, EXACT)
        }
        exact = gradients.pop(EXACT)
        for run, gradient in gradients.items():
            error = float((gradient - exact).norm() / exact.norm())
            method = RUNS[run][0].removesuffix("-published")
            records.append({"run": run, "method": method, "step": step, "gradient_error": error})
        optimizer.zero_grad()
        loss(EXACT, features, classes).backward()
        optimizer.step()
    return records


def _story(curves: report.Block, groups: Sequence[report.RunGroup]) -> list[report.Block]:
    """What was found, in words that the runs decide, and next to the curves the errors of gradients."""
    last = {group.label: [*map(_final, group.runs)] for group in groups}

    def ended(label: str) -> str:
        far = inf if label == AVERAGE else FAR
        failed = [x for x, e in zip(last[label], last[EXACT], strict=True) if not x < e + far]
        if not failed:
            return f"ends at {fmean(last[label]):.1f} %"
        seeds = len(last[label])
        count = f" with {len(failed)} of {seeds} seeds" if seeds > 1 else ""
        how = "; ".join("it diverges" if x == inf else f"{x:.1f} %" for x in failed)
        return f"fails{count} ({how})"

    gradients = gradient_errors()
    errors = {run: [r["gradient_error"] for r in gradients if r["run"] == run] for run in RUNS}
    wrong = sum(not error < 1 for error in errors[PUBLISHED])
    found = {
        "Average or covariance?": f"Average pooling {ended(AVERAGE)} validation error, the exact root of "
        f"the covariance {ended(EXACT)}.",
        "As the paper has it.": "MPN-COV in float32, with the gradient that the paper prints, "
        f"{ended(PUBLISHED)}. After five epochs of Newton-Schulz, the hybrid protocol, it {ended(HYBRID)}.",
        "With exact gradients.": f"In float32 the exact root {ended(LOW)}. Newton-Schulz {ended(NEWTON)}.",
        "Why?": "For the same features, the error of the published gradient is larger than the gradient in "
        f"{wrong} of {len(errors[PUBLISHED])} steps, {median(errors[PUBLISHED]):.2g} times as large in the "
        f"median. The exact root's is {median(errors[LOW]):.2g} times in float32, where small singular "
        "values count as zeros.",
    }
    picture = report.Picture.of(
        learning_curves,
        gradients,
        "gradient_error",
        x="step",
        alt="Relative errors of the gradient by step",
        caption="Relative errors of the gradient in one epoch of the exact root; at 1 and above, a gradient "
        "is mostly error.",
    )
    told = [report.Paragraph((report.Strong(name), f" {text}")) for name, text in found.items()]
    return [*told, curves, picture, report.Note(ABOUT)]


def _final(run: report.RunFolder) -> float:
    """The last validation error; infinite if the run diverged."""
    return inf if run.diverged else float(run.history[-1]["val_error"])
