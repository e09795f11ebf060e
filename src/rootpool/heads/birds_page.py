"""The page on the bird experiment: tables, what of them is more than noise, confusions, examples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import rootpool
from rootpool.analysis.statistics import Comparison, compare, describe
from rootpool.analysis.timing import machine
from rootpool.report import (
    Cell,
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
from rootpool.report.plots import confusion_pairs, dots_with_spread, paired_differences
from rootpool.train.data import decode_image

from .birds import IMAGE_SIZE, BirdStudy, run
from .head import Branch
from .study import HeadResult
from .summary import confusions, records, summary

__all__ = ["birds_page", "draw_examples", "experiment", "species", "write_reports"]

EXAMPLES = 8
BASELINE = "isqrt-cov"  # what the paper compares its methods with


def species(name: str) -> str:
    """The name of a class as one says it.

    >>> species("159.Black_and_white_Warbler")
    'Black and white Warbler'
    """
    return name.split(".", 1)[-1].replace("_", " ")


def _describe(branch: Branch) -> str:
    parts = [branch.stage, branch.method]
    if branch.reduction is not None:
        parts.insert(1, f"1x1 to {branch.reduction}")
    if branch.power != 1:
        parts.append(f"power {branch.power:g}")
    return ", ".join([*parts, f"length {branch.length:g}"])


def _schedule(study: BirdStudy) -> str:
    """How the heads are trained, in a sentence."""
    schedules = {head.schedule for head in study.heads.values()}
    epochs = " or ".join(str(count) for count in sorted({s.epochs for s in schedules}))
    s = min(schedules, key=lambda s: s.epochs)
    return (
        f"SGD, {epochs} epochs, batches of {s.batch_size}, rates {s.classifier_rate:g} (classifier) and "
        f"{s.reduction_rate:g} (convolutions) that fall along a cosine, Nesterov momentum {s.momentum:g}, "
        f"weight decay {s.weight_decay:g}."
    )


def _results_table(study: BirdStudy) -> Table:
    rows: list[list[Cell]] = []
    for row in summary(study.results):
        d = row.difference
        difference = None if d is None else Number(d.difference, d.error, "+.2f")
        branches = " + ".join(_describe(branch) for branch in study.heads[row.head].branches)
        rows.append(
            [
                row.head,
                Number(row.mean, row.spread),
                Number(row.accuracy5),
                difference,
                Number(row.seconds, form=".0f"),
                branches,
            ]
        )
    first = next(iter(study.heads))
    seeds = len({result.seed for result in study.results})
    return Table(
        ["head", "top-1, %", "top-5, %", f"against {first}", "core s a seed", "branches"],
        rows,
        best={"top-1, %": "highest", "top-5, %": "highest"},
        caption=f"Accuracy on {len(study.files)} images: mean and standard deviation over {seeds} seeds. "
        "Differences are paired, by seed and by image, with their standard error over both.",
    )


def _methods(page: Page, study: BirdStudy) -> list[Comparison]:
    rows = [{**row, "method": row["run"]} for row in records(study.results)]
    pairs = [(method, BASELINE) for method in study.heads if method != BASELINE]
    found = compare(rows, pairs, "accuracy")
    page.add(
        Heading("Which of the paper's methods"),
        Paragraph(
            "The same head with each method in its place: seeds, order and views are the same, and only "
            "the root and its gradient differ. In the paper, on a ResNet-50 fine-tuned as a whole, the "
            "accurate roots are about a point above Newton-Schulz (isqrt-cov) on these birds."
        ),
        _results_table(study),
        Picture.of(
            dots_with_spread,
            rows,
            value="accuracy",
            label="accuracy, %",
            alt="Accuracy of each method and seed",
        ),
        comparison_table(found, better="higher"),
        Picture.of(
            paired_differences,
            [{**c.record(), "method": c.run} for c in found if c.difference.low is not None],
            label=f"difference in accuracy to {BASELINE}, points (right of zero: better)",
            alt=f"Differences of all methods to {BASELINE} with confidence intervals",
        ),
        *_verdicts(found),
    )
    return found


def _verdicts(found: Sequence[Comparison]) -> Iterable[Note]:
    """The paper's claim, as a whole and by method: accurate roots above Newton-Schulz by a point."""
    above = sum(c.clear and c.difference.mean > 0 for c in found)
    below = sum(c.clear and c.difference.mean < 0 for c in found)
    yield Note(
        f"Of {len(found)} methods {above} are clearly above {BASELINE}, {below} clearly below, the others "
        f"within noise: the paper's ordering {'shows' if above > below else 'does not show'} here.",
        tone="yes" if above > below else "no",
    )
    for comparison in found:
        tone = (
            "unclear" if not comparison.clear else "yes" if comparison.difference.mean > 0 else "no"
        )
        yield Note(f"{comparison.run}: {describe(comparison, better='higher')}.", tone=tone)  # type: ignore[arg-type]


def _pick(result: HeadResult, count: int = EXAMPLES) -> list[int]:
    """Images from all over the test set, whatever the answers."""
    generator = np.random.default_rng(0)
    return sorted(
        generator.choice(len(result.labels), min(count, len(result.labels)), False).tolist()
    )


