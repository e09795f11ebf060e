r"""Spectral filters that are learned together with the network.

A filter h acts on the eigenvalues in units of the trace, :math:`a_i = \lambda_i / \tau` with
:math:`\tau = \mathrm{tr} P`, and the result gets the norm of the square root, whatever h is:

.. math:: Q = U\,\mathrm{diag}(f) U^T, \qquad f_i = \sqrt\tau\, h(a_i) / \nu, \qquad
    \nu = \Big( \sum_i h(a_i)^2 \Big)^{1/2} .

So :math:`\|Q\|_F = \|P^{1/2}\|_F`: learning changes the shape of the spectrum and not the scale of the
features, and Q scales with the features as the root does.

With :math:`m_i = \partial l / \partial f_i = Z_{ii} / (2 s_i)` in the notation of
:mod:`rootpool.nn.spectral_roots`, the gradient to the features has the divided differences
:math:`L_{ij} = h[a_i, a_j] / (\nu \sqrt\tau)` and, because :math:`\tau` and :math:`\nu` depend on the
eigenvalues too, on the diagonal

.. math::
    2 s_k \Big( \sum_j m_j \frac{h_j / 2 - h'_j a_j}{\nu \sqrt\tau}
    - \frac{\langle m, f \rangle}{\nu^2 \tau} \big( h_k h'_k - \sum_i h_i h'_i a_i \big) \Big) .

The gradient to a parameter is :math:`\sum_j m_j\, \partial f_j / \partial \theta`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg.parameters import check_positive
from rootpool.linalg.parametric import ParametricFunction, parametric_function
from rootpool.linalg.scalar import power_difference

from .spectral_roots import SpectralRoot, assemble, power_of_two, relative

__all__ = ["ONCE", "LearnedFilter", "LearnedMixture", "LearnedPower", "Tunable", "by_value"]

ONCE = "second derivatives of learned filters are not implemented; the methods 'exact' and 'power' have them"


class Tunable(SpectralRoot):
    """A spectral function with parameters that may be trained.

    The value of the method is where learning starts: called with covariances alone, it is the function of
    the initial parameters. :class:`CovariancePool` holds the parameters and trains them.
    """

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    @abstractmethod
    def at(self, parameters: Tensor) -> SpectralRoot:
        """The function of given parameters."""

    def _initial(self, like: Tensor) -> SpectralRoot:
        return self.at(like.new_tensor(self.initial_parameters()))

    def __call__(self, P: Tensor) -> Tensor:
        return self._initial(P)(P)

    def base(self, like: Tensor) -> Tensor | float:
        return self._initial(like).base(like)

    def shares(self, s: Tensor) -> Tensor | None:
        return self._initial(s).shares(s)

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        return self._initial(s).inner(s, Z)


class LearnedFilter(Tunable):
    """A filter whose result has the norm of the square root, with trainable parameters.

    A subclass gives the filter h, which is 0 at 0, increasing, and whose values are never negative.
    Parameters are ``(k,)``, the eigenvalues over the trace ``a`` are ``(..., n)`` between 0 and 1.
    """

    @abstractmethod
    def initial_parameters(self) -> tuple[float, ...]:
        """The parameters at the start of a training."""

    @abstractmethod
    def readable(self, parameters: Tensor) -> dict[str, float]:
        """What the parameters mean, by name."""

    @abstractmethod
    def values(self, a: Tensor, parameters: Tensor) -> Tensor:
        """``h(a_i)``, ``(..., n)``."""

    @abstractmethod
    def quotients(self, a: Tensor, parameters: Tensor) -> Tensor:
        """``h(a_i) / a_i``, ``(..., n)``; anything finite at 0."""

    @abstractmethod
    def differences(self, a: Tensor, parameters: Tensor) -> Tensor:
        """``h[a_i, a_j]``, ``(..., n, n)``, without cancellation; anything finite between two zeros."""

    @abstractmethod
    def parameter_derivatives(self, a: Tensor, parameters: Tensor) -> Tensor:
        """The derivatives of ``h(a_i)`` by the parameters, ``(..., n, k)``."""

    def at(self, parameters: Tensor) -> SpectralRoot:
        return _Tuned(self, parameters)


@dataclass(frozen=True, eq=False)
class _Tuned(SpectralRoot):
    """A filter with values of its parameters; see the top of the file for the formulas."""

    filter: LearnedFilter
    theta: Tensor

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        trace = P.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        trace = torch.where(trace == 0, 1, trace)
        F = parametric_function(P / trace, self.theta, _Spectral(self.filter))
        norm = torch.linalg.matrix_norm(F, keepdim=True)
        return F * (trace.sqrt() / torch.where(norm == 0, 1, norm))

    def _spectrum(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The eigenvalues over the trace, the filter there, and the norm of the filter."""
        a = relative(s).square()
        h = self.filter.values(a, self.theta)
        norm = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
        return a, h, torch.where(norm == 0, 1, norm)

    def shares(self, s: Tensor) -> Tensor:
        _, h, norm = self._spectrum(s)
        x = relative(s)
        return h / norm / torch.where(x == 0, 1, x)

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        unit = power_of_two(s)  # nothing below changes with the unit of s and Z
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        a, h, norm = self._spectrum(s)
        root_trace = _root_trace(s)
        scale = 1 / (norm * root_trace)
        L = self.filter.differences(a, self.theta) * scale.unsqueeze(-1)
        null = self.filter.quotients(a, self.theta) * scale
        inner, columns = assemble(L, null, s, Z)
        slope = L.diagonal(dim1=-2, dim2=-1) * root_trace  # h' / norm
        h = h / norm
        m = by_value(s, Z)
        by_trace = (m * (h / 2 - slope * a)).sum(-1, keepdim=True) / root_trace
        by_norm = (m * h).sum(-1, keepdim=True) / root_trace
        bend = h * slope - (h * slope * a).sum(-1, keepdim=True)
        inner.diagonal(dim1=-2, dim2=-1).add_(2 * s * (by_trace - by_norm * bend))
        return inner, columns

    def parameter_gradients(self, s: Tensor, Z: Tensor, trace: Tensor) -> Tensor:
        if not self.filter.initial_parameters():
            return super().parameter_gradients(s, Z, trace)
        _, h, norm = self._spectrum(s)
        h = (h / norm).unsqueeze(-1)
        slopes = self.filter.parameter_derivatives(relative(s).square(), self.theta)
        slopes = slopes / norm.unsqueeze(-1)
        slopes = slopes - h * (h * slopes).sum(
            -2, keepdim=True
        )  # along the sphere of constant norm
        unit = power_of_two(s)
        weights = by_value(s, Z) * unit * _root_trace(s / unit)
        return (weights.unsqueeze(-1) * slopes).sum(-2)


