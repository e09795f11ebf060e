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
from dataclasses import dataclass

import torch
from torch import Tensor

from .parameters import check_finite

__all__ = [
    "FUNCTIONS",
    "Exp",
    "InvSqrt",
    "Log",
    "Power",
    "ScalarFunction",
    "Sqrt",
    "log_ratio",
    "power_difference",
]


@dataclass(frozen=True)
class ScalarFunction(ABC):
    """A function of eigenvalues together with what its derivatives need."""

    @property
    @abstractmethod
    def domain(self) -> str:
        """Which eigenvalues are allowed: ``"any"``, ``"nonnegative"`` or ``"positive"``."""

    @abstractmethod
    def values(self, lam: Tensor) -> Tensor:
        """``f(lam_i)``, ``(..., n)``."""

    @abstractmethod
    def derivatives(self, lam: Tensor) -> Tensor:
        """``f'(lam_i)``, ``(..., n)``."""

    @abstractmethod
    def divided_differences(self, lam: Tensor) -> Tensor:
        """``f[lam_i, lam_j]``, ``(..., n, n)``."""

    def kernel_spectrum(self, lam: Tensor) -> Tensor:
        """The eigenvalues that a gradient rule sees, ``(..., n)``."""
        return lam

    def kernel_share(self, lam: Tensor) -> Tensor | float:
        """What the kernel of a rule is multiplied by where that spectrum is not ``lam`` itself."""
        return 1.0

    @property
    def twice_at_zero(self) -> bool:
        """Whether the second derivative exists at zero eigenvalues that are inside the domain."""
        return self.domain == "any"

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        """``sum_k f[lam_i, lam_k, lam_j] (G_ik W_kj + W_ik G_kj)``, ``(..., n, n)``."""
        raise NotImplementedError(f"second derivatives of {self} are not available")


