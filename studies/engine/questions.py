"""Answers to the parts of a claim: paired differences of the runs that converged, and failures apart.

Differences are compared over the seeds with which both runs converged, with Holm's correction over the
comparisons of a part. What a part says of them (``judge``):

* ``better``: the first has the lower error;
* ``level``: the first is better, or worse by no more than the margin;
* ``same``: the two differ by no more than the margin;
* ``gain``: the first is better by no more than the margin;
* ``fails``: more runs of the first fail (Fisher's exact test, one-sided as the claim is).

A part is *seen* if all of its comparisons show it, and *opposite* if one clearly shows the opposite: the
interval of a difference is beyond the margin as a whole. Else it is *not seen*, or *not testable* if the
seeds could not have told as much as the claim is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from scipy import stats

from rootpool.report import Comparison, compare, describe, holm
from rootpool.report.statistics import PairedDifference, show_p

from .study import Outcome, Part, Study, Tags

__all__ = [
    "Answer",
    "Finding",
    "answer",
    "outcome_of",
    "pairs",
    "proportion",
    "seen",
    "shared_outcome",
    "tells",
]

Row = Mapping[str, Any]
SURE = 0.05
SAME = "same"  # instead of a method or another tag: as in the first run
WORDS: dict[tuple[str, Outcome], str] = {
    ("argument", "seen"): "follows by argument",
    ("argument", "opposite"): "does not follow",
    ("full size", "seen"): "reproduced at full size",
    ("full size", "not seen"): "not reproduced at full size",
    ("full size", "opposite"): "not reproduced at full size",
}
SCALES = {"small scale": "at small scale", "this CPU": "on this CPU", "full size": "at full size"}


@dataclass(frozen=True)
class Finding:
    """What the code of an entry finds about a part: the outcome, and the numbers in a sentence."""

    outcome: Outcome
    said: str


@dataclass(frozen=True)
class Answer:
    """The answer to one part of a claim."""

    part: Part
    outcome: Outcome
    said: str = ""
    comparisons: Sequence[Comparison] = ()

    @property
    def state(self) -> str:
        """The outcome with its scale, in the words of every page."""
        if self.outcome in ("not tried", "not testable"):
            return self.outcome + " at our scale" * (self.outcome == "not testable")
        words = WORDS.get((self.part.scale, self.outcome))
        return words or f"{self.outcome} {SCALES[self.part.scale]}"

    @property
    def tone(self) -> Literal["plain", "yes", "no", "unclear"]:
        """Its mark on a page."""
        tones = {"seen": "yes", "opposite": "no", "not tried": "plain"}
        return tones.get(self.outcome, "unclear")  # type: ignore[return-value]


def seen(answers: Sequence[Answer]) -> str:
    """How many parts are seen, of those that were tried.

    >>> part = Part("It is so.", outcome="seen")
    >>> seen([Answer(part, "seen"), Answer(part, "opposite"), Answer(part, "not tried")])
    '1 of 2 seen'
    """
    tried = [a for a in answers if a.outcome != "not tried"]
    return (
        f"{sum(a.outcome == 'seen' for a in tried)} of {len(tried)} seen" if tried else "not tried"
    )


def proportion(count: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval (Clopper and Pearson) of a share of runs.

    >>> "{:.2f} {:.2f}".format(*proportion(0, 5))
    '0.00 0.52'
    """
    interval = stats.binomtest(count, of).proportion_ci(1 - SURE, "exact")
    return float(interval.low), float(interval.high)


def outcome_of(holds: bool | None) -> Outcome:
    """The outcome where a number decides, or cannot."""
    return "not seen" if holds is None else "seen" if holds else "opposite"


def shared_outcome(holding: int, of: int) -> Outcome:
    """The outcome where something holds for all, for some or for none."""
    return "seen" if holding == of else "not seen" if holding else "opposite"


def answer(
    part: Part,
    rows: Sequence[Row],
    found: Mapping[str, Finding],
    groups: Mapping[str, Sequence[str]],
) -> Answer:
    """What the runs of a place, or the numbers of an entry, say about a part."""
    if part.outcome is not None:
        return Answer(part, part.outcome, part.because)
    if part.measured:
        finding = found.get(part.measured)
        return Answer(part, *((finding.outcome, finding.said) if finding else ("not tried", "")))
    chosen = pairs(part, rows, groups)
    if not chosen:
        return Answer(part, "not tried")
    if part.judge == "fails":
        return _failing(part, rows, chosen)
    good = [row for row in rows if not row["failed"] and row.get(part.value) is not None]
    seeds = {
        name: {r["seed"] for r in good if r["run"] == name} for pair in chosen for name in pair
    }
    kept = [(a, b) for a, b in chosen if seeds[a] & seeds[b]]
    if not kept:
        return Answer(part, "not testable", "no seed has converged on both sides of a comparison")
    comparisons = compare(good, kept, part.value)
    outcome = _judged(part, comparisons)
    lost = len(chosen) - len(kept)
    said = _described(comparisons) + (f"; {lost} more have no converged pair" if lost else "")
    if outcome == "not testable" and (told := tells(comparisons)):
        said += f"; {told}"
    return Answer(part, outcome, said, comparisons)


