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
    This is here to measure what the paper is about, and nothing else should use it. Training with it can
    diverge, one sample changes the gradient of all others in the batch, and it hides infinities, which no
    other part of this library does. The default gradients have none of this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from rootpool.linalg.decompose import svd_forward

__all__ = [
    "PairKernel",
    "pade_coefficients",
    "polynomial",
    "published_gradient",
    "published_kernel",
    "published_root",
    "sum_of_powers",
]

# From the larger and the smaller eigenvalue of each pair to K_ij.
PairKernel: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Number = TypeVar("Number", float, Tensor)


def published_root(P: Tensor, kernel: PairKernel, keep: int | None = None) -> Tensor:
    """The root of covariances ``(..., d, d)``, with the published gradient.

    Args:
        P: the covariances.
        kernel: from the larger and the smaller eigenvalue of each pair to the kernel.
        keep: how many of the largest eigenvalues to keep; the others are set to eps. None: all.
    """
    root: Tensor = _PublishedRoot.apply(P, kernel, keep)[0]
    return root


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
            "gradients as published have no second derivative; use backward='fused', or exact"
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
