"""Verdicts on claims from runs with several seeds: supported, contradicted or inconclusive.

A claim is made of questions. Each is answered from paired comparisons over seeds, with Holm's correction
over the comparisons of the question, and a difference counts only if it is significant after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

from rootpool.report.records import Record
from rootpool.report.statistics import (
    Comparison,
    PairedDifference,
    compare,
    detectable_difference,
)

from .published import Source
from .questions import Judge, Question
from .result import Result, Verdict, together, verdict_of

__all__ = [
    "Answer",
    "answer",
    "answers_beside",
    "ask",
    "ask_any",
    "comparison_records",
    "conclude",
    "count",
    "is_better",
    "is_equal",
    "is_level",
    "what_seeds_tell",
]

Side: TypeAlias = Literal["worse", "better", "either"]
AVERAGE = "gap"
SMALL = 0.3  # points: the size of the differences that the paper reports


@dataclass(frozen=True)
class Answer:
    """The answer to one question of a claim."""

    text: str
    verdict: Verdict


# --------------------------------------------------------------------------------------------------
# Judges of comparisons; a lower value is better


def is_better(comparisons: Iterable[Comparison]) -> Verdict:
    """Whether the first of each pair has the lower value, clearly."""
    return together(verdict_of(c.difference.mean < 0 if c.clear else None) for c in comparisons)


# How far an interval reaches to the side that a question is about.
REACH: dict[Side, Callable[[float, float], float]] = {
    "worse": lambda low, high: high,
    "better": lambda low, high: -low,
    "either": lambda low, high: max(-low, high),
}


def is_level(
    comparisons: Iterable[Comparison], margin: float = 1.0, side: Side = "worse"
) -> Verdict:
    """Whether no interval reaches beyond the margin on a side.

    A clear difference whose mean is beyond the margin contradicts it.
    """
    reach = REACH[side]

    def one(c: Comparison) -> bool | None:
        d = c.difference
        if d.low is None or d.high is None:
            return True if is_equal(c) else None
        if reach(d.low, d.high) <= margin:
            return True
        return False if c.clear and reach(d.mean, d.mean) > margin else None

    return together(verdict_of(one(c)) for c in comparisons)


JUDGES: dict[Judge, Callable[[Sequence[Comparison], float], Verdict]] = {
    "better": lambda comparisons, margin: is_better(comparisons),
    "level": lambda comparisons, margin: is_level(comparisons, margin, "worse"),
    "same": lambda comparisons, margin: is_level(comparisons, margin, "either"),
    "gain": lambda comparisons, margin: is_level(comparisons, margin, "better"),
}


def is_equal(comparison: Comparison) -> bool:
    """Whether several seeds gave exactly the same on both sides."""
    d = comparison.difference
    return d.low is None and d.n > 1 and d.mean == 0


def count(comparisons: Sequence[Comparison]) -> str:
    """How many of the comparisons are clear, and to which side.

    >>> rows = [
    ...     {"run": r, "seed": s, "val_error": v} for r, v in (("a", 1.0), ("b", 2.0)) for s in (0,)
    ... ]
    >>> count(compare(rows, [("a", "b")]))
    'clearly better in 0 of 1 comparisons, clearly worse in 0, within noise in the rest'
    """
    better = sum(c.clear and c.difference.mean < 0 for c in comparisons)
    worse = sum(c.clear and c.difference.mean > 0 for c in comparisons)
    equal = sum(map(is_equal, comparisons))
    alike = f"equal to the last image in {equal}, " if equal else ""
    return (
        f"clearly better in {better} of {len(comparisons)} comparisons, clearly worse in {worse}, "
        f"{alike}within noise in the rest"
    )


# --------------------------------------------------------------------------------------------------
# Questions


def ask(question: Question, source: Source, rows: Sequence[Mapping[str, Any]]) -> list[Comparison]:
    """The comparisons of a question over the methods of its source, corrected for their number."""
    return compare(rows, question.pairs(rows, source.members), question.value)


def ask_any(question: Question, rows: Sequence[Mapping[str, Any]]) -> list[Comparison]:
    """The comparisons of a question over all methods that were trained; it names no groups of the paper."""
    return compare(rows, question.pairs(rows, lambda name: [name]), question.value)


def answer(question: Question, comparisons: Sequence[Comparison]) -> Answer:
    """What the comparisons of a question say about it."""
    judge = JUDGES[question.judge]
    return Answer(
        f"{question.text} Here: {count(comparisons)}.", judge(comparisons, question.margin)
    )


def _beside(
    question: Question, source: Source, rows: Sequence[Mapping[str, Any]]
) -> list[Comparison]:
    """The same question about methods that the source does not have; they enter no verdict."""
    others = list(dict.fromkeys(row["method"] for row in rows))
    others = [m for m in others if m not in (*source.trained, AVERAGE)]

    def members(name: str) -> list[str]:
        return [name] if name in source.trained else others

    named = [q.get("method") for q in (question.first, *question.against)]
    if all(name is None or name in source.trained for name in named):
        return []  # the question is about certain methods, not about a group
    return compare(rows, question.pairs(rows, members), question.value)


def comparison_records(source: Source, rows: Sequence[Mapping[str, Any]]) -> list[Record]:
    """One record for each comparison of each question, with the tags of its first run.

    ``judged`` is false for methods that the source does not have.
    """
    tags = {row["run"]: row for row in rows}
    asked = [
        (question, judged, found)
        for question in source.questions
        for judged, found in (
            (True, ask(question, source, rows)),
            (False, _beside(question, source, rows)),
        )
    ]
    asked += [(question, False, ask_any(question, rows)) for question in source.beside]
    return [
        {
            **c.record(),
            "method": tags[c.run]["method"],
            "protocol": tags[c.run]["protocol"],
            "question": question.text,
            "comparisons": c.comparisons,
            "judged": judged,
        }
        for question, judged, found in asked
        for c in found
    ]


def resolution(source: Source, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What differences the seeds of a source can tell from zero, as a setting to be shown."""
    compared = [c.difference for q in source.questions for c in ask(q, source, rows)]
    told = what_seeds_tell(compared)
    return {} if told is None else {"what the seeds can tell": told}