class _Smooth(ScalarFunction):
    """A function given by formulas for two and three sorted arguments."""

    @abstractmethod
    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """``f[a, b]`` for ``a >= b``."""

    def second_difference(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """``f[a, b, c]`` for ``a >= b >= c``."""
        raise NotImplementedError

    def divided_differences(self, lam: Tensor) -> Tensor:
        lam_i, lam_j = lam.unsqueeze(-1), lam.unsqueeze(-2)
        return self.difference(torch.maximum(lam_i, lam_j), torch.minimum(lam_i, lam_j))

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        lam_i, lam_j = lam.unsqueeze(-1), lam.unsqueeze(-2)
        high, low = torch.maximum(lam_i, lam_j), torch.minimum(lam_i, lam_j)
        total = torch.zeros_like(G)
        for k in range(lam.shape[-1]):  # n x n memory instead of n x n x n
            lam_k = lam[..., k, None, None]
            middle = torch.maximum(low, torch.minimum(high, lam_k))
            second = self.second_difference(
                torch.maximum(high, lam_k), middle, torch.minimum(low, lam_k)
            )
            outer = (
                G[..., :, k, None] * W[..., None, k, :] + W[..., :, k, None] * G[..., None, k, :]
            )
            total = total + second * outer
        return total


def log_ratio(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``log(b / a)`` and ``(a - b) / a`` to full relative accuracy, for ``a >= b >= 0``, ``a > 0``."""
    u = (a - b) / a
    return torch.where(u < 0.5, torch.log1p(-u), torch.log(b / a)), u


def _second_difference(
    f: _Smooth, a: Tensor, b: Tensor, c: Tensor, taylor: list[float], degree: float
) -> Tensor:
    r"""``f[a, b, c] = (f[a, b] - f[b, c]) / (a - c)``, or by a series where the points are close.

    About the midpoint ``m`` of ``a`` and ``c``,

    .. math:: f[a, b, c] = \sum_{k \ge 2} \frac{f^{(k)}(m)}{k!}\, h_{k-2}(a - m, b - m, c - m)

    with the complete homogeneous symmetric polynomials ``h``, and :math:`f^{(k)}(m) / k! =
    taylor_k\, m^{degree - k}` for the functions here.
    """
    m = (a + c) / 2
    null = m == 0  # all three: then h_0 alone counts, and m^(degree - 2) is that of zero
    unit = torch.where(null, 1, m)
    x, y, z = (torch.where(null, 0, p / unit - 1) for p in (a, b, c))
    e1, e2, e3 = x + y + z, x * y + y * z + z * x, x * y * z
    h, h1, h2 = torch.ones_like(m), torch.zeros_like(m), torch.zeros_like(m)
    series = taylor[2] * h
    for coefficient in taylor[3:]:
        h, h1, h2 = e1 * h - e2 * h1 + e3 * h2, h, h1
        series = series + coefficient * h
    # Offsets of at most 0.053 make the 12th power 4e-16; wider apart, the quotient loses one digit. The
    # coefficients of a large power grow like its own powers, and so does the difference: less is close.
    close = a - c <= 0.1 * min(1.0, 5 / max(abs(degree), 1.0)) * a
    quotient = (f.difference(a, b) - f.difference(b, c)) / torch.where(close, 1, a - c)
    at_zero = taylor[2] if degree == 2 else 0.0
    return torch.where(close, torch.where(null, at_zero, series * unit ** (degree - 2)), quotient)


_TERMS = 14  # of the series in _second_difference


def power_difference(a: Tensor, b: Tensor, p: float | Tensor) -> Tensor:
    r"""``f[a, b]`` of :math:`f = \lambda^p` for ``a >= b >= 0``; of no meaning where ``a == 0``.

    With :math:`u = (a - b)/a`: :math:`f[a, b] = -a^{p-1}\, \mathrm{expm1}(p \log(b/a)) / u`.
    """
    a = torch.where(a == 0, 1, a)
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

    def derivatives(self, lam: Tensor) -> Tensor:
        return self.difference(lam, lam)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        p = self.exponent
        if p == 0:
            return torch.zeros_like(a)
        return torch.where(a == 0, 1.0 if p == 1 else 0.0, power_difference(a, b, p))

    def second_difference(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        p = self.exponent
        binomial = [1.0]
        for k in range(1, _TERMS):
            binomial.append(binomial[-1] * (p - k + 1) / k)
        return _second_difference(self, a, b, c, binomial, degree=p)


@dataclass(frozen=True)
class Sqrt(ScalarFunction):
    r""":math:`\sqrt\lambda`, with :math:`f[a, b] = 1 / (\sqrt a + \sqrt b)`."""

    @property
    def domain(self) -> str:
        return "nonnegative"

    def values(self, lam: Tensor) -> Tensor:
        return lam.sqrt()

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.where(lam == 0, 0, 0.5 / torch.where(lam == 0, 1, lam).sqrt())

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

    @property
    def domain(self) -> str:
        return "positive"

    def values(self, lam: Tensor) -> Tensor:
        return lam.rsqrt()

    def derivatives(self, lam: Tensor) -> Tensor:
        return -0.5 * lam.rsqrt() / lam

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

    @property
    def domain(self) -> str:
        return "positive"

    def values(self, lam: Tensor) -> Tensor:
        return lam.log()

    def derivatives(self, lam: Tensor) -> Tensor:
        return 1 / lam

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        log, u = log_ratio(a, b)
        return torch.where(u == 0, 1, -log / torch.where(u == 0, 1, u)) / a

    def second_difference(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        taylor = [0.0, *((-1.0) ** (k + 1) / k for k in range(1, _TERMS))]
        return _second_difference(self, a, b, c, taylor, degree=0)


@dataclass(frozen=True)
class Exp(_Smooth):
    r""":math:`e^\lambda`, with :math:`f[a, b] = -e^a\, \mathrm{expm1}(b - a) / (a - b)`."""

    @property
    def domain(self) -> str:
        return "any"

    def values(self, lam: Tensor) -> Tensor:
        return lam.exp()

    def derivatives(self, lam: Tensor) -> Tensor:
        return lam.exp()

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        gap = torch.where(a == b, 1, a - b)
        return a.exp() * torch.where(a == b, 1, -torch.expm1(-gap) / gap)

    def second_difference(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        # About the midpoint m: e^m sum_k h_(k-2)(a - m, b - m, c - m) / k!, as in _second_difference.
        m = (a + c) / 2
        close = a - c <= 0.5  # offsets of at most 1/4; wider apart, the quotient loses one digit
        x, y, z = ((t - m).clamp(-0.25, 0.25) for t in (a, b, c))
        e1, e2, e3 = x + y + z, x * y + y * z + z * x, x * y * z
        h, h1, h2 = torch.ones_like(m), torch.zeros_like(m), torch.zeros_like(m)
        series = h / 2
        for k in range(3, _TERMS):
            h, h1, h2 = e1 * h - e2 * h1 + e3 * h2, h, h1
            series = series + h / math.factorial(k)
        quotient = (self.difference(a, b) - self.difference(b, c)) / torch.where(close, 1, a - c)
        return torch.where(close, m.exp() * series, quotient)


FUNCTIONS: dict[str, ScalarFunction] = {
    "sqrt": Sqrt(),
    "inv_sqrt": InvSqrt(),
    "log": Log(),
    "exp": Exp(),
}
