r"""The root, scaled by a function of the trace: the scaling eigen-branch.

.. math:: R = (1 + \nu)\, Q, \qquad Q = P^{1/2}, \qquad
    \nu = \| Q e^{-P} \|_F = \Big( \sum_i \lambda_i e^{-2 \lambda_i} \Big)^{1/2} .

The scale is a trace function of P, whose gradient is :math:`U \mathrm{diag}(\nu'_i) U^T` with
:math:`\nu'_i = e^{-2\lambda_i} (1 - 2\lambda_i) / (2 \nu)`: eigenvectors come in whole eigenspaces, and there
is no gap in it. For an upstream gradient G,

.. math:: \frac{\partial l}{\partial P} = (1 + \nu)\, \mathrm{d}Q^*[G] + \langle G, Q \rangle\,
    U \mathrm{diag}(\nu'_i) U^T .

With respect to the features that term is :math:`2 \langle G, Q \rangle U \mathrm{diag}(\nu'_i s_i) V^T`, and
:math:`s_i / \nu` stays bounded as P tends to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import expm, sqrtm
from rootpool.linalg.products import product
from rootpool.linalg.units import power_of_two

from .spectral_roots import Exact, SpectralRoot

__all__ = ["ScalingEigenBranch"]

VANISHES = 1000.0  # e to the minus this is zero, in every precision


@dataclass(frozen=True)
class ScalingEigenBranch(SpectralRoot):
    r"""The root times :math:`1 + \|P^{1/2} e^{-P}\|_F`, the scaling eigen-branch (Song et al. 2022).

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

    def weights(self, s: Tensor) -> Tensor | None:
        if s.shape[1] == 0:
            return None
        return (1 + self._branch(s)[0]).expand_as(s)

    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        nu, slope = self._branch(s)
        exact, _ = Exact().feature_gradient(s, Z)
        inner = exact * (1 + nu).unsqueeze(-1)
        product = Z.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) / 2  # <G, Q>
        inner.diagonal(dim1=-2, dim2=-1).add_(product * slope)
        return inner, (1 + nu).expand_as(s)
