r"""Roots by eigendecomposition: the same value, different gradients.

A spectral root also knows its gradient with respect to the *features* of a covariance, which
:mod:`rootpool.nn.fused` computes for whole batches.

With :math:`A = (X - \bar X)/\sqrt N = U\,\mathrm{diag}(s) V^T`, :math:`P = A A^T` and
:math:`\lambda = s^2`, the gradient of :math:`Q = P^{1/2}` with coefficients :math:`L_{ij}` between two
eigenvalues and :math:`l_i` between an eigenvalue and the null space is, for :math:`2S = G + G^T`,

.. math::
    \frac{\partial l}{\partial A} = \left[ U (L \circ M) + (I - U U^T)\, 2 S U \,\mathrm{diag}(l)
    \right] \mathrm{diag}(s) V^T, \qquad M = U^T (2 S) U .

In terms of :math:`W = U \mathrm{diag}(\sqrt s)`, for which :math:`Q = W W^T`, and
:math:`Z = W^T (2S) W`:

.. math::
    \frac{\partial l}{\partial A} = \left[ 2 S W \mathrm{diag}(l s) + W \left( (L_{ij} - l_j)
    \tfrac{s_j}{s_i} Z_{ij} \right) \right] \mathrm{diag}(s^{-1/2}) V^T .

For the exact gradient :math:`L_{ij} = 1/(s_i + s_j)` and :math:`l_i = 1/s_i`, which leaves
:math:`2SW - W(Z_{ij}/(s_i + s_j))`: no gap and no singularity.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import sqrtm

from .method import KernelBound, Method

__all__ = ["Exact", "SpectralRoot", "assemble", "power_of_two", "relative"]


class SpectralRoot(Method):
    """The square root by eigendecomposition; subclasses differ in the gradient.

    ``twice`` says whether that gradient is the derivative of the root itself, so that it can be
    differentiated again. ``homogeneous`` says whether the result scales as the features do (but for the
    floor). ``narrow`` says whether the digits of the features are enough for all that follows the
    decomposition; the method must be homogeneous then, and without a floor. ``inner`` has to be linear in
    ``Z``.
    """

    twice: ClassVar[bool] = False
    homogeneous: ClassVar[bool] = True
    narrow: ClassVar[bool] = False

    def floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues below are raised to this: ``eps``, as in the paper."""
        return torch.finfo(dtype).eps

    def gradient_floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues up to this get no gradient: the floor, whose derivative is zero."""
        return self.floor(dtype)

    @property
    def fused(self) -> bool:
        """Whether :mod:`rootpool.nn.fused` computes it; otherwise the method is called on covariances."""
        return True

    @property
    def fused_value(self) -> bool:
        """The same where no gradient is asked for."""
        return self.fused

    @property
    def keep(self) -> int | None:
        """How many of the largest eigenvalues to keep; None: all."""
        return None

    def base(self, like: Tensor) -> Tensor | float:
        """The value of the null space: the root of the floor; a number of the dtype of ``like``."""
        return math.sqrt(self.floor(like.dtype))

    def shares(self, s: Tensor) -> Tensor | None:
        """The shares of the columns of W in ``W diag(shares) W^T + base I``; None: ones.

        Args:
            s: roots of the eigenvalues, ascending, ``(B, r)``; dropped ones are 0.
        """
        base = math.sqrt(self.floor(s.dtype))
        if not base and self.keep is None:
            return None
        # Not 0 / s: torch multiplies with the reciprocal, which is infinite for denormal numbers.
        share = (1 - base / torch.where(s > 0, s, torch.inf)).clamp_min(0) if base else s.sign()
        if self.keep is not None:
            share[:, : max(0, share.shape[1] - self.keep)] = 0
        return share

    @abstractmethod
    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        r"""The matrix between W and :math:`s^{-1/2} V^T`, and the column scale of 2SW (None: ones).

        Args:
            s: roots of the eigenvalues of the covariances, ascending, ``(B, r)``; dropped ones are 0.
            Z: :math:`W^T (2S) W`, ``(B, r, r)``.
        """

    def at(self, parameters: Tensor) -> SpectralRoot:
        """The method with given values ``(k,)`` of its trainable parameters; itself if it has none."""
        return self

    def parameter_gradients(self, s: Tensor, Z: Tensor, trace: Tensor) -> Tensor:
        """The gradient to the trainable parameters from each map, ``(B, k)``.

        Args:
            s: as in `inner`.
            Z: as in `inner`.
            trace: of the gradient of the result, ``(B, 1)``, in which the null space has its part.
        """
        return s.new_empty(len(s), 0)


def power_of_two(s: Tensor) -> Tensor:
    """A power of two near the largest ``s``, ``(B, 1)``."""
    return torch.ldexp(torch.ones_like(s[:, -1:]), torch.frexp(s[:, -1:]).exponent)


def relative(s: Tensor) -> Tensor:
    """``s`` over the root of its sum of squares, ``(B, r)``: in units of the root of the trace."""
    s = s / power_of_two(s)  # whose squares neither overflow nor vanish
    norm = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    return s / torch.where(norm == 0, 1, norm)


def assemble(L: Tensor, null: Tensor, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor]:
    """``(L_ij - l_j) s_j / s_i Z_ij`` and ``l_j s_j``; rows and columns of zeros stay zero."""
    s = torch.where(s == 0, 1, s)
    return (L - null.unsqueeze(-2)) * (s.unsqueeze(-2) / s.unsqueeze(-1)) * Z, null * s


@dataclass(frozen=True)
class Exact(SpectralRoot):
    """Our method: the exact gradient, whose coefficients lie in [0, 1]. Nothing to choose."""

    name: ClassVar[str] = "exact"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "the default"
    twice: ClassVar[bool] = True
    narrow: ClassVar[bool] = True

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P)

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        return Z / -torch.where(sums == 0, 1, sums), None

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        """The largest coefficient of the gradient to the features."""
        return KernelBound(1.0, "s_j / (s_i + s_j) <= 1", "s_i = 0 < s_j")
