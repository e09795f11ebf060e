"""A statement of the theory: words for a reader, a computation that checks it, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from rootpool.report.plots.drawing import WIDE, styled
from rootpool.report.plots.palette import STYLES
from rootpool.report.records import Record

from ..result import Result, verdict_of

__all__ = [
    "LOOKS",
    "OURS",
    "THEIRS",
    "Finding",
    "Statement",
    "normal",
    "numbers",
    "one_plot",
    "orthogonal",
    "relative_error",
    "words",
]

OURS, THEIRS = STYLES["exact"].colour, STYLES["svd-pade"].colour
LOOKS = list(STYLES.values())


@cache
def words() -> dict[str, Any]:
    """The texts of ``statements.yaml``."""
    text = Path(__file__).with_name("statements.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@dataclass(frozen=True)
class Finding:
    """What a computation finds: records, whether they support the claim, and why in a sentence."""

    records: list[Record]
    holds: bool
    reason: str
    settings: Record = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A statement of the theory.

    Args:
        id: its name; the entry is ``theory:`` and this.
        compute: finds out whether the claim holds.
        draw: the figure of a result, in a width in inches.
        title: for the report.
        text: a paragraph for a reader who has neither the paper nor the code at hand.
        claim: what is stated, in a sentence or two.
        caption: of the figure.
    """

    id: str
    compute: Callable[[], Finding]
    draw: Callable[[Result, float], Figure]
    title: str
    text: str
    claim: str
    caption: str

    @classmethod
    def written(
        cls, name: str, compute: Callable[[], Finding], draw: Callable[[Result, float], Figure]
    ) -> Statement:
        """A statement whose words are in ``statements.yaml``."""
        return cls(name, compute, draw, **words()["statements"][name])

    @property
    def entry(self) -> str:
        """Its name in the report and on the command line."""
        return f"theory:{self.id}"

    def result(self) -> Result:
        """The statement, computed."""
        found = self.compute()
        verdict = verdict_of(found.holds)
        records = tuple(found.records)
        return Result(self.entry, self.claim, records, verdict, found.reason, found.settings)

    def figure(self, result: Result, *, width: float = WIDE) -> Figure:
        """The figure of a result, in the style of all our figures."""
        return styled(self.draw)(result, width)


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


def one_plot(width: float, height: float = 3.4) -> tuple[Figure, Axes]:
    """A figure with one plot, in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()
