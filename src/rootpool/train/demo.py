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
from rootpool.nn import covariance_pool, covariance_pools
from rootpool.progress import Display
from rootpool.report.plots import learning_curves

from .config import merge
from .recipe import recipe
from .run import build
from .settings import resolve
from .study import Event, Trial, run_trials

__all__ = ["demo", "demo_trials", "gradient_errors"]

FAMILY = "patches-norm"
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
    if seeds < 1:
        raise ValueError(f"--seeds must be positive, got {seeds}")
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
    return merge(recipe(FAMILY, method, hybrid).config, own)


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
    """Relative errors of the gradient by run, in every step of one epoch of the exact root.

    All get the same features and the same gradient of the loss by the pooled vector; the reference is the
    exact gradient for features in float64.
    """
    module, data = build(resolve(_config(EXACT)))
    (pool,) = covariance_pools(module.model).values()
    optimizer = module.configure_optimizers()["optimizer"]
    seen: dict[str, Tensor] = {}
    pool.reduction.register_forward_hook(lambda *call: seen.update(features=call[-1].detach()))
    pool.register_full_backward_hook(lambda *call: seen.update(upstream=call[-1][0]))

    def gradient(X: Tensor, method: str, dtype: str | None) -> Tensor:
        precision = None if dtype is None else getattr(torch, dtype)
        pooled = covariance_pool(X.requires_grad_(), method, compute_dtype=precision)
        upstream = seen["upstream"].to(pooled.dtype).view_as(pooled)
        return torch.autograd.grad(pooled, X, upstream)[0].double()

    records: list[report.Record] = []
    for step, (images, classes) in enumerate(data.train_dataloader()):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module.model(images), classes).backward()
        exact = gradient(seen["features"].double(), "exact", None)
        for run in (EXACT, LOW, PUBLISHED):
            difference = gradient(seen["features"], *RUNS[run][:2]) - exact
            error = float(difference.norm() / exact.norm())
            method = RUNS[run][0].removesuffix("-published")
            about = {"run": run, "method": method, "step": step}
            records.append({**about, "gradient_error": error})
        optimizer.step()
    return records


def _story(curves: report.Block, groups: Sequence[report.RunGroup]) -> list[report.Block]:
    """What was found, in words that the runs decide, and next to the curves the errors of gradients."""
    by_label = {group.label: group for group in groups}
    last = {label: [*map(_final, group.runs)] for label, group in by_label.items()}
    failed = {
        label: [
            run
            for run, reached in zip(group.runs, last[EXACT], strict=True)
            if not _final(run) < (inf if label == AVERAGE else reached + FAR)
        ]
        for label, group in by_label.items()
    }

    def ended(label: str) -> str:
        if not failed[label]:
            return f"ends at {fmean(last[label]):.1f} %"
        seeds = len(last[label])
        count = f" with {len(failed[label])} of {seeds} seeds" if seeds > 1 else ""
        return f"fails{count} ({'; '.join(map(_failure, failed[label]))})"

    gain = fmean(last[AVERAGE]) - fmean(last[EXACT])
    images = report.difference_by_seed(by_label[EXACT].right, by_label[AVERAGE].right)
    reach = f" (± {images.images_reach:.1f} over other images)" if images else ""
    rescued = len(failed[PUBLISHED]) > len(failed[HYBRID])
    gradients = gradient_errors()
    errors = {run: [r["gradient_error"] for r in gradients if r["run"] == run] for run in RUNS}
    wrong = sum(not error < 1 for error in errors[PUBLISHED])
    found = {
        "Average or covariance?": f"Average pooling {ended(AVERAGE)} validation error, the exact root of "
        f"the covariance {ended(EXACT)}: {abs(gain):.1f} points {'less' if gain > 0 else 'more'}{reach}.",
        "As the paper has it.": "MPN-COV in float32, with the gradient that the paper prints, "
        f"{ended(PUBLISHED)}. After five epochs of Newton-Schulz, the hybrid protocol, it {ended(HYBRID)}"
        f"{': the start rescues it' if rescued else ''}.",
        "With exact gradients.": f"In float32 the exact root {ended(LOW)}. Newton-Schulz {ended(NEWTON)}.",
        "Why?": "For the same features, the error of the published gradient is larger than the gradient in "
        f"{wrong} of {len(errors[PUBLISHED])} steps, {median(errors[PUBLISHED]):.2g} times as large in the "
        f"median. The exact root's is {median(errors[LOW]):.2g} times in float32, where small singular "
        f"values count as zeros, and {median(errors[EXACT]):.1g} times in float64.",
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


def _failure(run: report.RunFolder) -> str:
    """How a run failed, and what it had reached before, if that was much better."""
    if run.diverged:
        return f"it diverges in epoch {run.diverged['epoch'] + 1}"
    best = min(row["val_error"] for row in run.history)
    return f"{_final(run):.1f} %" + (f", after {best:.1f} %" if best + FAR < _final(run) else "")
