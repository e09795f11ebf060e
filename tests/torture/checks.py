"""What a check is: a call of the library, what must come of it, and how far off it was.

Figures are residuals in units of what rounding explains, ``n eps`` times the sizes of the operands and,
where the problem itself is ill-conditioned, its condition number. As in LAPACK's own tests a figure
below 30 passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

THRESHOLD = 30.0
# The figure of an item that a measure says nothing about: its unit is no longer small, or the item is at
# a cut where both answers are right. Such items count as tried, not as measured.
UNMEASURED = -1.0
BLUNT = 1e-3  # a relative unit above which a residual would pass whatever the result
MUST, MAY, ERROR = 0, 1, 2  # must work; may work or raise an error; must raise an error

B = TypeVar("B", bound="Batch")
Figures = dict[str, Tensor]  # a figure an item, by what was measured


def size(x: Tensor) -> Tensor:
    """Frobenius norm of each item, ``(b,)``, safe for numbers of any scale."""
    largest = x.double().flatten(1).abs().amax(1) if x[0].numel() else x.new_zeros(len(x)).double()
    unit = torch.where((largest == 0) | ~largest.isfinite(), 1, largest)
    scaled = x.double() / unit.reshape(-1, *[1] * (x.dim() - 1))
    return unit * scaled.flatten(1).norm(dim=1)


def ratio(residual: Tensor, unit: Tensor) -> Tensor:
    """``|residual| / unit``; 0 where there is no residual, whatever the unit."""
    r = size(residual)
    return torch.where(r == 0, 0, r / unit)


def where(fine: Tensor, figures: Figures) -> Figures:
    """The figures of the items that are fine, ``(b,)``; the others are not measured."""
    return {name: torch.where(fine, figure, UNMEASURED) for name, figure in figures.items()}


@dataclass(frozen=True)
class Batch:
    """Items that go through the library together, and what is known of them without it."""

    dtype: torch.dtype
    eps: float
    input: Tensor
    exponent: Tensor  # of the scale of each item, (b,)
    index: Tensor  # place in its group, (b,)

    @property
    def largest(self) -> int:
        """Exponent of the largest number of the dtype."""
        return int(math.log2(torch.finfo(self.dtype).max))

    @property
    def smallest(self) -> int:
        """Exponent of the smallest number of the dtype, denormal numbers included."""
        return round(math.log2(torch.finfo(self.dtype).tiny * self.eps))

    def grain(self, degree: float) -> Tensor:
        """Relative rounding unit of a result that scales like ``input^degree``, ``(b,)``.

        It is ``eps`` until the result is so small that denormal numbers have fewer digits.
        """
        return self.eps + torch.exp2(self.smallest - degree * self.exponent.double()).clamp_max(1)

    def take(self: B, where: Tensor) -> B:
        """Some of the items."""
        tensors = {k: v[where] for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **tensors)

    def __len__(self) -> int:
        return len(self.input)


def due(doubtful: Tensor, impossible: Tensor) -> Tensor:
    """Status of items, ``(b,)``."""
    return torch.where(impossible, ERROR, torch.where(doubtful, MAY, MUST))


def limit(largest_exponent: Tensor, batch: Batch, margin: int = 8) -> Tensor:
    """Status of a result whose largest entry is ``2^largest_exponent``."""
    above = largest_exponent - batch.largest
    return due(above > -margin, above > margin)


Outputs = tuple[Tensor, ...]
Upstream = Sequence[Tensor]


@dataclass(frozen=True)
class Check:
    """One way to call the library, for a batch."""

    call: Callable[[Batch, Tensor], Outputs]
    value: Callable[[Batch, Outputs], Figures] | None = None
    gradient: Callable[[Batch, Outputs, Upstream, Tensor], Figures] | None = None
    value_status: Callable[[Batch], Tensor] | None = None
    gradient_status: Callable[[Batch], Tensor] | None = None
    applies: Callable[[Batch], Tensor] | None = None  # to which items; None: to all
    company: bool = False  # whether to repeat it with two threads, and with an item alone


def statuses(check: Check, batch: Batch) -> tuple[Tensor, Tensor]:
    fine = torch.full((len(batch),), MUST)
    value = fine if check.value_status is None else check.value_status(batch)
    gradient = fine if check.gradient_status is None else check.gradient_status(batch)
    return value, gradient


Checks = Mapping[str, Check]
