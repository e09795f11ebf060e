"""The page of the demo: what was compared, what came out, and what of it is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import rootpool
from rootpool.analysis.statistics import Comparison, compare
from rootpool.analysis.timing import machine
from rootpool.report import (
    Code,
    Facts,
    Heading,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Picture,
    Table,
    comparison_table,
)
from rootpool.report.plots import (
    dots_with_spread,
    learning_curve_panels,
    learning_curves,
    paired_differences,
    spectrum_over_training,
)
from rootpool.train.recipes import load_recipe

__all__ = ["comparisons", "demo_page", "final_errors"]

Result = dict[str, Any]
RECIPE = "patches-exact-hybrid"  # the others of its family differ in method and protocol alone
CROWDED = 6  # methods; from here on each gets a panel of its own

# The questions, and what the paper says.
AVERAGE = "Does covariance pooling beat average pooling?"
HYBRID = "Does the hybrid protocol beat standalone training?"
STANDALONE = "Does an accurate root beat Newton-Schulz, standalone?"
AFTERWARDS = "And with the hybrid protocol?"
CLAIMS = {
    AVERAGE: "yes, for every method",
    HYBRID: "yes, for every SVD method",
    STANDALONE: "no, iSQRT-COV has the lower error (with AlexNet; with ResNets SVD-Pade is ahead)",
    AFTERWARDS: "the SVD methods come level with iSQRT-COV, and SVD-Pade passes it",
}


def _identity(result: Result) -> dict[str, Any]:
    """What tells a run from the others."""
    return {"run": result["label"], **{key: result[key] for key in ("method", "protocol", "seed")}}


def _records(results: Sequence[Result], part: str) -> list[dict[str, Any]]:
    """The records of all runs."""
    return [_identity(result) | record for result in results for record in result[part]]


def final_errors(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One record a run: errors after the last epoch, and the best over all epochs."""
    rows = []
    for result in results:
        errors = [epoch["val_error"] for epoch in result["curves"]]
        rows.append(
            {
                **_identity(result),
                "val_error": errors[-1],
                "best_error": min(errors),
                "train_error": result["curves"][-1]["train_error"],
            }
        )
    return rows


