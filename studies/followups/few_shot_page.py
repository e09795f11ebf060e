"""Few-shot classification of birds as blocks of a page: a table beside the published one, and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from rootpool.report import Block, Cell, Number, Paragraph, Picture, Strong, Table
from rootpool.report.plots import paired_differences
from rootpool.report.statistics import compare

from .few_shot import CLASSIFIERS, PENALTIES, QUERIES, SHOTS, WAYS, FewShotResult

__all__ = ["few_shot_blocks", "few_shot_rows"]

BASELINE = "average"
# As printed by DeepBDC (Xie et al. 2022) for CUB: by classifier, in the order of SHOTS.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "ProtoNet (average)": {CLASSIFIERS[0]: (80.90, 89.81)},
    "Good-Embed (average)": {CLASSIFIERS[1]: (77.92, 89.94)},
    "Meta DeepBDC (Brownian)": {CLASSIFIERS[0]: (83.55, 93.82)},
    "STL DeepBDC (Brownian)": {CLASSIFIERS[1]: (84.01, 94.02)},
}


def few_shot_rows(results: Sequence[FewShotResult]) -> list[dict[str, object]]:
    """One row per result and episode; errors, so that a lower value is better."""
    return [
        {
            "run": _name(result),
            "method": result.head,
            "classifier": result.classifier,
            "shots": result.shots,
            "seed": episode,
            "val_error": 100 - accuracy,
        }
        for result in results
        for episode, accuracy in enumerate(result.accuracies)
    ]


def _name(result: FewShotResult) -> str:
    return f"{result.head}, {result.classifier}, {result.shots} shot{'s' * (result.shots > 1)}"


def few_shot_blocks(results: Sequence[FewShotResult]) -> list[Block]:
    """What was done, the table, and how far each description is from the average."""
    episodes = len(results[0].accuracies)
    return [
        Paragraph(
            f"{episodes} episodes of {WAYS} species each, drawn from those whose number is divisible by 4 "
            "(50 of CUB), as in Chen et al. (2019) and DeepBDC. Each species has 1 or 5 labelled photographs "
            f"and {QUERIES} to name. All photographs of these species take part, from the training list and "
            "the test list. Vectors are pooled from the frozen features of the centre square and have "
            "length 1. Nearest means learn nothing. The logistic regression has free biases and one "
            f"penalty, C of {', '.join(f'{C:g}' for C in PENALTIES)}, chosen by episodes of the species "
            "2, 6, 10 and so on."
        ),
        _table(results, episodes),
        *(_picture(results, shots) for shots in SHOTS),
    ]


def _table(results: Sequence[FewShotResult], episodes: int) -> Table:
    columns = [(classifier, shots) for classifier in CLASSIFIERS for shots in SHOTS]
    found = {(r.head, r.classifier, r.shots): r for r in results}
    rows: list[list[Cell]] = []
    for head in dict.fromkeys(r.head for r in results):
        own = [found.get((head, *column)) for column in columns]
        size = next(r.size for r in own if r is not None)
        rows.append(
            [Strong("here"), head, size, *(None if r is None else _accuracy(r) for r in own)]
        )
    for name, printed in PUBLISHED.items():
        cells = (printed[c][SHOTS.index(s)] if c in printed else None for c, s in columns)
        rows.append(["published", name, None, *(None if v is None else Number(v) for v in cells)])
    headers = [f"{c}, {s} shot{'s' * (s > 1)}, %" for c, s in columns]
    return Table(
        ["", "description", "numbers per image", *headers],
        rows,
        f"Accuracy over {episodes} episodes, mean and 95 % interval of the mean over episodes of these "
        "species. The published numbers are of a ResNet-18 that was trained on the other species of CUB, "
        "with the description in it; ours is an EfficientNet-Lite0 that was trained on ImageNet, which "
        "has birds, and is frozen. Rows of one kind can be compared, and not those of different kinds.",
    )


def _accuracy(result: FewShotResult) -> Number:
    values = result.accuracies
    return Number(fmean(values), 1.96 * stdev(values) / math.sqrt(len(values)))


def _picture(results: Sequence[FewShotResult], shots: int) -> Picture:
    own = [r for r in results if r.shots == shots]
    rows = [
        {"run": _name(r), "seed": k, "accuracy": value}
        for r in own
        for k, value in enumerate(r.accuracies)
    ]
    baselines = {r.classifier: _name(r) for r in own if r.head == BASELINE}
    pairs = [(_name(r), baselines[r.classifier]) for r in own if r.head != BASELINE]
    named = {_name(r): r for r in own}
    found = []
    for c in compare(rows, pairs, "accuracy"):
        r = named[c.run]
        found.append({**c.record(), "label": f"{r.head}, {r.classifier}", "method": r.head})
    points = f"points, {shots} shot{'s' * (shots > 1)} (right of zero: better)"
    label = f"accuracy against the {BASELINE}, {points}"
    return Picture.of(
        paired_differences,
        found,
        label=label,
        alt=f"Differences to the average with {shots} labelled images of each species",
        caption="Paired by episode, with 95 % intervals.",
    )
