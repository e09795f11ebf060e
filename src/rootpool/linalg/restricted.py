"""Functions that differ between parts of the spectrum: small eigenvalues raised, small ones dropped.

Between two parts divided differences of every order are quotients, which the gap across the border keeps
from losing digits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import can_read_values, first_index, name_item
from .decompose import roundoff
from .differentiation import quotient
from .parameters import check_at_least, check_positive
from .rules import Rule
from .scalar import ScalarFunction


def leading(lam: Tensor, count: int) -> Tensor:
    """Which of n ascending values are among the ``count`` largest, ``(n,)``."""
    n = lam.shape[-1]
    return torch.arange(n, device=lam.device) >= n - count


def second_across(L: Tensor, same: Tensor, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
    """``sum_k f[lam_i, lam_k, lam_j] (G_ik W_kj + W_ik G_kj)`` over triples that are not in one part.

    ``same`` ``(..., n, n)`` says which pairs are in one part of the spectrum, ``L`` is ``f[lam_i, lam_j]``.
    """
    # Of three arguments a pair across the border is the gap of the quotient: i, j, or else i, k.
    gap = lam.unsqueeze(-1) - lam.unsqueeze(-2)
    G_over_gap = torch.where(same, 0, quotient(G, gap))
    LG, LW = L * G, L * W
    around = torch.where(
        same, L * (G_over_gap @ W) - G_over_gap @ LW, quotient(LG @ W - G @ LW, gap)
    )
    return around + around.mH


class _InParts(ScalarFunction):
    """A function that is ``inner`` on the free eigenvalues and constant on the others."""

    inner: ScalarFunction

    @abstractmethod
    def free(self, lam: Tensor) -> Tensor:
        """Which eigenvalues ``(..., n)`` are free."""

    def argument(self, lam: Tensor) -> Tensor:
        """The eigenvalues that ``inner`` is given."""
        return lam

    def divided_differences(self, lam: Tensor) -> Tensor:
        return self.coefficients(lam)

    @property
    def twice_at_zero(self) -> bool:
        return self.domain == "any" or self.inner.twice_at_zero

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        free = self.free(lam).expand(lam.shape)
        same = free.unsqueeze(-1) == free.unsqueeze(-2)
        inside = (free.unsqueeze(-1) & free.unsqueeze(-2)).to(lam.dtype)
        total = self.inner.second_product(self.argument(lam), inside * G, inside * W)
        if can_read_values(lam) and bool(same.all()):
            return total
        return total + second_across(self.divided_differences(lam), same, lam, G, W)


@dataclass(frozen=True)
class Floored(_InParts):
    r""":math:`f(\max(\lambda, floor))` and the derivatives of just that.

    By the chain rule for divided differences, :math:`(f \circ c)[x, y] = f[c(x), c(y)]\, c[x, y]`,
    with :math:`c[x, y]` between 0 (both raised) and 1 (neither).
    """

    domain = "any"

    inner: ScalarFunction
    floor: float

    def __post_init__(self) -> None:
        check_positive("eigenvalue_floor", self.floor)

    def free(self, lam: Tensor) -> Tensor:
        return lam >= self.floor

    def argument(self, lam: Tensor) -> Tensor:
        return lam.clamp_min(self.floor)

    def values(self, lam: Tensor) -> Tensor:
        return self.inner.values(self.argument(lam))

    def coefficients(self, lam: Tensor, rule: Rule | None = None) -> Tensor:
        raised, gap = self.argument(lam), lam.unsqueeze(-1) - lam.unsqueeze(-2)
        alive = self.free(lam).to(lam.dtype).unsqueeze(-1)
        share = quotient(raised.unsqueeze(-1) - raised.unsqueeze(-2), gap)
        return self.inner.coefficients(raised, rule) * torch.where(gap == 0, alive, share)


class _OnPart(_InParts):
    r"""``inner`` on the free eigenvalues and 0 on the others.

    Across the border the coefficient is :math:`f(\lambda_i)/(\lambda_i - \lambda_j)`, and 0 at an exact
    tie, where the function is discontinuous.
    """

    def values(self, lam: Tensor) -> Tensor:
        return torch.where(self.free(lam), self.inner.values(self.argument(lam)), 0)

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.where(self.free(lam), self.inner.derivatives(self.argument(lam)), 0)

    def coefficients(self, lam: Tensor, rule: Rule | None = None) -> Tensor:
        free, values = self.free(lam), self.values(lam)
        both = free.unsqueeze(-1) & free.unsqueeze(-2)
        gap = lam.unsqueeze(-1) - lam.unsqueeze(-2)
        change = values.unsqueeze(-1) - values.unsqueeze(-2)
        across = quotient(change, gap) if rule is None else (rule(lam) * change).where(gap != 0, 0)
        return torch.where(both, self.inner.coefficients(self.argument(lam), rule), across)


@dataclass(frozen=True)
class Leading(_OnPart):
    """``inner`` on the ``count`` largest eigenvalues and 0 on the others (the paper's TopN)."""

    inner: ScalarFunction
    count: int

    def __post_init__(self) -> None:
        check_at_least("keep_largest", self.count, 1)

    @property
    def domain(self) -> str:
        return self.inner.domain

    def free(self, lam: Tensor) -> Tensor:
        return leading(lam, self.count)


@dataclass(frozen=True)
class OnRange(_OnPart):
    """``inner`` on positive eigenvalues and 0 on zeros: derivatives along changes that keep the rank."""

    domain = "nonnegative"
    twice_at_zero = True

    inner: ScalarFunction

    def free(self, lam: Tensor) -> Tensor:
        return lam > 0

    def argument(self, lam: Tensor) -> Tensor:
        return torch.where(lam > 0, lam, 1)


class Pieces(ScalarFunction):
    """Slope 1 on part 1 of the spectrum, and 0 on others: divided differences are quotients across."""

    domain = "any"

    @abstractmethod
    def part(self, lam: Tensor) -> Tensor:
        """The number ``(..., n)`` of the part that each value is in."""

    def derivatives(self, lam: Tensor) -> Tensor:
        return (self.part(lam) == 1).to(lam.dtype)

    def divided_differences(self, lam: Tensor) -> Tensor:
        part, f = self.part(lam), self.values(lam)
        same = part.unsqueeze(-1) == part.unsqueeze(-2)
        gap = torch.where(same, 1, lam.unsqueeze(-1) - lam.unsqueeze(-2))
        slope = self.derivatives(lam).unsqueeze(-1)
        return torch.where(same, slope, (f.unsqueeze(-1) - f.unsqueeze(-2)) / gap)

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        part = self.part(lam)
        same = part.unsqueeze(-1) == part.unsqueeze(-2)
        return second_across(self.divided_differences(lam), same, lam, G, W)


def check_cut(kept: Tensor, dropped: Tensor, level: Tensor, what: str) -> None:
    """Raise where the smallest kept value is not above the largest dropped one; tensors ``(...)``."""
    if not can_read_values(kept):  # then the derivative is infinite or NaN
        return
    closed = kept - dropped <= 2.5 * level  # equal ones come out as far apart as that
    if bool(closed.any()):
        index = first_index(closed)
        raise LinAlgError(
            f"the leading subspace of {name_item(index)} has no derivative, because {what} on both "
            f"sides of the cut are equal to working precision ({kept[index].item():.6g} and "
            f"{dropped[index].item():.6g}); choose k at a gap of the spectrum"
        )


@dataclass(frozen=True)
class LeadingProjector(Pieces):
    r"""1 on the ``count`` largest eigenvalues and 0 on the others.

    :math:`f[a, b] = 1/(a - b)` across the cut and 0 elsewhere.
    """

    count: int

    def part(self, lam: Tensor) -> Tensor:
        return leading(lam, self.count)

    def values(self, lam: Tensor) -> Tensor:
        return self.part(lam).to(lam.dtype).expand_as(lam)

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.zeros_like(lam)

    def divided_differences(self, lam: Tensor) -> Tensor:
        cut = lam.shape[-1] - self.count
        if cut > 0:
            check_cut(lam[..., cut], lam[..., cut - 1], roundoff(lam)[..., 0], "eigenvalues")
        return super().divided_differences(lam)
