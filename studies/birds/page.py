"""The page on the bird experiment: tables, which differences are more than noise, confusions, examples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import rootpool
from rootpool.machine import machine
from rootpool.report import (
    Block,
    Cell,
    Code,
    Facts,
    Heading,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Photographs,
    Picture,
    Table,
    comparison_table,
    draw_examples,
    draw_pairs,
)
from rootpool.report.plots import dots_with_spread, paired_differences
from rootpool.report.statistics import Comparison, compare, describe, verdict
from rootpool.train.data import decode_image

from .birds import IMAGE_SIZE, BirdStudy
from .study import HeadResult
from .summary import confusions, records, results_table, summary

__all__ = ["birds_page", "species", "write_reports"]

EXAMPLES = 8
BASELINE = "isqrt-cov"  # what the paper compares its methods with


def tone(result: Comparison, better: str = "lower") -> str:
    """The mark of a comparison: clearly better, clearly worse, or neither."""
    return {"better": "yes", "worse": "no"}.get(verdict(result, better), "unclear")


def tally(results: Sequence[Comparison], better: str = "lower") -> str:
    """How many of some comparisons are clear."""
    found = [tone(result, better) for result in results]
    better_in, worse_in = found.count("yes"), found.count("no")
    return f"clearly better in {better_in} of {len(found)}, clearly worse in {worse_in}"


def species(name: str) -> str:
    """The name of a class as people say it.

    >>> species("159.Black_and_white_Warbler")
    'Black and white Warbler'
    """
    return name.split(".", 1)[-1].replace("_", " ")


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


def _table(study: BirdStudy) -> Table:
    seeds = len({result.seed for result in study.results})
    return results_table(
        study.heads,
        study.results,
        f"Accuracy on {len(study.files)} images: mean and standard deviation over {seeds} seeds. "
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
            "accurate roots are about a point above Newton-Schulz (isqrt-cov) on these birds. All other "
            "methods, those that were published since included, stand side by side on the page of "
            "‘python -m studies followups’, with few-shot classification of these birds."
        ),
        _table(study),
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
    """The paper's claim, as a whole and by method: accurate roots are about a point above Newton-Schulz."""
    yield Note(f"The methods against {BASELINE}: {tally(found, 'higher')}.")
    for c in found:
        yield Note(f"{c.run}: {describe(c, better='higher')}.", tone(c, "higher"))


def _examples_table(study: BirdStudy, result: HeadResult) -> Table:
    names = [species(name) for name in study.classes]
    rows = []
    for k in _photographs(study, result).sample():
        answers = zip(result.classes[k], result.probabilities[k], strict=True)
        rows.append(
            [
                Mono(Path(study.files[k]).name),
                names[result.labels[k]],
                ", ".join(f"{names[c]} {p:.0%}" for c, p in answers),
            ]
        )
    return Table(["image", "species", "the five most probable"], rows)


def _without_photographs(study: BirdStudy, result: HeadResult) -> list[Block]:
    return [
        Paragraph(
            "Drawn at random, without looking at the answers. (The photographs belong to their photographers "
            "and are not shown here; they are on the page that the command writes.)"
        ),
        _examples_table(study, result),
    ]


def _with_photographs(study: BirdStudy, result: HeadResult) -> list[Block]:
    photographs = _photographs(study, result)
    chosen = photographs.sample()
    return [
        Paragraph(
            "Drawn at random, without looking at the answers. The photographs belong to their photographers: "
            "this page is not for publication."
        ),
        Picture.of(
            draw_examples,
            photographs,
            chosen,
            [list(zip(result.classes[k], result.probabilities[k], strict=True)) for k in chosen],
            alt="Photographs with the five most probable species of each",
        ),
    ]


def _photographs(study: BirdStudy, result: HeadResult) -> Photographs:
    return Photographs(
        lambda k: decode_image(study.files[k]),
        result.labels.tolist(),
        result.classes[:, 0].tolist(),
        [species(name) for name in study.classes],
    )


def _confused_photographs(study: BirdStudy, result: HeadResult) -> Picture:
    return Picture.of(
        draw_pairs,
        _photographs(study, result),
        alt="Pairs of species that are confused most often, with a photograph of each",
        caption="Left: a photograph that was taken for the species on the right. Right: one of that species "
        "that was recognised. First seed of the best head.",
    )


def birds_page(
    main: BirdStudy, methods: BirdStudy | None = None, *, photographs: bool = False
) -> Page:
    """The report on the main table and, if they were compared, on the methods.

    Args:
        main: the heads.
        methods: the methods, if they were compared.
        photographs: whether to show them, on a page that is not published.
    """
    best = max(summary(main.results), key=lambda row: row.mean)
    of_best = [result for result in main.results if result.head == best.head]
    minutes = sum(main.seconds.get(part, 0.0) for part in ("features", "main-test")) / 60
    page = Page(
        "Birds on a laptop",
        lead=f"Which of {len(main.classes)} species is this? Heads on the features of a frozen "
        "EfficientNet-Lite0, which was trained on ImageNet only. All on a CPU.",
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
        Code("python -m studies birds --data CUB_200_2011", "sh"),
        _table(main),
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
    rows: list[list[Cell]] = [
        [c.true, c.predicted, round(c.count, 1), c.total] for c in confusions(of_best, names)[:12]
    ]
    page.add(Heading("What is confused with what"))
    if rows:
        headers = ["species", "taken for", "test images", "of"]
        page.add(Table(headers, rows, f"Mean over {len(of_best)} seeds of the best head."))
        if photographs:
            page.add(_confused_photographs(main, of_best[0]))
    page.add(
        Heading("A few test images"),
        *(_with_photographs if photographs else _without_photographs)(main, of_best[0]),
        Heading("How this was made"),
        Paragraph(
            f"Two views of each image, {IMAGE_SIZE} pixels: the centre square, and the mirror image of "
            "the middle of it, enlarged. Features of both are computed once and kept in float16. "
            f"{_schedule(main)} Training sees one of the views at random; probabilities for test images "
            "are the mean over both. Stages, channels, lengths, rates and epochs were chosen on a fifth "
            "of the training images, held out, in some fifty trials of one seed each: ten of averages, most "
            "of the others of roots. The test images were used for these tables only."
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
    """Write ``index.html``, with photographs, and ``birds.md`` with its pictures, without, into a folder.

    The Markdown goes to ``markdown`` instead, if that is given.
    """
    target = Path(folder)
    birds_page(main, methods).write_markdown(Path(markdown or target / "birds.md"))
    return birds_page(main, methods, photographs=True).write(target / "index.html")
