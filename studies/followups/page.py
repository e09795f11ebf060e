"""The page on what was published since: each claim with its verdicts, then all that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import rootpool
from rootpool.machine import machine
from rootpool.report import (
    Block,
    Cell,
    Code,
    Details,
    Facts,
    Heading,
    Note,
    Number,
    Page,
    Paragraph,
    Picture,
    Strong,
    Table,
    comparison_table,
)
from rootpool.report.plots import dots_with_spread
from studies.birds.birds import BirdStudy
from studies.birds.summary import records, results_table
from studies.followups.few_shot import FewShotResult
from studies.followups.few_shot_page import few_shot_blocks, few_shot_rows
from studies.paper.recorded import NETWORKS
from studies.paper.report import MARKS, TONES
from studies.paper.result import together
from studies.paper.rows import Row

from .follow_ups import FollowUp, Judged, Setting, judge, load_follow_ups

__all__ = ["followups_page"]

UNITS = {"log_condition": " (For points read decimal logarithms.)"}


def followups_page(
    miniatures: Mapping[str, Sequence[Row]],
    birds: BirdStudy | None = None,
    few: Sequence[FewShotResult] | None = None,
    command: str = "python -m studies followups",
) -> Page:
    """The page.

    Args:
        miniatures: rows of trainings by family of recipes.
        birds: heads on frozen features.
        few: episodes.
        command: that makes the page.
    """
    page = Page(
        "What the field built since the paper",
        lead="Methods that were published after the paper, written from their formulas and tried on what a "
        "laptop has. Their claims are judged by the rules of the paper's own: paired over seeds, with Holm's "
        "correction, and inconclusive where the differences are not clear.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    # Each place by name: the key of its questions, and its rows.
    places: dict[str, tuple[Setting, Sequence[Row]]] = {
        f"miniature, {NETWORKS.get(family, family)}": ("miniature", rows)
        for family, rows in miniatures.items()
    }
    if birds is not None:
        places["birds"] = ("birds", _bird_rows(birds))
    if few is not None:
        places["few shots"] = ("few-shot", few_shot_rows(few))
    claims = load_follow_ups().claims.values()
    judged = {
        claim.id: {place: judge(claim, key, rows) for place, (key, rows) in places.items()}
        for claim in claims
    }
    page.add(Code(command, "sh"), _overview(judged, list(places)))
    for claim in claims:
        if any(judged[claim.id].values()):
            page.add(*_claim(claim, judged[claim.id]))
    for family, rows in miniatures.items():
        page.add(*_miniature(family, rows))
    if birds is not None:
        page.add(*_birds(birds))
    if few is not None:
        page.add(Heading("Few shots of birds"), *few_shot_blocks(few))
    page.add(Heading("Where this was run"), Facts({k: str(v) for k, v in machine().items()}))
    return page


def _bird_rows(study: BirdStudy) -> list[Row]:
    return [
        {"run": r.head, "method": r.head, "seed": r.seed, "val_error": 100 - r.accuracy}
        for r in study.results
    ]


# --------------------------------------------------------------------------------------------------
# Claims


def _overview(judged: Mapping[str, Mapping[str, Sequence[Judged]]], places: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    for claim in load_follow_ups().claims.values():
        verdicts = [_word(judged[claim.id][place]) for place in places]
        rows.append([claim.title, claim.claim, *verdicts])
    return Table(
        ["", "claim", *places],
        rows,
        "The claims, and whether they show here. –: it is not asked there, or nothing was trained for it.",
    )


def _word(found: Sequence[Judged]) -> str:
    if not found:
        return MARKS["not measured"]
    word = together(j.answer.verdict for j in found)
    return f"{MARKS[word]} {word}"


def _claim(claim: FollowUp, judged: Mapping[str, Sequence[Judged]]) -> list[Block]:
    blocks: list[Block] = [
        Heading(claim.title),
        Paragraph((Strong("The paper:"), f" {claim.claim} ({claim.section})")),
        Paragraph((Strong("Published:"), f" {claim.published}")),
        Paragraph((Strong("What differs here:"), f" {claim.differs}")),
    ]
    tables: list[Block] = []
    for place, found in judged.items():
        for j in found:
            blocks.append(Note(f"{place.capitalize()}: {j.answer.text}", TONES[j.answer.verdict]))
            caption = f"{place.capitalize()}: {j.question.text}{UNITS.get(j.question.value, '')}"
            if "few" in place:
                caption += " (For seeds read episodes.)"
            tables.append(comparison_table(j.comparisons, caption=caption))
    return [*blocks, Details("All comparisons", tables)]


# --------------------------------------------------------------------------------------------------
# Measurements


def _miniature(family: str, rows: Sequence[Row]) -> list[Block]:
    seeds = len({row["seed"] for row in rows})
    cells: list[list[Cell]] = []
    for run in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == run]
        diverged = sum(bool(row["diverged"]) for row in own)
        conditions = [r["log_condition"] for r in own if r["log_condition"] is not None]
        cells.append(
            [
                run,
                _mean([row["val_error"] for row in own]),
                _mean([row["train_error"] for row in own]),
                _mean(conditions) if conditions else None,
                diverged,
            ]
        )
    headers = ["run", "error, %", "training error, %", "log10 of the condition", "diverged"]
    return [
        Heading(f"In miniature, {NETWORKS.get(family, family)}"),
        Table(
            headers,
            cells,
            f"The recipes {family}-*, {seeds} seeds, mean and standard deviation: errors after the last "
            "epoch, and the condition of the covariances in it, of the eigenvalues above rounding.",
            best={"error, %": "lowest"},
        ),
        Picture.of(dots_with_spread, list(rows), alt=f"Error of each run and seed, {family}"),
    ]


def _mean(values: Sequence[float]) -> Number:
    return Number(fmean(values), stdev(values) if len(values) > 1 else None)


def _birds(study: BirdStudy) -> list[Block]:
    seeds = len({result.seed for result in study.results})
    counted = "one seed" if seeds == 1 else f"{seeds} seeds"
    return [
        Heading("All methods on the birds"),
        Paragraph(
            "The head ‘root’ of the bird experiment with each method in its place, and nothing else changed: "
            "its settings were chosen for the root, on a held-out fifth of the training images. Vectors are "
            "brought to the same length, so that a factor per image, such as that of SEB, makes no "
            "difference. isqrt-cov is computed as newton-fused, which is the same up to rounding."
        ),
        results_table(
            study.heads,
            study.results,
            f"Accuracy on {len(study.files)} images, {counted}: mean and standard deviation over seeds. "
            "Differences are paired, by seed and by image, with half of their 95 % interval.",
            interval=True,
        ),
        Picture.of(
            dots_with_spread,
            [{**row, "method": row["run"]} for row in records(study.results)],
            value="accuracy",
            label="accuracy, %",
            alt="Accuracy of each method and seed",
        ),
    ]
