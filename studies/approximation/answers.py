"""The short answer to the question of the title: in words, and as a table with a row per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rootpool.report import Block, Cell, Number, Paragraph, Table
from rootpool.report.records import Record
from rootpool.report.statistics import (
    Comparison,
    PairedDifference,
    describe,
)
from studies.approximation.filters import CONVERGED
from studies.statistics import pooled_difference

from .failure_page import wrong_steps
from .setting import Setting, half_effect, iteration_runs, tone

__all__ = ["LEARNED", "answers", "in_words", "shown"]

LEARNED = ("learned-power", "learned-mixture")
FEW = 3  # iterations


def in_words(settings: Sequence[Setting], traces: Mapping[str, Sequence[Record]]) -> list[Block]:
    """What the tables of the page say, in a few sentences."""
    parts = []
    if traces:
        name, (wrong, steps) = max(
            ((name, wrong_steps(records)) for name, records in traces.items()),
            key=lambda item: item[1][0] / item[1][1],
        )
        parts.append(
            "What fails is a gradient: that of MPN-COV, as published, is off by more than the length of the "
            f"exact one in {wrong} of {steps} steps ({name})."
        )
    value, gradient = (
        _tally([half_effect(s, half) for s in settings]) for half in ("forward", "backward")
    )
    parts.append(
        "Where all gradients are finite, what is left of the approximation? In the place of the exact "
        f"root, the value of Newton-Schulz is {value}; its gradient is {gradient}."
    )
    few, many = (
        _tally([c for s in settings for c in s.against(runs)], "comparisons")
        for runs in (
            [run for k, run in iteration_runs() if k <= FEW],
            [run for k, run in iteration_runs() if FEW < k < CONVERGED],
        )
    )
    learned = _tally([c for s in settings for c in s.against(LEARNED)], "comparisons")
    parts.append(
        f"Up to {FEW} iterations are {few}; more are {many}. Filters that are learned are {learned}. All "
        "against the exact root."
    )
    both = [_over(settings, half) for half in ("forward", "backward")]
    if len(settings) > 1 and all(both):
        parts.append(
            "Over all networks together, with the value of Newton-Schulz the error is {}; with its gradient, "
            "{}.".format(*(describe(effect) for effect in both if effect is not None))
        )
    return [Paragraph(" ".join(parts))]


def _tally(effects: Sequence[PairedDifference | Comparison | None], of: str = "networks") -> str:
    known = [effect for effect in effects if effect is not None]
    tones = [tone(effect) for effect in known]
    better, worse = tones.count("yes"), tones.count("no")
    return (
        f"clearly better in {better} of {len(known)} {of}, clearly worse in {worse}, within noise in "
        f"{len(known) - better - worse}"
    )


def answers(settings: Sequence[Setting]) -> list[Block]:
    """One row per network: what each half does, the best number of iterations, the learned filters."""
    rows: list[list[Cell]] = []
    for setting in settings:
        best, _ = min(iteration_runs(), key=lambda item: setting.offset(item[1]))
        iterations = "converged" if best == CONVERGED else str(best)
        rows.append(_row(setting.name, [setting], iterations))
    if len(settings) > 1:
        rows.append(_row("all together", settings, None))
    headers = ["network", "value of Newton-Schulz", "gradient of Newton-Schulz", "best iterations"]
    caption = (
        "Change of the error in points, with its 95 % interval (below zero: better). First what "
        "Newton-Schulz does in the place of the exact root, as the value of the layer and as its gradient, "
        "each averaged over the other half. Then the number of iterations with the lowest error, and "
        "filters that are learned against the exact square root. An interval that contains zero is within "
        "noise; here they are not corrected for the number of comparisons. The last row is the mean over "
        "all pairs of all networks; it was added when the others had been seen."
    )
    return [Table([*headers, *LEARNED], rows, caption)]


def _row(name: str, settings: Sequence[Setting], iterations: Cell) -> list[Cell]:
    forward, backward, *learned = (
        shown(_over(settings, what)) for what in ("forward", "backward", *LEARNED)
    )
    return [name, forward, backward, iterations, *learned]


def _over(settings: Sequence[Setting], what: str) -> PairedDifference | None:
    """The effect of a half of the two-by-two, or of a learned filter, over some networks."""
    if what in LEARNED:
        found = [c.difference for s in settings for c in s.against([what])]
    else:
        found = [d for s in settings if (d := half_effect(s, what)) is not None]
    return pooled_difference(found) if len(found) > 1 else next(iter(found), None)


def shown(d: PairedDifference | None) -> Cell:
    """A difference with half of its interval."""
    if d is None:
        return None
    reach = None if d.low is None or d.high is None else (d.high - d.low) / 2
    return Number(d.mean, reach, "+.2f")