# --------------------------------------------------------------------------------------------------
# Which runs


def pairs(
    part: Part, rows: Iterable[Tags], groups: Mapping[str, Sequence[str]]
) -> list[tuple[str, str]]:
    """Names of the runs to compare; the name of a group stands for its methods."""
    known = {row["run"]: row for row in rows}

    def chosen(tags: Tags, like: Tags | None = None) -> list[str]:
        wanted = {
            tag: [like.get(tag)]
            if like is not None and value == SAME
            else groups.get(value, [value])
            if isinstance(value, str)
            else value
            if isinstance(value, list)
            else [value]
            for tag, value in tags.items()
        }
        return [n for n, row in known.items() if all(row.get(t) in v for t, v in wanted.items())]

    return [
        (first, other)
        for first in chosen(part.first)
        for tags in part.against
        for other in chosen(tags, known[first])
        if other != first
    ]


# --------------------------------------------------------------------------------------------------
# Differences


def _judged(part: Part, comparisons: Sequence[Comparison]) -> Outcome:
    sides = [_side(part, c) for c in comparisons]
    if "opposite" in sides:
        return "opposite"
    if all(side == "seen" for side in sides):
        return "seen"
    open_ones = [c for c, s in zip(comparisons, sides, strict=True) if s == "not seen"]
    wanted = part.effect if part.judge == "better" else part.margin
    return "not testable" if wanted and _beyond(open_ones, part, wanted) else "not seen"


def _beyond(differences: Sequence[PairedDifference], part: Part, wanted: float) -> bool:
    """Whether the seeds cannot tell as much as is wanted."""
    detectable = [d.detectable for d in differences if d.detectable is not None]
    if len(detectable) < len(differences):
        return True
    if part.judge == "better":
        return median(detectable) > wanted
    return any((d.high - d.low) / 2 > wanted for d in differences)  # type: ignore[operator]


def _side(part: Part, c: Comparison) -> Outcome:
    """What one comparison shows."""
    if part.judge == "better":
        return "not seen" if not c.clear else "seen" if c.mean < 0 else "opposite"
    low, high = (c.mean, c.mean) if c.low is None or c.high is None else (c.low, c.high)
    if c.low is None and not (c.n > 1 and c.mean == 0):  # one seed, or equal but for a constant
        return "not seen"
    worse, better = part.judge in ("level", "same"), part.judge in ("gain", "same")
    if (not worse or high <= part.margin) and (not better or -low <= part.margin):
        return "seen"
    beyond = (worse and low > part.margin) or (better and -high > part.margin)
    return "opposite" if beyond and c.clear else "not seen"


def _described(comparisons: Sequence[Comparison]) -> str:
    if len(comparisons) == 1:
        return describe(comparisons[0])
    better, worse = (
        sum(c.clear and (c.mean < 0) == lower for c in comparisons) for lower in (True, False)
    )
    means = [c.mean for c in comparisons]
    return (
        f"clearly better in {better} of {len(comparisons)} comparisons, clearly worse in {worse} "
        f"(differences of {min(means):+.2f} to {max(means):+.2f} points)"
    )


def tells(differences: Iterable[PairedDifference]) -> str | None:
    """Which differences the seeds of some comparisons can tell from zero; None if there is no spread."""
    known = [d.detectable for d in differences if d.detectable is not None]
    if not known:
        return None
    size = f"{median(known):.2f} points (80 % power, median, before any correction)"
    return f"the seeds can tell differences of {size}"


# --------------------------------------------------------------------------------------------------
# Failures


def _failing(part: Part, rows: Sequence[Row], chosen: Sequence[tuple[str, str]]) -> Answer:
    """How often the runs of pairs fail, tested exactly, with Holm's correction over the pairs."""
    counts = []
    for pair in chosen:
        both = [[row["failed"] for row in rows if row["run"] == name] for name in pair]
        counts.append([(sum(own), len(own) - sum(own)) for own in both])
    more, less = (
        holm([float(stats.fisher_exact(count, side).pvalue) for count in counts])
        for side in ("greater", "less")
    )
    said = "; ".join(
        f"{a} of {a + b} runs of {run} fail, and {c} of {c + d} of {other} (p {show_p(p)})"
        for (run, other), ((a, b), (c, d)), p in zip(chosen, counts, more, strict=True)
    )
    if min(less) < SURE:
        return Answer(part, "opposite", said)
    return Answer(part, "seen" if max(more) < SURE else "not seen", said)


def answers(
    study: Study,
    parts: Sequence[Part],
    kind: str,
    rows: Sequence[Row],
    found: Mapping[str, Finding],
) -> list[Answer]:
    """The answers of a place to the parts that are asked there."""
    asked = (part for part in parts if part.where in ("", kind))
    return [answer(part, rows, found, study.groups) for part in asked]
