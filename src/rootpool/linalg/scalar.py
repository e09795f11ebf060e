r"""Scalar functions as data: values, derivatives, and divided differences without cancellation.

The derivative of :math:`f(A)` needs :math:`f[\lambda_i, \lambda_j] = (f(\lambda_i) - f(\lambda_j)) /
(\lambda_i - \lambda_j)`, equal to :math:`f'` at ties. Written like that it loses as many digits as
the eigenvalues share; each function here has a form that loses none.

All methods take spectra ``(..., n)`` in ascending order, as ``eigh`` returns them. Where the
derivative at a zero eigenvalue is infinite (roots), the coefficient *between two zero eigenvalues*
is 0: the derivative along perturbations that keep the rank, such as those of a covariance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .checks import can_read_values
from .parameters import check_finite
from .rules import Rule


@dataclass(frozen=True)
class ScalarFunction(ABC):
    """A function of eigenvalues together with what its derivatives need.

    >>> Power(0.5).values(torch.tensor([1.0, 4.0]))
    tensor([1., 2.])
    """

    @property
    @abstractmethod
    def domain(self) -> str:
        """Which eigenvalues are allowed: ``"any"``, ``"nonnegative"`` or ``"positive"``."""

    @abstractmethod
    def values(self, lam: Tensor) -> Tensor:
        """``f(lam_i)``, ``(..., n)``."""

    @abstractmethod
    def divided_differences(self, lam: Tensor) -> Tensor:
        """``f[lam_i, lam_j]``, ``(..., n, n)``."""

    def derivatives(self, lam: Tensor) -> Tensor:
        """``f'(lam_i)``, ``(..., n)``: by default the divided difference of each eigenvalue alone."""
        return self.divided_differences(lam.unsqueeze(-1))[..., 0, 0]

    def coefficients(self, lam: Tensor, rule: Rule | None = None) -> Tensor:
        """``L`` ``(..., n, n)`` of the derivative: exact, or by the kernel of a rule and right at ties."""
        if rule is None:
            return self.divided_differences(lam)
        f, slope = self.values(lam), self.derivatives(lam)
        tie = lam.unsqueeze(-1) == lam.unsqueeze(-2)
        by_rule = rule(lam) * (f.unsqueeze(-1) - f.unsqueeze(-2))
        return torch.where(tie, slope.unsqueeze(-1), by_rule)

    @property
    def twice_at_zero(self) -> bool:
        """Whether the second derivative exists at zero eigenvalues that are inside the domain."""
        return self.domain == "any"

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        """``sum_k f[lam_i, lam_k, lam_j] (G_ik W_kj + W_ik G_kj)``, ``(..., n, n)``, for Hermitian G, W."""
        raise NotImplementedError(f"second derivatives of {self} are not available")


class _Smooth(ScalarFunction):
    r"""A function given by its divided differences and its Taylor coefficients.

    Second differences are quotients of first ones, by the widest of the three gaps, so that little
    cancels: for :math:`\lambda_i \le \lambda_j` and with :math:`R_{ij} = 1/(\lambda_j - \lambda_i)`

    .. math::
        f[\lambda_i, \lambda_k, \lambda_j] = \begin{cases}
            R_{ij} (L_{kj} - L_{ik}) & i \le k \le j \\
            R_{kj} (L_{ij} - L_{ik}) & k < i \\
            R_{ik} (L_{kj} - L_{ij}) & j < k .
        \end{cases}

    In each case the sum over k is a difference of two products of triangular matrices. Where the widest
    gap is small, a series about :math:`\lambda_k` takes the place of the quotient,

    .. math:: f[\lambda_i, \lambda_k, \lambda_j] = s_k \sum_{a, c} t_{a + c}\, u_{ki}^a\, u_{kj}^c ,

    with the scaled distances :math:`u_{ki}` of :math:`\lambda_i` from :math:`\lambda_k`. It is a sum of
    products, too: one for each power c.
    """

    @abstractmethod
    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """``f[a, b]`` for ``a >= b``."""

    @abstractmethod
    def expansion(self, lam: Tensor) -> Expansion:
        """The series about each eigenvalue."""

    def divided_differences(self, lam: Tensor) -> Tensor:
        lam_i, lam_j = lam.unsqueeze(-1), lam.unsqueeze(-2)
        return self.difference(torch.maximum(lam_i, lam_j), torch.minimum(lam_i, lam_j))

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        L, series = self.divided_differences(lam), self.expansion(lam)
        gap = lam.unsqueeze(-2) - lam.unsqueeze(-1)
        R = torch.where(series.close, 0, 1 / torch.where(series.close, 1, gap)).triu(1)
        upper = self._by_quotients(L, R, G, W) + self._by_quotients(L, R, W, G)
        near = series.product(G, W)
        return near + near.mH + upper + upper.triu(1).mH

    @staticmethod
    def _by_quotients(L: Tensor, R: Tensor, G: Tensor, W: Tensor) -> Tensor:
        """The upper triangle of ``sum_k f[lam_i, lam_k, lam_j] G_ik W_kj`` without close triples."""
        LG, LW, RG, RW = L * G, L * W, R * G, R * W
        between = G.triu() @ LW.triu() - LG.triu() @ W.triu()
        below = L * (G.tril(-1) @ RW) - LG.tril(-1) @ RW
        above = RG @ LW.tril(-1) - L * (RG @ W.tril(-1))
        return (R * between + below + above).triu()


