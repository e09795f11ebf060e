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
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor

from rootpool.linalg.decompose import svd_forward
from rootpool.linalg.parameters import check_at_least, check_positive

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
    "polynomial",
    "published_gradient",
    "published_kernel",
    "sum_of_powers",
]

# From the larger and the smaller eigenvalue of each pair to K_ij.
PairKernel: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Number = TypeVar("Number", float, Tensor)


class PublishedRoot(Method):
    """The root of covariances with the published gradient; subclasses differ in the kernel."""

    source: ClassVar[str] = "published"

    @property
    def keep(self) -> int | None:
        """How many of the largest eigenvalues to keep; the others are set to eps. None: all."""
        return None

    @abstractmethod
    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        """The kernel of the larger and the smaller eigenvalue of each pair."""

    def __call__(self, P: Tensor) -> Tensor:
        root: Tensor = _PublishedRoot.apply(P, self.pair_kernel, self.keep)[0]
        return root


@dataclass(frozen=True)
class MPNCovPublished(PublishedRoot):
    """MPN-COV with the gradient as published: the ordinary kernel."""

    name: ClassVar[str] = "mpn-cov-published"
    use: ClassVar[str] = "to measure what the paper is about: mpn-cov by its equations"

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return 1 / (larger - smaller)


@dataclass(frozen=True)
class SVDTruncPublished(PublishedRoot):
    """SVD-Trunc with the gradient as published: the kernel clipped to ``[-bound, bound]``."""

    name: ClassVar[str] = "svd-trunc-published"
    use: ClassVar[str] = "to measure what the paper is about: svd-trunc by its equations"

    bound: float = 1e10

    def __post_init__(self) -> None:
        check_positive("SVDTruncPublished.bound", self.bound)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return (1 / (larger - smaller)).clamp(-self.bound, self.bound)


@dataclass(frozen=True)
class SVDPIPublished(PublishedRoot):
    """SVD-PI with the gradient as published: the series of power iteration."""

    name: ClassVar[str] = "svd-pi-published"
    use: ClassVar[str] = "to measure what the paper is about: svd-pi by its equations"

    iterations: int = 20

    def __post_init__(self) -> None:
        check_at_least("SVDPIPublished.iterations", self.iterations, 1)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return sum_of_powers((1.0,) * self.iterations, smaller / larger) / larger


@dataclass(frozen=True)
class SVDTaylorPublished(PublishedRoot):
    """SVD-Taylor with the gradient as published: the Taylor polynomial of the kernel."""

    name: ClassVar[str] = "svd-taylor-published"
    use: ClassVar[str] = "to measure what the paper is about: svd-taylor by its equations"

    degree: int = 100

    def __post_init__(self) -> None:
        check_at_least("SVDTaylorPublished.degree", self.degree, 0)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return sum_of_powers((1.0,) * (self.degree + 1), smaller / larger) / larger


@dataclass(frozen=True)
class SVDPadePublished(PublishedRoot):
    """SVD-Pade with the gradient as published: the Padé approximant of the kernel."""

    name: ClassVar[str] = "svd-pade-published"
    use: ClassVar[str] = "to measure what the paper is about: svd-pade by its equations"

    degree: int = 100

    def __post_init__(self) -> None:
        check_at_least("SVDPadePublished.degree", self.degree, 1)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        p, q = pade_coefficients(self.degree)
        x = smaller / larger
        return sum_of_powers(p, x) / sum_of_powers(q, x) / larger


@dataclass(frozen=True)
class SVDTopNPublished(MPNCovPublished):
    """SVD-TopN with the gradient as published: the ``count`` largest eigenvalues."""

    name: ClassVar[str] = "svd-topn-published"
    use: ClassVar[str] = "to measure what the paper is about: svd-topn by its equations"

    count: int = 200

    def __post_init__(self) -> None:
        check_at_least("SVDTopNPublished.count", self.count, 1)

    @property
    def keep(self) -> int | None:
        return self.count


class _PublishedRoot(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(P: Tensor, kernel: PairKernel, keep: int | None) -> tuple[Tensor, Tensor, Tensor]:
        _, lam, Vh = svd_forward(P, False, None)
        U = Vh.mT
        if keep is not None:
            lam[..., keep:] = 0
        lam = lam.clamp_min(torch.finfo(P.dtype).eps)
        return (U * lam.sqrt().unsqueeze(-2)) @ U.mT, lam, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        P, ctx.kernel, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(P, *output[1:])

    @staticmethod
    def backward(ctx: Any, G: Tensor, *_: Tensor) -> tuple[Tensor, None, None]:
        P, lam, U = ctx.saved_tensors
        return _PublishedGradient.apply(P, G, lam, U, ctx.kernel), None, None


class _PublishedGradient(torch.autograd.Function):
    """The backward. ``P`` is an input only so that a second derivative meets the refusal below."""

    generate_vmap_rule = True

    @staticmethod
    def forward(P: Tensor, G: Tensor, lam: Tensor, U: Tensor, kernel: PairKernel) -> Tensor:
        return published_gradient(G, lam, U, kernel)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "gradients as published have no second derivative; use the method without -published "
            "in its name, or exact"
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


def polynomial(coefficients: Sequence[float], x: Number) -> Number:
    """Lowest power first, by Horner's rule."""
    value = 0 * x
    for c in reversed(coefficients):
        value = value * x + c
    return value


def sum_of_powers(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """The same, by adding one power after the other, as the paper's code does: it rounds differently."""
    value = torch.full_like(x, coefficients[0])
    power = torch.ones_like(x)
    for c in coefficients[1:]:
        power *= x
        value += power if c == 1 else c * power
    return value
