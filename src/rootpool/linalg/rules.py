r"""Gradient rules: kernels for the gradient of an eigendecomposition that stay finite at ties.

The derivative of eigenvectors is built from the antisymmetric kernel

.. math:: K_{ij} = \frac{1}{\lambda_i - \lambda_j}, \qquad K_{ii} = 0,

which is infinite at ties. A rule is a frozen value that maps a spectrum ``(..., n)`` to a kernel
``(..., n, n)``. Every rule keeps one contract: antisymmetric to the bit, zero diagonal, finite for
every finite spectrum (entries that would overflow saturate at the largest finite number), zero
between two zero eigenvalues, ``K(c * lam) == K(lam) / c`` (:class:`Truncated` excepted: its bound
is an absolute number), and equal to ``1 / (lam_i - lam_j)`` in the limit of large gaps.

At an exact tie the sign of ``K_ij`` is that of ``i - j``, the sign it has when the tie is broken in
ascending order.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from .checks import can_read_values
from .parameters import check_at_least, check_positive

Rule = Callable[[Tensor], Tensor]  # eigenvalues (..., n) to a kernel (..., n, n)


@dataclass(frozen=True)
class GradientRule(ABC):
    """A kernel that stays finite: eigenvalues ``(..., n)`` in, antisymmetric ``(..., n, n)`` out.

    >>> Truncated(bound=10.0)(torch.tensor([1.0, 1.0]))  # a tie
    tensor([[  0., -10.],
            [ 10.,   0.]])
    """

    @abstractmethod
    def __call__(self, eigenvalues: Tensor) -> Tensor:
        """Return the kernel of a spectrum."""

    def inspect(  # noqa: B027
        self, kernel: Tensor, coupling: Tensor, slopes: Tensor | None
    ) -> None:
        """Hook that sees ``coupling = U^H dl/dU`` and ``slopes = dl/dlam`` before the kernel is applied.

        Does nothing by default.
        """


def _order(eigenvalues: Tensor) -> Tensor:
    """The sign of ``i - j``, ``(n, n)``."""
    k = torch.arange(eigenvalues.shape[-1], device=eigenvalues.device)
    return (k.unsqueeze(-1) - k).sign().to(eigenvalues.dtype)


def _size(eigenvalues: Tensor) -> Tensor:
    """The largest magnitude in a spectrum, ``(..., 1, 1)``; 1 if it is empty."""
    if eigenvalues.shape[-1] == 0:
        return torch.ones_like(eigenvalues).sum(-1)[..., None, None]
    # Of many short spectra, torch's norm takes thirty times longer.
    return eigenvalues.abs().amax(-1, keepdim=True).unsqueeze(-1)


def _largest(eigenvalues: Tensor) -> Tensor:
    """The largest magnitude in a spectrum, ``(..., 1, 1)``; 1 where all are zero."""
    size = _size(eigenvalues)
    return size.masked_fill(size == 0, 1)


def _saturated(kernel: Tensor) -> Tensor:
    """Overflow, from gaps that are denormal numbers, ends at the largest finite number."""
    limit = torch.finfo(kernel.dtype).max
    return kernel.clamp(-limit, limit)


def _inverse(eigenvalues: Tensor) -> Tensor:
    null = eigenvalues == 0
    return torch.where(null, 0, _saturated(1 / torch.where(null, 1, eigenvalues)))


class _GapRule(GradientRule):
    """A rule that looks at the gap ``lam_i - lam_j`` and has a value of its own at ties."""

    def is_tie(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        return gap == 0

    def of_gap(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        """The kernel, an odd function of ``gap``, which is not zero."""
        return gap.reciprocal()

    def at_tie(self, eigenvalues: Tensor) -> Tensor | None:
        """The kernel between two equal eigenvalues, the later one first; None for 0."""
        return None

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        gap = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2)
        tie = self.is_tie(gap, eigenvalues)
        # A gap of 1 keeps what is not taken at ties from putting inf * 0 into derivatives.
        kernel = _saturated(self.of_gap(gap.masked_fill(tie, 1), eigenvalues))
        value = self.at_tie(eigenvalues)
        if value is None:
            return kernel.masked_fill(tie, 0)
        return torch.where(tie, _order(eigenvalues) * _saturated(value).unsqueeze(-1), kernel)


class _SeriesRule(GradientRule):
    r""":math:`\frac{1}{\lambda_i} \sum_{k < terms} (\lambda_j / \lambda_i)^k`, larger magnitude first.

    The series converges for ratios within (-1, 1) only, so one order of each pair is evaluated and
    the other is minus that. Ties: ``terms / lam_i``.
    """

    @property
    @abstractmethod
    def terms(self) -> int:
        """Number of terms of the series."""

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        lam_i, lam_j = eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2)
        size_i, size_j = lam_i.abs(), lam_j.abs()
        i_leads = (size_i > size_j) | ((size_i == size_j) & (lam_i > lam_j))
        larger = torch.where(i_leads, lam_i, lam_j)
        smaller = torch.where(i_leads, lam_j, lam_i)
        ratio = smaller / torch.where(larger == 0, 1, larger)
        kernel = _geometric_sum(ratio, self.terms) * _inverse(larger)
        sign = torch.where(lam_i == lam_j, _order(eigenvalues), torch.where(i_leads, 1, -1))
        return sign * _saturated(kernel)


def _geometric_sum(x: Tensor, terms: int) -> Tensor:
    r"""``1 + x + ... + x^(terms - 1)`` in :math:`O(\log terms)` products.

    Doubling, ``S_2m = S_m (1 + x^m)``, adds positive numbers only when ``x >= 0``: unlike the closed
    form it has no cancellation near ``x = 1``, and its derivatives are right there too.
    """
    total, power = torch.ones_like(x), x
    for k in reversed(range(terms.bit_length() - 1)):  # the bits after the leading one
        total, power = total * (1 + power), power * power
        if terms >> k & 1:
            total, power = 1 + x * total, power * x
    return total


@dataclass(frozen=True)
class Ordinary(_GapRule):
    r""":math:`1/(\lambda_i - \lambda_j)`, the textbook kernel (MPN-COV, Li et al. 2017).

    Ties: 0, as in the original implementation of MPN-COV. Close eigenvalues: unbounded.

    Use: to compare with MPN-COV.
    """


@dataclass(frozen=True)
class Truncated(_GapRule):
    r""":math:`1/(\lambda_i - \lambda_j)` clipped to ``[-bound, bound]`` (SVD-Trunc).

    Ties: ``bound``, but 0 between two zero eigenvalues. The bound is absolute, so this rule alone
    depends on the scale of its input.

    Use: to compare with SVD-Trunc; the scale of the input matters.
    """

    bound: float = 1e10

    def __post_init__(self) -> None:
        check_positive("Truncated.bound", self.bound)

    def _limit(self, eigenvalues: Tensor) -> float:
        return min(self.bound, torch.finfo(eigenvalues.dtype).max)

    def of_gap(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        limit = self._limit(eigenvalues)
        return gap.reciprocal().clamp(-limit, limit)

    def at_tie(self, eigenvalues: Tensor) -> Tensor:
        limit = torch.full_like(eigenvalues, self._limit(eigenvalues))
        return torch.where(eigenvalues == 0, 0, limit)


@dataclass(frozen=True)
class Taylor(_SeriesRule):
    r""":math:`\frac{1}{\lambda_i} \sum_{k=0}^{degree} (\lambda_j/\lambda_i)^k` (Wang et al. 2019).

    Ties: ``(degree + 1) / lam_i``, its upper bound.

    Use: to compare with Wang et al. 2019, or for a kernel with a bound.
    """

    degree: int = 100

    def __post_init__(self) -> None:
        check_at_least("Taylor.degree", self.degree, 0)

    @property
    def terms(self) -> int:
        return self.degree + 1


@dataclass(frozen=True)
class PowerIteration(_SeriesRule):
    r""":math:`\frac{1}{\lambda_i} \sum_{k<iterations} (\lambda_j/\lambda_i)^k` (SVD-PI).

    What ``iterations`` steps of deflated power iteration, started at the exact eigenvectors, send
    back (appendix B of the paper): ``PowerIteration(K)`` is ``Taylor(K - 1)``.

    Ties: ``iterations / lam_i``.

    Use: to compare with power iteration (Wang et al. 2019).
    """

    iterations: int = 20

    def __post_init__(self) -> None:
        check_at_least("PowerIteration.iterations", self.iterations, 1)

    @property
    def terms(self) -> int:
        return self.iterations


@dataclass(frozen=True)
class Pade(_GapRule):
    r"""The diagonal Padé approximant of the kernel (SVD-Padé, Song et al. 2021), made well-posed.

    :math:`1/(1 - x)` is rational, so each of its Padé approximants with a denominator of degree one
    or more *is* :math:`1/(1 - x)`. The rule therefore evaluates :math:`1/(\lambda_i - \lambda_j)`
    from the difference, which is exact for close eigenvalues. The approximant has a pole at a tie
    and no value there.

    Ties: ``(degree + 1) / lam_i``, the value of the Taylor polynomial that the approximant matches.

    Use: to compare with the paper; close eigenvalues are exact, and ties are finite.
    """

    degree: int = 100

    def __post_init__(self) -> None:
        check_at_least("Pade.degree", self.degree, 1)

    def at_tie(self, eigenvalues: Tensor) -> Tensor:
        return (self.degree + 1) * _inverse(eigenvalues)


@dataclass(frozen=True)
class Lorentzian(_GapRule):
    r""":math:`x / (x^2 + \varepsilon \lambda_{max}^2)`, :math:`x = \lambda_i - \lambda_j`.

    Ties: 0. Gaps below :math:`\sqrt\varepsilon \lambda_{max}` are damped, larger ones barely change.

    Use: when the loss depends on the basis of an eigenspace; the gradient is smooth in the gap.
    """

    broadening: float = 1e-12

    def __post_init__(self) -> None:
        check_positive("Lorentzian.broadening", self.broadening)

    def of_gap(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        scale = _largest(eigenvalues)
        x = gap / scale
        return 1 / (x + self.broadening / x) / scale


@dataclass(frozen=True)
class Degenerate(_GapRule):
    r""":math:`1/(\lambda_i - \lambda_j)` without the degenerate pairs (Kasim 2020).

    Pairs closer than ``tolerance`` times the largest eigenvalue (default: ``max(n, 10) eps``) get 0. That
    is the right gradient of a loss that takes a degenerate eigenspace as a whole, such as a function
    of the projector on it, and of no other loss. A loss that depends on the basis inside, or treats
    the eigenvalues there differently, is reported by a warning (not under ``torch.compile`` or
    ``torch.func``, where values cannot be looked at).

    Ties: 0.

    Use: when the loss depends on eigenspaces and not on their bases; it warns if that is not so.
    """

    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            check_positive("Degenerate.tolerance", self.tolerance)

    def relative_tolerance(self, eigenvalues: Tensor) -> float:
        """Relative to the largest eigenvalue."""
        if self.tolerance is not None:
            return self.tolerance
        # Of small matrices, one in seven has equal eigenvalues that come out further apart than n eps.
        return float(max(eigenvalues.shape[-1], 10) * torch.finfo(eigenvalues.dtype).eps)

    def is_tie(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        return gap.abs() <= self.relative_tolerance(eigenvalues) * _size(eigenvalues)

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        if not can_read_values(eigenvalues) or not self.has_no_ties(eigenvalues.detach()):
            return super().__call__(eigenvalues)
        gap = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2)
        gap.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
        return gap.reciprocal()

    def has_no_ties(self, values: Tensor) -> bool:
        """Whether values ``(..., n)`` are sorted and no pair is a tie, nor its reciprocal beyond the range.

        False if they are not finite. For values that can be looked at.
        """
        tolerance, smallest = self.relative_tolerance(values), 4 * torch.finfo(values.dtype).tiny
        if values.dim() == 1:  # numbers of Python take less time than operators
            numbers = values.tolist()
            level = max(tolerance * max(map(abs, numbers), default=0), smallest)
            steps = [b - a for a, b in pairwise(numbers)]
            return all(x > level for x in steps) or all(x < -level for x in steps)
        levels = (tolerance * _size(values)[..., 0]).clamp_min(smallest)
        gaps = values.diff(dim=-1)
        return bool((gaps > levels).all()) or bool((gaps < -levels).all())

    def inspect(self, kernel: Tensor, coupling: Tensor, slopes: Tensor | None) -> None:
        pairs = kernel.numel() - math.prod(kernel.shape[:-1])
        if torch.count_nonzero(kernel).item() == pairs:  # no ties, nearly always
            return
        tie = kernel == 0
        allowed = math.sqrt(torch.finfo(coupling.dtype).eps)
        if _exceeds(torch.where(tie, coupling - coupling.mH, 0), allowed, coupling):
            what = "depends on individual eigenvectors of a repeated eigenvalue"
        elif slopes is not None and _exceeds(
            torch.where(tie, slopes.unsqueeze(-1) - slopes.unsqueeze(-2), 0),
            allowed * slopes.shape[-1],
            slopes.unsqueeze(-1),
        ):
            what = "treats the copies of a repeated eigenvalue differently"
        else:
            return
        warnings.warn(
            f"the loss {what}, which has no well-defined gradient; that part of the gradient was set "
            "to zero. Use a function of the matrix (sqrtm, matrix_function) or of singular values "
            "(low_rank, singular_value_function), a loss on the projector, or rule='lorentzian'",
            stacklevel=2,
        )


def _exceeds(found: Tensor, share: float, whole: Tensor) -> bool:
    """Whether the entries of some matrix ``found`` sum up to more than that share of ``whole``."""
    allowed = share * whole.abs().flatten(-2).sum(-1)
    return bool((found.abs().flatten(-2).sum(-1) > allowed).any())


RULES: dict[str, type[GradientRule]] = {
    "ordinary": Ordinary,
    "truncated": Truncated,
    "taylor": Taylor,
    "pade": Pade,
    "power-iteration": PowerIteration,
    "lorentzian": Lorentzian,
    "degenerate": Degenerate,
}


def resolve_rule(rule: str | Rule) -> Rule:
    """Return the rule of that name with its defaults, or the callable itself.

    >>> resolve_rule("taylor")
    Taylor(degree=100)
    >>> resolve_rule(Truncated(bound=1e6))
    Truncated(bound=1000000.0)
    """
    if isinstance(rule, str):
        if rule not in RULES:
            raise ValueError(f"unknown gradient rule {rule!r}; choose from {', '.join(RULES)}")
        return RULES[rule]()
    if isinstance(rule, type) or not callable(rule):
        raise TypeError(
            f"rule must be one of {', '.join(RULES)} or a callable from eigenvalues (..., n) to a "
            f"kernel (..., n, n), got {rule!r}"
        )
    return rule


def eigenvector_term(
    rule: Rule, spectrum: Tensor, coupling: Tensor, slopes: Tensor | None = None
) -> Tensor:
    r"""The part of the gradient due to the vectors, :math:`\tfrac12 K^T \circ (C - C^H)`, in their basis.

    Args:
        rule: gives the kernel K.
        spectrum: eigen- or singular values ``(..., n)``.
        coupling: :math:`C = U^H \bar U` ``(..., n, n)``.
        slopes: the gradient with respect to the spectrum, if the loss depends on it.
    """
    kernel = rule(spectrum)
    if isinstance(rule, GradientRule) and can_read_values(coupling):
        seen = None if slopes is None else slopes.detach()
        rule.inspect(kernel.detach(), coupling.detach(), seen)
    return kernel.mT * (coupling - coupling.mH) / 2