@dataclass(frozen=True)
class Expansion:
    """The series of second differences about each eigenvalue."""

    close: Tensor  # (..., n, n): whether two eigenvalues are so close that quotients would cancel
    offsets: Tensor  # (..., n, n): how far lam_j is from lam_k, scaled
    scale: Tensor  # (..., n)
    coefficients: list[float]

    def product(self, G: Tensor, W: Tensor) -> Tensor:
        """``sum_k f[lam_i, lam_k, lam_j] G_ik W_kj`` over the triples that are close."""
        u = torch.where(self.close, self.offsets, 0)
        terms = self._terms(u)
        G, W = torch.where(self.close, G, 0), torch.where(self.close, W, 0)
        W = W * self.scale.unsqueeze(-1)
        total, inner = torch.zeros_like(G), torch.zeros_like(u)
        for c in reversed(range(terms)):
            inner = self.coefficients[c] + u.mT * inner  # sum_a t_(a + c) u_ki^a
            total = total + (G * inner) @ (W * u**c)
        return torch.where(self.close, total, 0)

    def _terms(self, u: Tensor) -> int:
        """How many coefficients count: mostly few, if the offsets can be looked at."""
        if not can_read_values(u):
            return len(self.coefficients)
        widest, eps = u.abs().amax().item() if u.numel() else 0.0, torch.finfo(u.dtype).eps
        sizes = [abs(t) * (m + 1) * widest**m for m, t in enumerate(self.coefficients)]
        return max((m + 1 for m, size in enumerate(sizes) if size > eps / 8 * sizes[0]), default=1)