def _examples_table(study: BirdStudy, result: HeadResult) -> Table:
    names = [species(name) for name in study.classes]
    rows = []
    for k in _pick(result):
        answers = zip(result.classes[k], result.probabilities[k], strict=True)
        rows.append(
            [
                Mono(Path(study.files[k]).name),
                names[result.labels[k]],
                ", ".join(f"{names[c]} {p:.0%}" for c, p in answers),
            ]
        )
    return Table(["image", "species", "the five most probable"], rows)


def draw_examples(study: BirdStudy, result: HeadResult) -> Figure:
    """Photographs with the five most probable species below, for looking at and not for sharing."""
    chosen = _pick(result)
    figure = Figure(figsize=(12, 3.6 * -(-len(chosen) // 4)), layout="constrained")
    for axes, k in zip(
        figure.subplots(-(-len(chosen) // 4), 4, squeeze=False).flat, chosen, strict=False
    ):
        axes.imshow(np.asarray(decode_image(study.files[k])))
        answers = [
            f"{'▸ ' if c == result.labels[k] else ''}{species(study.classes[c])} {p:.0%}"
            for c, p in zip(result.classes[k], result.probabilities[k], strict=True)
        ]
        plain = {"parse_math": False}  # names may hold dollar signs
        axes.set_title(
            species(study.classes[result.labels[k]]), fontsize=10, weight="bold", **plain
        )
        axes.set_xlabel("\n".join(answers), fontsize=8, **plain)
        axes.set(xticks=[], yticks=[])
    return figure


def birds_page(main: BirdStudy, methods: BirdStudy | None = None) -> Page:
    """The report on the main table and, where it was run, on the methods."""
    best = max(summary(main.results), key=lambda row: row.mean)
    of_best = [result for result in main.results if result.head == best.head]
    minutes = sum(main.seconds.get(part, 0.0) for part in ("features", "main-test")) / 60
    page = Page(
        "Birds on a laptop",
        lead=f"Which of {len(main.classes)} species is this? A frozen EfficientNet-Lite0 that has seen "
        "ImageNet alone, and heads trained on its features, on a CPU.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    page.add(
        Facts(
            {
                "best head": best.head,
                "its accuracy": Number(best.mean, best.spread, unit="%"),
                **({"from images to this table": f"{minutes:.1f} minutes"} if minutes else {}),
            }
        ),
        Code("rootpool train --recipe birds-cpu --data CUB_200_2011", "sh"),
        _results_table(main),
        Picture.of(
            dots_with_spread,
            [{**row, "method": row["run"]} for row in records(main.results)],
            value="accuracy",
            label="accuracy, %",
            alt="Accuracy of each head and seed",
        ),
    )
    if methods is not None:
        _methods(page, methods)
    names = [species(name) for name in main.classes]
    rows = [
        {"true": c.true, "predicted": c.predicted, "count": round(c.count, 1), "total": c.total}
        for c in confusions(of_best, names)
    ]
    page.add(Heading("What is confused with what"))
    if rows:
        page.add(
            Picture.of(
                confusion_pairs,
                rows,
                alt="The pairs of species that are confused most often",
                caption=f"Test images, mean over {len(of_best)} seeds of the best head.",
            )
        )
    page.add(
        Heading("A few test images"),
        Paragraph(
            "Drawn at random, whatever the answers. (The photographs belong to their photographers and "
            "are not shown here; the command puts them beside its results, in examples.png.)"
        ),
        _examples_table(main, of_best[0]),
        Heading("How this was made"),
        Paragraph(
            f"Two views of each image, {IMAGE_SIZE} pixels: the centre square, and the mirror image of "
            "the middle of it, enlarged. Features of both are computed once and kept in float16. "
            f"{_schedule(main)} Training sees one of the views at random; probabilities for test images "
            "are the mean over both. Stages, channels, lengths, rates and epochs were chosen on a fifth "
            "of the training images, held out, in some fifty trials of one seed each: ten of averages, most "
            "of the others of roots. The test images were used for these tables alone."
        ),
        Facts({key: str(value) for key, value in machine().items()}),
    )
    return page


def write_reports(
    folder: str | os.PathLike[str],
    main: BirdStudy,
    methods: BirdStudy | None = None,
    markdown: str | os.PathLike[str] | None = None,
) -> Path:
    """Write ``index.html``, ``birds.md`` with its pictures, and ``examples.png`` into a folder.

    The Markdown goes to ``markdown`` instead, if that is given.
    """
    page = birds_page(main, methods)
    best = max(summary(main.results), key=lambda row: row.mean)
    result = next(result for result in main.results if result.head == best.head)
    target = Path(folder)
    draw_examples(main, result).savefig(target / "examples.png", dpi=80)
    page.write_markdown(Path(markdown or target / "birds.md"))
    return page.write(target / "index.html")


def experiment(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    methods: bool = False,
    seeds: int = 5,
    workers: int | None = None,
    markdown: str | None = None,
    progress: bool = True,
) -> Path:
    """Run the main table, on demand the table of the methods, and write the page on them.

    Args:
        data: the folder of the data set.
        output: gets everything; what is finished there is not done again.
        methods: whether to compare all methods too, which takes longer than the rest.
        seeds: how many.
        workers: processes at a time; None for one a core.
        markdown: where else than in the output to put the Markdown report.
        progress: whether to show what is going on.
    """
    main = run(data, output, seeds=seeds, workers=workers, progress=progress)
    page = write_reports(output, main, markdown=markdown)
    if methods:
        compared = run(
            data, output, table="methods", seeds=seeds, workers=workers, progress=progress
        )
        page = write_reports(output, main, compared, markdown)
    return page
