r"""Roots by eigendecomposition: the same value, different gradients.

A spectral root also knows its gradient with respect to the *features* of a covariance, which
:mod:`rootpool.nn.fused` derives, and computes for whole batches.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import expm, sqrtm
from rootpool.linalg.precision import product
from rootpool.linalg.solvers import power_of_two

from .method import Method

VANISHES = 1000.0  # e to the minus this is zero, in every precision


class SpectralRoot(Method):
    """The square root by eigendecomposition; subclasses differ in the gradient.

    ``twice_differentiable`` says whether that gradient is the derivative of the root itself, so that it can
    be differentiated again. ``low_precision_ok`` says whether everything after the decomposition may be
    computed in the dtype of the features; the result must then scale as the features do, without a floor.
    ``feature_gradient`` has to be linear in ``Z``.
    """

    twice_differentiable: ClassVar[bool] = False

    def floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues below are raised to this: ``eps``, as in the paper."""
        return torch.finfo(dtype).eps

    def gradient_floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues up to this get no gradient: the floor, whose derivative is zero."""
        return self.floor(dtype)

    def weights(self, s: Tensor) -> Tensor | None:
        r"""The weights of the columns of W in :math:`W diag(weights) W^T + \sqrt{floor} I`; None: ones.

        Args:
            s: roots of the eigenvalues, ascending, ``(B, r)``; dropped ones are 0.
        """
        null = math.sqrt(self.floor(s.dtype))
        return (1 - null / torch.where(s > 0, s, torch.inf)).clamp_min(0) if null else None

    @abstractmethod
    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        r"""The matrix between W and :math:`s^{-1/2} V^T`, and the column scale of 2SW (None: ones).

        Args:
            s: roots of the eigenvalues of the covariances, ascending, ``(B, r)``; dropped ones are 0.
            Z: :math:`W^T (2S) W`, ``(B, r, r)``.
        """


def root_trace(s: Tensor) -> Tensor:
    """The root of the sum of squares of ``s``, ``(B, 1)``: of the trace; 1 for zeros."""
    unit = power_of_two(s[:, -1:])  # in which squares neither overflow nor vanish
    norm = torch.linalg.vector_norm(s / unit, dim=-1, keepdim=True)
    return torch.where(norm == 0, 1, norm * unit)


def assemble(L: Tensor, null: Tensor, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor]:
    """``(L_ij - l_j) s_j / s_i Z_ij`` and ``l_j s_j``; rows and columns of zeros stay zero."""
    s = torch.where(s == 0, 1, s)
    return (L - null.unsqueeze(-2)) * (s.unsqueeze(-2) / s.unsqueeze(-1)) * Z, null * s


@dataclass(frozen=True)
class Exact(SpectralRoot):
    """Exact gradient with coefficients in [0, 1]; no parameters."""

    name: ClassVar[str] = "exact"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "the default"
    twice_differentiable: ClassVar[bool] = True
    low_precision_ok: ClassVar[bool] = True

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P)

    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        return Z / -torch.where(sums == 0, 1, sums), None


@dataclass(frozen=True)
class ScalingEigenBranch(SpectralRoot):
    r"""The root, scaled by a function of the trace: the scaling eigen-branch (Song et al. 2022).

    .. math:: R = (1 + \nu)\, Q, \qquad Q = P^{1/2}, \qquad
        \nu = \| Q e^{-P} \|_F = \Big( \sum_i \lambda_i e^{-2 \lambda_i} \Big)^{1/2} .

    The scale is a trace function of P, whose gradient is :math:`U \mathrm{diag}(\nu'_i) U^T` with
    :math:`\nu'_i = e^{-2\lambda_i} (1 - 2\lambda_i) / (2 \nu)`: eigenvectors come in whole eigenspaces, and
    there is no gap in it. For an upstream gradient G,

    .. math:: \frac{\partial l}{\partial P} = (1 + \nu)\, \mathrm{d}Q^*[G] + \langle G, Q \rangle\,
        U \mathrm{diag}(\nu'_i) U^T .

    With respect to the features that term is
    :math:`2 \langle G, Q \rangle U \mathrm{diag}(\nu'_i s_i) V^T`, and :math:`s_i / \nu` stays bounded as
    P tends to zero.

    The factor lies above 1 and tends to 1 for eigenvalues that are large or zero: unlike the root,
    it depends on the scale of the features. Reference: Song, Sebe and Wang, On the eigenvalues of global
    covariance pooling for fine-grained visual recognition, IEEE TPAMI 2022.

    >>> P = torch.diag(torch.tensor([1.0, 0.0]))
    >>> ScalingEigenBranch()(P)  # 1 + 1 / e
    tensor([[1.3679, 0.0000],
            [0.0000, 0.0000]])
    """

    name: ClassVar[str] = "seb"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to try what the paper's authors propose for fine-grained data"

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        Q = sqrtm(P)
        scale: Tensor = torch.linalg.matrix_norm(product(Q, expm(-P)), keepdim=True)
        return Q * (1 + scale)

    def _branch(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """``nu``, ``(B, 1)``, and ``2 nu' s``, ``(B, r)``."""
        lam = s.square().clamp_max(VANISHES)
        decay = torch.exp(-lam)
        unit = power_of_two(s[:, -1:])  # whose squares neither overflow nor vanish
        norm = torch.linalg.vector_norm(s / unit * decay, dim=-1, keepdim=True)
        slope = s / unit * decay.square() * (1 - 2 * lam) / torch.where(norm == 0, 1, norm)
        return norm * unit, slope

    def weights(self, s: Tensor) -> Tensor:
        return (1 + self._branch(s)[0]).expand_as(s)

    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        nu, slope = self._branch(s)
        exact, _ = Exact().feature_gradient(s, Z)
        inner = exact * (1 + nu).unsqueeze(-1)
        inner_product = Z.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) / 2  # <G, Q>
        inner.diagonal(dim1=-2, dim2=-1).add_(inner_product * slope)
        return inner, (1 + nu).expand_as(s)