def log_ratio(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``log(b / a)`` and ``(a - b) / a`` to full relative accuracy, for ``a >= b >= 0``, ``a > 0``."""
    u = (a - b) / a
    return torch.where(u < 0.5, torch.log1p(-u), torch.log(b / a)), u


def _relative_expansion(lam: Tensor, taylor: Callable[[int], float], degree: float) -> Expansion:
    """Of a function with ``f^(k)(m) / k! = taylor_k m^(degree - k)``: offsets relative to the eigenvalue."""
    larger = torch.maximum(lam.unsqueeze(-1), lam.unsqueeze(-2))
    smaller = torch.minimum(lam.unsqueeze(-1), lam.unsqueeze(-2))
    # Wider apart, the quotient loses one digit. The coefficients of a large power grow like its own powers,
    # and so does the difference: less is close.
    width = 0.1 / max(abs(degree) / 4, 1.0)
    null = lam == 0  # both, where two are close: no offset then, and lam^(degree - 2) as at zero
    unit = torch.where(null, 1, lam)
    scale = torch.where(null, 1.0 if degree == 2 else 0.0, unit ** (degree - 2))
    offsets = (lam.unsqueeze(-2) - lam.unsqueeze(-1)) / unit.unsqueeze(-1)
    coefficients = [taylor(k) for k in range(2, 2 + _TERMS)]
    return Expansion(larger - smaller <= width * larger, offsets, scale, coefficients)


_TERMS = 24  # of a series about an eigenvalue, at most


def power_difference(a: Tensor, b: Tensor, p: float | Tensor) -> Tensor:
    r"""``f[a, b]`` of :math:`f = \lambda^p` for ``a >= b >= 0``; of no meaning where ``a == 0``.

    With :math:`u = (a - b)/a`: :math:`f[a, b] = -a^{p-1}\, \mathrm{expm1}(p \log(b/a)) / u`.
    """
    log, u = log_ratio(a, b)
    slope = torch.where(u == 0, p, -torch.expm1(p * log) / torch.where(u == 0, 1, u))
    return a ** (p - 1) * slope


@dataclass(frozen=True)
class Power(_Smooth):
    r""":math:`\lambda^p`; zero eigenvalues are ordinary for :math:`p \ge 0`."""

    exponent: float

    def __post_init__(self) -> None:
        check_finite("the exponent", self.exponent)

    @property
    def domain(self) -> str:
        return "nonnegative" if self.exponent >= 0 else "positive"

    @property
    def twice_at_zero(self) -> bool:
        return self.exponent in (0, 1) or self.exponent >= 2

    def values(self, lam: Tensor) -> Tensor:
        return lam**self.exponent

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        p = self.exponent
        if p == 0:
            return torch.zeros_like(a)
        return torch.where(a == 0, 1.0 if p == 1 else 0.0, power_difference(a, b, p))

    def expansion(self, lam: Tensor) -> Expansion:
        binomial = [1.0]
        for k in range(1, 2 + _TERMS):
            binomial.append(binomial[-1] * (self.exponent - (k - 1)) / k)
        return _relative_expansion(lam, binomial.__getitem__, self.exponent)


@dataclass(frozen=True)
class Sqrt(ScalarFunction):
    r""":math:`\sqrt\lambda`, with :math:`f[a, b] = 1 / (\sqrt a + \sqrt b)`."""

    domain = "nonnegative"

    def values(self, lam: Tensor) -> Tensor:
        return lam.sqrt()

    def divided_differences(self, lam: Tensor) -> Tensor:
        s = lam.sqrt()
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        return torch.threshold(sums, 0, torch.inf).reciprocal()  # 0 between two zeros

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        # f[a, b, c] = -1 / ((s_a + s_b) (s_b + s_c) (s_c + s_a)) factors: two Lyapunov solutions.
        R = self.divided_differences(lam)
        return -R * ((R * G) @ (R * W) + (R * W) @ (R * G))


@dataclass(frozen=True)
class InvSqrt(ScalarFunction):
    r""":math:`1/\sqrt\lambda`, with :math:`f[a, b] = -1/(\sqrt a \sqrt b\, (\sqrt a + \sqrt b))`."""

    domain = "positive"

    def values(self, lam: Tensor) -> Tensor:
        return lam.rsqrt()

    def divided_differences(self, lam: Tensor) -> Tensor:
        s = lam.sqrt()
        s_i, s_j = s.unsqueeze(-1), s.unsqueeze(-2)
        return -1 / s_i / s_j / (s_i + s_j)

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        # f[a, b, c] = (s_a + s_b + s_c) / (s_a s_b s_c (s_a + s_b) (s_b + s_c) (s_c + s_a))
        s = lam.sqrt()
        s_i, s_j = s.unsqueeze(-1), s.unsqueeze(-2)
        R = 1 / (s_i + s_j)
        G, W = R * G, R * W
        symmetric = G @ W + W @ G
        weighted = (G / s_j) @ W + (W / s_j) @ G
        return R / s_i / s_j * ((s_i + s_j) * weighted + symmetric)


@dataclass(frozen=True)
class Log(_Smooth):
    r""":math:`\log\lambda`, with :math:`f[a, b] = -\log(b/a) / (a - b)`."""

    domain = "positive"

    def values(self, lam: Tensor) -> Tensor:
        return lam.log()

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        log, u = log_ratio(a, b)
        return torch.where(u == 0, 1, -log / torch.where(u == 0, 1, u)) / a

    def expansion(self, lam: Tensor) -> Expansion:
        return _relative_expansion(lam, lambda k: (-1.0) ** (k + 1) / k, degree=0)


@dataclass(frozen=True)
class Log1p(_Smooth):
    r""":math:`\log(1 + \lambda)`, with :math:`f[a, b] = \log(1 + \tfrac{a - b}{1 + b}) / (a - b)`."""

    domain = "any"

    def values(self, lam: Tensor) -> Tensor:
        return lam.log1p()

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        u = (a - b) / (1 + b)
        return torch.where(u == 0, 1, u.log1p() / torch.where(u == 0, 1, u)) / (1 + b)

    def expansion(self, lam: Tensor) -> Expansion:
        return _relative_expansion(1 + lam, lambda k: (-1.0) ** (k + 1) / k, degree=0)


@dataclass(frozen=True)
class Exp(_Smooth):
    r""":math:`e^\lambda`, with :math:`f[a, b] = -e^a\, \mathrm{expm1}(b - a) / (a - b)`."""

    domain = "any"

    def values(self, lam: Tensor) -> Tensor:
        return lam.exp()

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        gap = torch.where(a == b, 1, a - b)
        return a.exp() * torch.where(a == b, 1, -torch.expm1(-gap) / gap)

    def expansion(self, lam: Tensor) -> Expansion:
        gap = lam.unsqueeze(-2) - lam.unsqueeze(-1)
        coefficients = [1 / math.factorial(k) for k in range(2, 2 + _TERMS)]
        return Expansion(gap.abs() <= 0.5, gap, lam.exp(), coefficients)


FUNCTIONS: dict[str, ScalarFunction] = {
    "sqrt": Sqrt(),
    "inv_sqrt": InvSqrt(),
    "log": Log(),
    "exp": Exp(),
}
