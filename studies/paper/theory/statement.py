"""A statement of the theory as an entry: a computation that checks it, and often a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from rootpool.report import Picture, Record
from rootpool.report.plots.drawing import WIDE, below, legend, logarithmic, styled
from rootpool.report.plots.palette import FREE, STYLES
from studies.engine.command import Found, Measure
from studies.engine.kept import Kept
from studies.engine.page import NOWHERE
from studies.engine.questions import Finding, outcome_of
from studies.engine.study import Entry

__all__ = ["Checked", "line_plot", "normal", "numbers", "orthogonal", "relative_error", "statement"]

OURS, THEIRS = STYLES["exact"].colour, STYLES["svd-pade"].colour
Draw = Callable[[Sequence[Record], float], Figure]


@dataclass(frozen=True)
class Checked:
    """What a computation finds: records, whether they agree with the statement, and why in a sentence."""

    records: list[Record]
    holds: bool
    reason: str


def statement(compute: Callable[[], Checked], draw: Draw | None = None) -> Measure:
    """The measure of a statement: whether it ``holds``, and a figure where it says more than the sentence."""

    def measure(entry: Entry, places: Sequence[object], kept: Kept) -> Found:
        checked = compute()
        finding = Finding(outcome_of(checked.holds), checked.reason)
        if draw is None:
            return Found({NOWHERE: {"holds": finding}})
        picture = Picture.of(
            styled(draw), checked.records, WIDE, alt=entry.caption, caption=entry.caption
        )
        return Found({NOWHERE: {"holds": finding}}, [picture])

    return measure


def numbers(records: Iterable[Record], key: str, **where: object) -> list[float]:
    """The numbers under a key, of the records that have the given values."""
    chosen = (r[key] for r in records if all(r[k] == v for k, v in where.items()))
    return [v for v in chosen if isinstance(v, int | float)]


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers in float64, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(n: int, seed: int = 0) -> Tensor:
    """A random orthogonal matrix ``(n, n)``."""
    return torch.linalg.qr(normal(n, n, seed=seed))[0]


def relative_error(got: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of the expected value."""
    return float((got - expected).norm() / expected.norm())


def line_plot(
    x: str, lines: Mapping[str, tuple[str, Record]], labels: tuple[str, str], logs: str = "xy"
) -> Draw:
    """A drawing of lines.

    Args:
        x: the key of the records on the horizontal axis.
        lines: by name, the key on the vertical axis and the values that its records have.
        labels: of both axes.
        logs: the axes that are logarithmic.
    """

    def draw(records: Sequence[Record], width: float) -> Figure:
        figure = Figure(figsize=(width, 3.0), layout="constrained")
        axes = figure.add_subplot()
        handles = {}
        for (name, (y, where)), look in zip(lines.items(), FREE, strict=False):
            places, values = numbers(records, x, **where), numbers(records, y, **where)
            style = {"marker": look.marker, "markevery": max(1, len(places) // 6)}
            (handles[name],) = axes.plot(places, values, color=look.colour, **style)
        for axis in ("x", "y"):
            if axis in logs:
                logarithmic(axes, axis)
        axes.set_ylabel(labels[1])
        below(figure, labels[0])
        legend(figure, handles, width)
        return figure

    return draw
