"""A statement of the theory: words for a reader, a computation that checks it, and a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from rootpool.analysis import Record
from rootpool.report.plots.drawing import WIDE, styled

from ..result import Result, verdict_of

__all__ = ["Finding", "Statement"]


@dataclass(frozen=True)
class Finding:
    """What a computation finds: records, whether they bear the claim out, and why in a sentence."""

    records: list[Record]
    holds: bool
    reason: str
    settings: Record = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A statement of the theory.

    Args:
        id: its name; the entry is ``theory:`` and this.
        title: for the report.
        text: paragraphs for a reader who has neither the paper nor the code at hand.
        claim: what is stated, in a sentence or two.
        caption: of the picture.
        compute: finds out whether the claim holds.
        draw: the picture of a result, in a width in inches.
    """

    id: str
    title: str
    text: tuple[str, ...]
    claim: str
    caption: str
    compute: Callable[[], Finding]
    draw: Callable[[Result, float], Figure]

    @property
    def entry(self) -> str:
        """What the report and the command line call it."""
        return f"theory:{self.id}"

    def result(self) -> Result:
        """The statement, computed."""
        found = self.compute()
        verdict = verdict_of(found.holds)
        records = tuple(found.records)
        return Result(self.entry, self.claim, records, verdict, found.reason, found.settings)

    def figure(self, result: Result, *, width: float = WIDE) -> Figure:
        """The picture of a result, in the style of all our pictures."""
        return styled(self.draw)(result, width)
