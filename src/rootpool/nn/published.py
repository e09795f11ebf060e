r"""The root with the gradient *as published*: the equations of the paper, as its code evaluates them.

For :math:`P = U \Lambda U^T`, :math:`Q = U \Lambda^{1/2} U^T` and :math:`G = \partial l / \partial Q`
the paper has two steps,

.. math::
    \frac{\partial l}{\partial U} = (G + G^T)\, U \Lambda^{1/2}, \qquad
    \frac{\partial l}{\partial \Lambda} = \tfrac12 \Lambda^{-1/2} (U^T G U)_\mathrm{diag},

.. math::
    \frac{\partial l}{\partial P} = U \left( K^T \circ \big( U^T \tfrac{\partial l}{\partial U} \big)
    + \tfrac{\partial l}{\partial \Lambda} \right) U^T ,

evaluated in the precision of P in a way that decides what comes out near ties:

* :math:`\Lambda` and U are the singular values and right singular vectors of P, so that the zero
  eigenvalues of a covariance come back as rounding errors with a positive sign; those at or below eps are
  raised to eps;
* K has a positive sign at ties in both triangles, where it ought to be antisymmetric;
* its infinite entries become the largest finite entry of the whole batch.

Two terms of each pair that ought to cancel are multiplied by an entry of K before they meet, so that near
ties their rounding errors are what remains, and at ties they do not cancel at all.

.. warning::
    This is here to measure what the paper is about, and nothing else in the library uses it. Training with
    it can diverge, one sample changes the gradient of all others in the batch, and it hides infinities,
    which no other part of this library does. The methods without ``-published`` in their names have none
    of this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, NoReturn, TypeAlias

import torch
from torch import Tensor

from rootpool.linalg import Pade, PowerIteration, Taylor, Truncated
from rootpool.linalg.decompose import svd_forward
from rootpool.linalg.smooth import Factors, Smooth, differentiable

from .kernel_roots import SVDPI, KernelRoot, MPNCov, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from .method import Method

__all__ = [
    "MPNCovPublished",
    "PairKernel",
    "PublishedRoot",
    "SVDPIPublished",
    "SVDPadePublished",
    "SVDTaylorPublished",
    "SVDTopNPublished",
    "SVDTruncPublished",
    "pade_coefficients",
    "published_gradient",
    "published_kernel",
    "sum_of_powers",
]

# From the larger and the smaller eigenvalue of each pair to K_ij.
PairKernel: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PublishedRoot(Method):
    """The root of covariances with the published gradient; subclasses name the method and its parameters."""

    source: ClassVar[str] = "published"
    ours: ClassVar[type[KernelRoot]]

    def __init_subclass__(cls) -> None:
        cls.use = f"to measure what the paper is about: {cls.ours.name} by its equations"

    def __post_init__(self) -> None:
        _ = self.root  # checks the parameters

    @property
    def root(self) -> KernelRoot:
        """The same method with our gradient."""
        return self.ours(**asdict(self))

    @property
    def keep(self) -> int | None:
        """How many of the largest eigenvalues to keep; the others are set to eps. None: all."""
        return self.root.keep

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        """The kernel of the larger and the smaller eigenvalue of each pair."""
        rule = self.root.rule
        if isinstance(rule, Pade):
            p, q = pade_coefficients(rule.degree)
            x = smaller / larger
            return sum_of_powers(p, x) / sum_of_powers(q, x) / larger
        if isinstance(rule, (Taylor, PowerIteration)):
            return sum_of_powers((1.0,) * rule.terms, smaller / larger) / larger
        kernel = 1 / (larger - smaller)
        return kernel.clamp(-rule.bound, rule.bound) if isinstance(rule, Truncated) else kernel

    def __call__(self, P: Tensor) -> Tensor:
        return differentiable(_Published(self), P)


@dataclass(frozen=True)
class MPNCovPublished(PublishedRoot):
    """MPN-COV with the gradient as published: the ordinary kernel."""

    name: ClassVar[str] = "mpn-cov-published"
    ours: ClassVar[type[KernelRoot]] = MPNCov


@dataclass(frozen=True)
class SVDTruncPublished(PublishedRoot):
    """SVD-Trunc with the gradient as published: the kernel clipped to ``[-bound, bound]``."""

    name: ClassVar[str] = "svd-trunc-published"
    ours: ClassVar[type[KernelRoot]] = SVDTrunc

    bound: float = 1e10


@dataclass(frozen=True)
class SVDPIPublished(PublishedRoot):
    """SVD-PI with the gradient as published: the series of power iteration."""

    name: ClassVar[str] = "svd-pi-published"
    ours: ClassVar[type[KernelRoot]] = SVDPI

    iterations: int = 20


@dataclass(frozen=True)
class SVDTaylorPublished(PublishedRoot):
    """SVD-Taylor with the gradient as published: the Taylor polynomial of the kernel."""

    name: ClassVar[str] = "svd-taylor-published"
    ours: ClassVar[type[KernelRoot]] = SVDTaylor

    degree: int = 100


@dataclass(frozen=True)
class SVDPadePublished(PublishedRoot):
    """SVD-Pade with the gradient as published: the Padé approximant of the kernel."""

    name: ClassVar[str] = "svd-pade-published"
    ours: ClassVar[type[KernelRoot]] = SVDPade

    degree: int = 100


@dataclass(frozen=True)
class SVDTopNPublished(PublishedRoot):
    """SVD-TopN with the gradient as published: the ``count`` largest eigenvalues."""

    name: ClassVar[str] = "svd-topn-published"
    ours: ClassVar[type[KernelRoot]] = SVDTopN

    count: int = 200


@dataclass(frozen=True)
class _Published(Smooth):
    """``P -> Q`` with that gradient; the factors are eigenvalues and eigenvectors."""

    link: ClassVar[int | None] = 1

    method: PublishedRoot

    @property
    def name(self) -> str:
        return self.method.name

    def value(self, P: Tensor) -> tuple[Tensor, ...]:
        _, lam, Vh = svd_forward(P, False, None)
        U = Vh.mT.contiguous()
        if self.method.keep is not None:
            lam[..., self.method.keep :] = 0
        lam = lam.clamp_min(torch.finfo(P.dtype).eps)
        return (U * lam.sqrt().unsqueeze(-2)) @ U.mT, lam, U

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return A

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        lam, U, _ = factors
        return published_gradient(g, lam, U, self.method.pair_kernel)

    def jvp(self, factors: Factors, dA: Tensor) -> NoReturn:
        raise RuntimeError(f"{self.name} has no forward mode: its equations {_ADVICE}")

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> NoReturn:
        raise RuntimeError(f"{self.name} has no second derivative: its equations {_ADVICE}")

    jvp_of_jvp = vjp_of_jvp


_ADVICE = (
    "are those of a backward, and not the derivative of the root; use the method without -published in its "
    "name, or exact"
)


def published_gradient(G: Tensor, lam: Tensor, U: Tensor, kernel: PairKernel) -> Tensor:
    """The gradient to the covariances: both steps, not symmetrised.

    Args:
        G: gradient to the roots, ``(..., d, d)``.
        lam: eigenvalues, at least eps, ``(..., d)``.
        U: eigenvectors in columns.
        kernel: of pairs of eigenvalues.
    """
    s = lam.sqrt().unsqueeze(-2)
    to_vectors = (G + G.mT) @ (U * s)
    to_values = (U * (G @ U)).sum(-2, keepdim=True) / (2 * s)
    inner = published_kernel(lam, kernel).mT * (U.mT @ to_vectors)
    inner = inner + torch.diag_embed(to_values.squeeze(-2))
    return U @ inner @ U.mT


def published_kernel(lam: Tensor, kernel: PairKernel) -> Tensor:
    """K of a batch of spectra: positive at ties, and with its infinities replaced.

    Infinity becomes the largest finite entry of the batch, minus infinity the smallest, and NaN the largest.
    """
    n = lam.shape[-1]
    i, j = torch.triu_indices(n, n, 1, device=lam.device)
    first, second = lam[..., i], lam[..., j]
    entries = kernel(torch.maximum(first, second), torch.minimum(first, second))
    K = torch.zeros_like(lam).unsqueeze(-1).repeat_interleave(n, -1)
    K[..., i, j] = torch.where(first >= second, entries, -entries)
    K[..., j, i] = torch.where(second >= first, entries, -entries)
    if K.numel() == 0:
        return K
    finite = K.isfinite()
    highest = torch.where(finite, K, -math.inf).amax()
    lowest = torch.where(finite, K, math.inf).amin()
    return torch.where(finite, K, torch.where(K.isneginf(), lowest, highest))


# --------------------------------------------------------------------------------------------------
# The Padé approximant of the paper's code


@functools.cache
def pade_coefficients(degree: int, digits: int = 20) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of the diagonal approximant of 1/(1 - x), solved for in so many digits.

    ``degree`` counts numerator and denominator together: 100 is [50/50]. The linear system is singular,
    because 1/(1 - x) is itself a quotient of polynomials. Its coefficients come from numerical
    differentiation and are ones up to rounding, and it is that rounding which the solution is made of.
    Where it does not help (degree 20 in 30 digits), the solver raises ``ZeroDivisionError``.
    """
    import mpmath  # type: ignore[import-untyped]  # comes with torch, by way of sympy

    with mpmath.workdps(digits):
        series = mpmath.taylor(lambda x: 1 / (1 - x), 0, degree)
        p, q = mpmath.pade(series, degree - degree // 2, degree // 2)
        return tuple(float(c) for c in p), tuple(float(c) for c in q)


def sum_of_powers(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """A polynomial, lowest power first, by adding one power after the other, as the paper's code does."""
    value = torch.full_like(x, coefficients[0])
    power = torch.ones_like(x)
    for c in coefficients[1:]:
        power *= x
        value += power if c == 1 else c * power
    return value
