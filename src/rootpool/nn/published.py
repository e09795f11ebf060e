r"""The root with the gradient *as published*: the equations of the paper, as its code evaluates them.

For :math:`P = U \Lambda U^T`, :math:`Q = U \Lambda^{1/2} U^T` and :math:`G = \partial l / \partial Q`
the paper has two steps,

.. math::
    \frac{\partial l}{\partial U} = (G + G^T)\, U \Lambda^{1/2}, \qquad
    \frac{\partial l}{\partial \Lambda} = \tfrac12 \Lambda^{-1/2} (U^T G U)_\mathrm{diag},

.. math::
    \frac{\partial l}{\partial P} = U \left( K^T \circ \big( U^T \tfrac{\partial l}{\partial U} \big)
    + \tfrac{\partial l}{\partial \Lambda} \right) U^T ,

with eigenvalues at or below eps raised to eps, everything in the precision of P, and infinite entries of
K replaced by the largest finite entry of the whole batch. Two terms of each pair that ought to cancel are
multiplied by an entry of K before they meet, so that near ties their rounding errors are what remains.

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

from rootpool.linalg.decompose import eigh_forward

__all__ = [
    "PairKernel",
    "pade_coefficients",
    "polynomial",
    "published_gradient",
    "published_kernel",
    "published_root",
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
        lam, U = (t.flip(-1) for t in eigh_forward(P, "triangle", "covariance_pool", None))
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
        lam: eigenvalues in descending order, at least eps, ``(..., d)``.
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
    """K of a batch of spectra in descending order, with its infinities replaced.

    Its upper triangle is computed and the lower one is minus that. An entry that is not finite becomes the
    largest finite entry of the batch, whatever its sign was; 0 if there is no finite entry.
    """
    K = kernel(lam.unsqueeze(-1), lam.unsqueeze(-2))
    above = torch.ones(K.shape[-2:], dtype=torch.bool, device=K.device).triu(1)
    finite = K.isfinite()
    largest = torch.where(finite & above, K, -math.inf).amax() if K.numel() else K.sum()
    K = torch.where(finite, K, torch.where(largest == -math.inf, 0, largest)).triu(1)
    return K - K.mT


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
