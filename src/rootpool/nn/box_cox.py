r"""One family from the power to the logarithm: :math:`(P^\theta - I) / \theta`.

With :math:`\mu = \lambda + \mathrm{ridge}` the function is
:math:`f = \mathrm{expm1}(\theta \log \mu) / \theta`, and nothing cancels as :math:`\theta` tends to 0, where
it is the logarithm. For :math:`a \ge b` and :math:`u = (a - b)/a` its first divided difference is

.. math:: f[a, b] = -a^{\theta - 1}\, \frac{\mathrm{expm1}(\theta \log(b/a))}{\theta\, u},

and :math:`a^{\theta - 1}` at ties. In a unit c it is :math:`c^{\theta - 1} f[a/c, b/c]`, which keeps squares
of features in range. The derivative by the exponent is, with :math:`x = \theta \log \mu`,

.. math:: \frac{\partial f}{\partial \theta} = \log^2 \mu\; \frac{x e^x - e^x + 1}{x^2} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.linalg.parameters import check_finite
from rootpool.linalg.parametric import ParametricFunction, parametric_function
from rootpool.linalg.scalar import log_ratio

from .learned import ONCE, Tunable, by_value
from .spectral_roots import SpectralRoot, assemble, power_of_two

__all__ = ["BoxCox"]

# The fused layer adds what the range has to the value of the null space, -1 / theta without a ridge. Below
# this exponent more than a digit would cancel where the null space is empty.
LEAST_FUSED = 0.05


@dataclass(frozen=True)
class BoxCox(Tunable):
    r"""The family :math:`(P^\theta - I) / \theta` from the power to the logarithm (Chen et al. 2025).

    The exponent one half is the "Pow-TMLR" of Chen et al., Understanding matrix function normalizations in
    covariance pooling through the lens of Riemannian geometry, ICLR 2025; 0 is the logarithm of
    ``P + ridge * I``.

    A zero eigenvalue becomes :math:`-1/\theta` without a ridge, and so does one at round-off level: with
    fewer positions than channels, the smaller the exponent, the more such eigenvalues dominate. Its
    gradient there is that of changes that keep the rank. Below one half the gradient to the features
    grows without bound as an eigenvalue tends to zero, like :math:`\lambda^{\theta - 1/2}`; a ridge bounds
    it. The logarithm needs one.

    Args:
        exponent: at least 0; where learning starts.
        ridge: added to the eigenvalues.
        trained: whether the exponent is learned. The parameter is :math:`\log \theta`, so it stays positive.

    >>> BoxCox()(torch.diag(torch.tensor([4.0, 0.0])))
    tensor([[ 2.,  0.],
            [ 0., -2.]])
    """

    name: ClassVar[str] = "box-cox"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to go from the power to the logarithm, or to learn where to stop"
    homogeneous: ClassVar[bool] = False

    exponent: float = 0.5
    ridge: float = 0.0
    trained: bool = False

    def __post_init__(self) -> None:
        for name in ("exponent", "ridge"):
            value = getattr(self, name)
            check_finite(f"BoxCox.{name}", value)
            if value < 0:
                raise ValueError(f"BoxCox.{name} must not be negative, got {value!r}")
        if self.exponent == 0 and self.ridge == 0:
            raise ValueError(
                "BoxCox with the exponent 0 is the logarithm, which zero eigenvalues do not have; give a "
                "ridge, such as BoxCox(0, ridge=1e-3)"
            )
        if self.exponent == 0 and self.trained:
            raise ValueError("BoxCox cannot learn from the exponent 0; begin with 0.1, for example")

    @property
    def fused(self) -> bool:
        return self.exponent >= LEAST_FUSED or self.ridge > 0

    def initial_parameters(self) -> tuple[float, ...]:
        return (math.log(self.exponent),) if self.trained else ()

    def readable(self, parameters: Tensor) -> dict[str, float]:
        return {"exponent": float(parameters.detach().exp())}

    def at(self, parameters: Tensor) -> SpectralRoot:
        theta = parameters.exp() if self.trained else parameters.new_tensor([self.exponent])
        return _At(theta, self.ridge)


def _value(log: Tensor, theta: Tensor) -> Tensor:
    """``expm1(theta log) / theta``; the limit ``log`` for 0."""
    zero = theta == 0
    return torch.where(zero, log, torch.expm1(theta * log) / torch.where(zero, 1, theta))


def _difference(a: Tensor, b: Tensor, theta: Tensor) -> Tensor:
    """``f[a, b]`` for ``a >= b >= 0``; of no meaning where ``a == 0``."""
    a = torch.where(a == 0, 1, a)
    log, u = log_ratio(a, b)
    tie = u == 0
    return a ** (theta - 1) * torch.where(tie, 1, -_value(log, theta) / torch.where(tie, 1, u))


def _pairs(mu: Tensor, theta: Tensor) -> Tensor:
    """``f[mu_i, mu_j]``, ``(..., n, n)``; 0 between two zeros, along changes that keep the rank."""
    high = torch.maximum(mu.unsqueeze(-1), mu.unsqueeze(-2))
    low = torch.minimum(mu.unsqueeze(-1), mu.unsqueeze(-2))
    return torch.where(high == 0, 0, _difference(high, low, theta))


def _slope(log: Tensor, theta: Tensor) -> Tensor:
    """The derivative of the value by ``theta``, for the logarithms of eigenvalues."""
    zero = log == -torch.inf
    log = torch.where(zero, 0, log)
    x = theta * log
    near = x.abs() < 0.5
    y = torch.where(near, x, 0)
    # x e^x - e^x + 1 = sum x^k (k - 1) / k! from k = 2 on; 15 terms are exact to 1e-17 below one half.
    series = torch.zeros_like(y)
    for k in range(16, 1, -1):
        series = series * y + (k - 1) / math.factorial(k)
    quotient = (x * x.exp() - torch.expm1(x)) / torch.where(near, 1, x.square())
    slope = log.square() * torch.where(near, series, quotient)
    return torch.where(zero, theta**-2, slope)


@dataclass(frozen=True, eq=False)
class _At(SpectralRoot):
    """The function of one exponent, a tensor ``(1,)``."""

    theta: Tensor
    ridge: float

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        raised = P + self.ridge * torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
        return parametric_function(raised, self.theta, _Function(self.ridge))

    def base(self, like: Tensor) -> Tensor | float:
        return _value(like.new_tensor(self.ridge).log(), self.theta.detach())

    def _units(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """In the unit c: s, mu, the ridge and ``f[mu_i, ridge]``; and ``c^(2 theta - 1)``."""
        unit, ridge = power_of_two(s), torch.zeros_like(s[:, :1])
        if self.ridge:
            unit = unit.clamp_min(
                math.sqrt(self.ridge)
            )  # whose ratio to the unit stays in range, too
            ridge = (math.sqrt(self.ridge) / unit).square()
        x = s / unit
        mu = x.square() + ridge
        return x, mu, unit, _difference(mu, ridge, self.theta), unit ** (2 * self.theta - 1)

    def shares(self, s: Tensor) -> Tensor | None:
        if s.shape[1] == 0:
            return None
        x, _, _, null, factor = self._units(s)
        return null * x * factor  # (f - f_0) / s

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        x, mu, unit, null, factor = self._units(s)
        L = _pairs(mu, self.theta)
        inner, columns = assemble(L, null, x, Z / unit.unsqueeze(-1))
        return inner * factor.unsqueeze(-1), columns * factor

    def parameter_gradients(self, s: Tensor, Z: Tensor, trace: Tensor) -> Tensor:
        root = s.new_tensor([math.sqrt(self.ridge)])
        lowest = _slope(2 * root.log(), self.theta)
        log = 2 * torch.hypot(s, root).log()  # of lam + ridge, whose squares could overflow
        slopes = torch.where(s == 0, 0, _slope(log, self.theta) - lowest)
        by_exponent = (by_value(s, Z) * slopes).sum(-1, keepdim=True) + trace * lowest
        return self.theta * by_exponent  # the parameter is its logarithm


@dataclass(frozen=True)
class _Function(ParametricFunction):
    """``f`` on eigenvalues that include the ridge; the parameter is the exponent."""

    ridge: float

    @property
    def caller(self) -> str:
        return "BoxCox"

    @property
    def once(self) -> str:
        return ONCE

    def check(self, lam: Tensor, parameters: Tensor) -> None:
        if self.ridge and bool((lam <= 0).any()):
            raise LinAlgError(
                f"BoxCox: the ridge {self.ridge:g} is lost in the rounding of the largest eigenvalue, got "
                f"an eigenvalue of {float(lam.min()):.3g}; use a larger ridge, or divide the features"
            )

    def values(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return _value(lam.log(), parameters)

    def differences(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return _pairs(lam, parameters)

    def parameter_derivatives(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return _slope(lam.log(), parameters).unsqueeze(-1)