def what_seeds_tell(compared: Sequence[PairedDifference]) -> str | None:
    """The differences that the seeds of some comparisons can tell from zero; None if there is no spread."""
    spreads = [d.spread for d in compared if d.spread is not None]
    if not spreads:
        return None
    typical, n = median(spreads), max(d.n for d in compared)
    return (
        f"differences of {detectable_difference(typical, n):.2f} points (80 % power, median over the "
        f"comparisons); {SMALL:g} points would take {seeds_needed(typical, SMALL)} seeds"
    )


def seeds_needed(spread: float, difference: float, power: float = 0.8) -> int:
    """The number of pairs that tell a difference of this size from zero.

    >>> seeds_needed(0.5, 0.3)
    24
    """
    n = 2
    while detectable_difference(spread, n, power) > difference:
        n += 1
    return n


def answers_from_runs(source: Source, rows: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """The answers to all questions for which there are runs."""
    found = ((question, ask(question, source, rows)) for question in source.questions)
    return [answer(question, comparisons) for question, comparisons in found if comparisons]


def answers_beside(source: Source, rows: Sequence[Mapping[str, Any]]) -> list[Record]:
    """The answers to our own questions, as records."""
    found = ((question, ask_any(question, rows)) for question in source.beside)
    return [{"text": answer(q, comparisons).text} for q, comparisons in found if comparisons]


def conclude(
    source: Source,
    answers: Sequence[Answer],
    records: Iterable[Record],
    settings: Record,
    **series: Iterable[Record],
) -> Result:
    """The result of an entry whose claim is made of questions."""
    given: list[Record] = [{"text": a.text, "verdict": a.verdict} for a in answers]
    return Result(
        source.entry,
        source.claim,
        tuple(records),
        together(a.verdict for a in answers),
        " ".join(a.text for a in answers),
        settings,
        {"answers": tuple(given), **{name: tuple(found) for name, found in series.items()}},
    )