def _root_trace(s: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    return torch.where(norm == 0, 1, norm)


def by_value(s: Tensor, Z: Tensor) -> Tensor:
    """The derivative of the loss by the value at each eigenvalue, ``(B, r)``; 0 for dropped ones."""
    return Z.diagonal(dim1=-2, dim2=-1) / (2 * torch.where(s == 0, 1, s))


@dataclass(frozen=True)
class _Spectral(ParametricFunction):
    """A filter as a function of matrices whose trace is one."""

    filter: LearnedFilter

    @property
    def caller(self) -> str:
        return "a learned filter"

    @property
    def once(self) -> str:
        return ONCE

    def values(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return self.filter.values(lam, parameters)

    def differences(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return self.filter.differences(lam, parameters)

    def parameter_derivatives(self, lam: Tensor, parameters: Tensor) -> Tensor:
        return self.filter.parameter_derivatives(lam, parameters)


@dataclass(frozen=True)
class LearnedPower(LearnedFilter):
    r"""A power whose exponent is learned, with the norm of the square root.

    .. math:: Q = \sqrt{\mathrm{tr} P}\; P^p / \|P^p\|_F

    At :math:`p = 1/2` it is the square root. The parameter is :math:`\log p`, so p stays positive; its
    first divided differences are :math:`a^{p-1}\,\mathrm{expm1}(p \log(b/a)) / (b/a - 1)`. Below one half
    the gradient to the features grows without bound as an eigenvalue tends to zero, like
    :math:`\lambda^{p - 1/2}`.

    Args:
        exponent: where learning starts.
        trained: False keeps the exponent as it is, to compare exponents by the shape of the spectrum alone.
    """

    name: ClassVar[str] = "learned-power"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to learn the exponent with the network"

    exponent: float = 0.5
    trained: bool = True

    def __post_init__(self) -> None:
        check_positive("LearnedPower.exponent", self.exponent)

    def initial_parameters(self) -> tuple[float, ...]:
        return (math.log(self.exponent),) if self.trained else ()

    def at(self, parameters: Tensor) -> SpectralRoot:
        if not self.trained:
            parameters = parameters.new_tensor([math.log(self.exponent)])
        return _Tuned(self, parameters)

    def readable(self, parameters: Tensor) -> dict[str, float]:
        return {"exponent": float(parameters.detach().exp())}

    def values(self, a: Tensor, parameters: Tensor) -> Tensor:
        return a ** parameters.exp()

    def quotients(self, a: Tensor, parameters: Tensor) -> Tensor:
        return torch.where(a == 0, 1, a) ** torch.expm1(parameters)

    def differences(self, a: Tensor, parameters: Tensor) -> Tensor:
        p = parameters.exp()
        high = torch.maximum(a.unsqueeze(-1), a.unsqueeze(-2))
        low = torch.minimum(a.unsqueeze(-1), a.unsqueeze(-2))
        return torch.where(high == 0, 0, power_difference(high, low, p))

    def parameter_derivatives(self, a: Tensor, parameters: Tensor) -> Tensor:
        p, positive = parameters.exp(), torch.where(a == 0, 1, a)
        return (a**p * positive.log() * p).unsqueeze(-1)


@dataclass(frozen=True)
class LearnedMixture(LearnedFilter):
    r"""A mixture of saturating filters whose weights are learned, with the norm of the square root.

    .. math:: h(a) = \sum_k w_k \frac{a}{a + c_k} + w_\infty a, \qquad w_k > 0,

    with corners :math:`c_k` of :math:`10^{-8}, 10^{-7}, \dots, 10`. Every operator monotone function
    that vanishes at 0 is such a mixture (Löwner), and the powers :math:`a^p` with p < 1 have weights
    that grow like :math:`c^p`. Learning starts from those of the square root, which the mixture meets to
    one per cent above :math:`10^{-5}`; below the smallest corner it is linear, so that the gradient to
    the features has a bound. The parameters are the logarithms of the weights. The first divided
    difference of a term is :math:`c / ((a + c)(b + c))`, in which nothing cancels.

    Args:
        exponent: of the power that learning starts from, between 0 and 1.
    """

    name: ClassVar[str] = "learned-mixture"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to learn the shape of the filter with the network"

    exponent: float = 0.5

    DECADES: ClassVar[tuple[int, ...]] = tuple(range(-8, 2))

    def __post_init__(self) -> None:
        if not 0 < self.exponent < 1:
            raise ValueError(
                f"LearnedMixture.exponent must be between 0 and 1, got {self.exponent!r}"
            )

    def initial_parameters(self) -> tuple[float, ...]:
        # The trapezoidal rule for the integral of c^(p-1) a / (a + c) over log c, which is
        # a^p pi / sin(pi p); corners beyond the last are large against a, so their terms are linear.
        p = self.exponent
        step = math.log(10) * math.sin(math.pi * p) / math.pi
        beyond = 10.0 ** ((p - 1) * (self.DECADES[-1] + 1)) / (1 - 10.0 ** (p - 1))
        logs = [math.log(step) + p * k * math.log(10) for k in self.DECADES]
        return (*logs, math.log(step * beyond))

    def readable(self, parameters: Tensor) -> dict[str, float]:
        weights = parameters.detach().exp()
        names = [*(f"weight_1e{k:+d}" for k in self.DECADES), "weight_linear"]
        return dict(zip(names, weights.tolist(), strict=True))

    def _terms(self, a: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``a + c_k``, ``(..., n, k)``, the corners and the weights."""
        corners = 10.0 ** torch.tensor(self.DECADES, dtype=a.dtype, device=a.device)
        return a.unsqueeze(-1) + corners, corners, parameters.exp()

    def values(self, a: Tensor, parameters: Tensor) -> Tensor:
        return a * self.quotients(a, parameters)

    def quotients(self, a: Tensor, parameters: Tensor) -> Tensor:
        sums, _, w = self._terms(a, parameters)
        return (w[:-1] / sums).sum(-1) + w[-1]

    def differences(self, a: Tensor, parameters: Tensor) -> Tensor:
        sums, corners, w = self._terms(a, parameters)
        factors = (w[:-1] * corners).sqrt() / sums
        return factors @ factors.mT + w[-1]

    def parameter_derivatives(self, a: Tensor, parameters: Tensor) -> Tensor:
        sums, _, w = self._terms(a, parameters)
        a = a.unsqueeze(-1)
        return torch.cat([w[:-1] * (a / sums), w[-1] * a], -1)