def comparisons(rows: Sequence[dict[str, Any]]) -> dict[str, list[Comparison]]:
    """The paper's questions as paired comparisons over seeds, by question; lower is better."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    hybrids = [run for run in runs if run.endswith(", hybrid")]
    alone = [run for run in runs if run not in hybrids]
    questions = {
        AVERAGE: [(run, "gap") for run in alone if run != "gap" and "gap" in runs],
        HYBRID: [(run, run.removesuffix(", hybrid")) for run in hybrids],
        STANDALONE: [
            (run, "isqrt-cov")
            for run in alone
            if run not in ("gap", "isqrt-cov") and "isqrt-cov" in runs
        ],
        AFTERWARDS: [(run, "isqrt-cov") for run in hybrids if "isqrt-cov" in runs],
    }
    return {question: compare(rows, pairs) for question, pairs in questions.items() if pairs}


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    def cell(values: Sequence[float]) -> Number:
        return Number(fmean(values), stdev(values) if len(values) > 1 else None, ".1f")

    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    ordered = sorted(grouped.items(), key=lambda item: fmean(row["val_error"] for row in item[1]))
    keys = ("val_error", "best_error", "train_error")
    return Table(
        ["run", "final error, %", "best error, %", "training error, %"],
        [[run, *(cell([row[key] for row in group]) for key in keys)] for run, group in ordered],
        best={"final error, %": "lowest", "best error, %": "lowest"},
        caption="Validation error after the last epoch and at its best, with the standard deviation over "
        "seeds where there are several. A hybrid run shares its first stage with the others of its seed.",
    )


def _answers(page: Page, rows: Sequence[dict[str, Any]]) -> None:
    seeds = len({row["seed"] for row in rows})
    page.add(Heading("What shows, and what does not"))
    if seeds < 2:
        page.add(
            Note(
                "One seed: nothing is known of the spread, and differences of a few points are what "
                "another seed gives too. Five seeds answer the questions of the paper:",
                tone="unclear",
            ),
            Code("rootpool demo --seeds 5"),
        )
    for question, found in comparisons(rows).items():
        page.add(Heading(question, level=3))
        better = sum(c.clear and c.difference.mean < 0 for c in found)
        worse = sum(c.clear and c.difference.mean > 0 for c in found)
        page.add(
            Paragraph(
                f"The paper: {CLAIMS[question]}. Here {better} of {len(found)} differences are for the "
                f"better and {worse} for the worse beyond noise; the others are within it."
            ),
            comparison_table(found),
        )
        if seeds > 1:
            page.add(
                Picture.of(
                    paired_differences,
                    [{**c.record(), "method": c.run.removesuffix(", hybrid")} for c in found],
                    label="difference in validation error, points (left of zero: better)",
                    alt=f"Differences with confidence intervals: {question}",
                )
            )


def _spectra(page: Page, results: Sequence[Result]) -> None:
    spectrum = [r for r in _records(results, "spectrum") if r["protocol"] == "standalone"]
    if not spectrum:
        return
    page.add(
        Heading("Covariances during training"),
        Paragraph(
            "With 49 positions and 64 channels the smallest eigenvalues are zeros that the paper's methods "
            "raise to the precision of the numbers. Their condition number is then no more than the largest "
            "eigenvalue over that constant; the rank and the smallest eigenvalue above round-off, which are "
            "in results.json, say more."
        ),
        Picture.of(
            spectrum_over_training,
            spectrum,
            value="condition_mean",
            alt="Mean condition number of the covariances over the steps of training, one line a run",
            caption="Condition number (eigenvalues raised to eps), mean over a batch.",
        ),
        Picture.of(
            spectrum_over_training,
            spectrum,
            value="eigenvalue_ratio",
            alt="Ratio of the two largest eigenvalues over the steps of training, one line a run",
            caption="Ratio of the first two eigenvalues. Power iteration, and the Taylor series near a ratio "
            "of one, need it to be large.",
        ),
    )


def demo_page(results: Sequence[Result]) -> Page:
    """The report on the results of the demo's runs."""
    rows = final_errors(results)
    methods = {row["method"] for row in rows}
    seeds = len({row["seed"] for row in rows})
    page = Page(
        "Covariance pooling on photo-patches",
        lead="Which of 18 photographs is this patch from? A small network with the pooling methods of "
        "the paper, each trained from scratch, and each after a first stage of Newton-Schulz.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    best = min(rows, key=lambda row: row["val_error"])
    config = load_recipe(RECIPE).config
    page.add(
        Facts(
            {
                "runs": str(len(rows)),
                "seeds": str(seeds),
                "lowest final error": f"{best['val_error']:.1f} % ({best['run']})",
            }
        ),
        _table(rows),
        Picture.of(
            learning_curve_panels if len(methods) >= CROWDED else learning_curves,
            _records(results, "curves"),
            switch_epoch=config["hybrid"]["switch_epoch"],
            decay_epochs=config["model"]["milestones"],
            alt="Validation error over the epochs, one line a run; the switch of the hybrid runs is marked",
            caption="Validation error. Dashed: hybrid runs, which leave Newton-Schulz at the switch.",
        ),
        Picture.of(
            dots_with_spread,
            rows,
            alt="Final validation error of each run and seed",
            caption="Final validation error of each seed.",
        ),
    )
    _answers(page, rows)
    _spectra(page, results)
    page.add(
        Heading("How this was made"),
        Paragraph((_setting(config), Mono("rootpool train --recipe patches-exact --show"), ".")),
        Facts({key: str(value) for key, value in machine().items()}),
    )
    return page


def _setting(config: dict[str, Any]) -> str:
    model, hybrid = config["model"], config["hybrid"]
    return (
        "Grey patches of 28 pixels from the photographs inside scikit-image and scikit-learn, 2016 for "
        "training and 1800 from other parts of the pictures for validation; three convolutions, 64 channels "
        f"at 7 x 7 positions; SGD with rate {model['lr']}, momentum {model['momentum']} and weight decay "
        f"{model['weight_decay']}, batches of {config['data']['batch_size']}, "
        f"{config['trainer']['max_epochs']} epochs, rate divided by ten at "
        f"{' and '.join(map(str, model['milestones']))}, switch at {hybrid['switch_epoch']}. SVD-TopN keeps "
        "50 of 64 eigenvalues, as the paper keeps 200 of 256; with 49 positions no more than 48 are not "
        "zero, so that it drops nothing here. All of it: "
    )
