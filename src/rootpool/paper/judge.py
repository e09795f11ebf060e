"""Whether claims show: yes, no, or nobody can tell from so few runs.

A claim is made of questions. Each is answered from paired comparisons over seeds, with Holm's correction
over the comparisons of the question, and a difference counts only if it is significant after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rootpool.analysis import Record
from rootpool.analysis.statistics import Comparison, compare

from .result import Result

__all__ = [
    "Answer",
    "compare_by_question",
    "conclude",
    "count",
    "is_better",
    "is_equal",
    "is_level",
    "together",
]

Side: TypeAlias = Literal["worse", "better", "either"]
LEVEL = 1.0  # points of error; the runs in miniature cannot resolve the paper's tenths


@dataclass(frozen=True)
class Answer:
    """One question of a claim."""

    text: str
    shows: bool | None


def together(parts: Iterable[bool | None]) -> bool | None:
    """All must show; one that clearly does not decides.

    >>> together([True, True]), together([True, None]), together([None, False])
    (True, None, False)
    """
    found = list(parts)
    if False in found:
        return False
    return None if None in found else True


def is_better(comparisons: Iterable[Comparison]) -> bool | None:
    """Whether the first of each pair has the lower value, clearly."""
    return together(c.difference.mean < 0 if c.clear else None for c in comparisons)


# How far an interval reaches to the side that a question is about; an error is better if it is lower.
REACH: dict[Side, Callable[[float, float], float]] = {
    "worse": lambda low, high: high,
    "better": lambda low, high: -low,
    "either": lambda low, high: max(-low, high),
}


def is_level(
    comparisons: Iterable[Comparison], margin: float = LEVEL, side: Side = "worse"
) -> bool | None:
    """Whether no interval reaches beyond the margin on a side.

    A mean that is beyond it, of a difference that is clear, says no.
    """
    reach = REACH[side]

    def one(c: Comparison) -> bool | None:
        d = c.difference
        if d.low is None or d.high is None:
            return True if is_equal(c) else None
        if reach(d.low, d.high) <= margin:
            return True
        return False if c.clear and reach(d.mean, d.mean) > margin else None

    return together(map(one, comparisons))


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


def compare_by_question(
    rows: Sequence[Mapping[str, Any]],
    questions: Mapping[str, Sequence[tuple[str, str]]],
    value: str = "val_error",
) -> dict[str, list[Comparison]]:
    """Comparisons by question, each corrected for its own number; pairs without a run are left out."""
    runs = {row["run"] for row in rows}
    return {
        question: compare(rows, [pair for pair in pairs if set(pair) <= runs], value)
        for question, pairs in questions.items()
    }


def conclude(
    entry: str,
    claim: str,
    answers: Sequence[Answer],
    records: Iterable[Record],
    settings: Record,
    **series: Iterable[Record],
) -> Result:
    """The result of an entry whose claim is made of questions."""
    given: list[Record] = [{"text": a.text, "shows": a.shows} for a in answers]
    return Result(
        entry,
        claim,
        tuple(records),
        together(a.shows for a in answers),
        " ".join(a.text for a in answers),
        settings,
        {"answers": tuple(given), **{name: tuple(found) for name, found in series.items()}},
    )
