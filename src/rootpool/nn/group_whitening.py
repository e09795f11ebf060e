"""Whitening of each sample by itself, between groups of its channels."""

from __future__ import annotations

import torch
from torch import Tensor

from rootpool.linalg.precision import no_autocast
from rootpool.linalg.products import product

from .precision import working_dtype
from .whitening_layer import WhiteningLayer
from .whitening_methods import WhiteningMethod

__all__ = ["GroupWhitening"]


class GroupWhitening(WhiteningLayer):
    r"""Group Whitening: each sample is whitened by itself, between groups of its channels.

    A sample with C channels and N positions becomes a matrix X of g rows, one per group of C/g neighbouring
    channels, and m = (C/g) N columns. With :math:`\mu` the mean of each row,

    .. math::
        \Sigma = \tfrac1m (X - \mu)(X - \mu)^T, \qquad Y = W (X - \mu),

    where :math:`W = (\Sigma + \varepsilon I)^{-1/2}` by default, takes the place of X. So
    the groups are decorrelated, not the channels within one: group norm, with whitening instead of
    standardisation. Nothing depends on other samples, there are no running statistics, and training and
    evaluation are the same.

    Args:
        num_features: channels C.
        groups: number of groups g, which must divide the channels; 64 in the paper's networks. A sample
            should have more than g columns, m > g.
        eps: ridge :math:`\varepsilon`.
        affine: whether a learned scale and shift of each channel follow.
        method: ``"exact"``, ``"newton"`` or ``"cholesky"``, or a value such as
            ``NewtonWhitening(iterations=7)``.
        compute_dtype: the precision of statistics and inverse root; None for float64 where the device
            has it.

    Shape:
        ``(B, C, *)`` to the same.

    Reference: Huang et al., Group whitening: balancing learning efficiency and representational capacity,
    CVPR 2021.

    >>> Y = GroupWhitening(6, groups=3, eps=1e-9)(torch.randn(2, 6, 5, 5))
    >>> rows = Y[0].reshape(3, -1)
    >>> torch.allclose(rows @ rows.T / 50, torch.eye(3), atol=1e-4)
    True
    """

    def __init__(
        self,
        num_features: int,
        groups: int,
        eps: float = 1e-5,
        *,
        affine: bool = False,
        method: str | WhiteningMethod = "exact",
        compute_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_features, groups, eps, affine, method, compute_dtype)

    def forward(self, features: Tensor) -> Tensor:
        self._check_features(features)
        columns = features.shape[1:].numel() // self.groups
        if columns < 2:
            raise ValueError(
                f"GroupWhitening needs two values or more per group and sample, got {columns}; use fewer "
                "groups, or larger maps"
            )
        with no_autocast(features.device):
            dtype = working_dtype(self.compute_dtype, features.device)
            X = features.to(dtype).reshape(len(features), self.groups, columns)
            mean = X.mean(-1, keepdim=True)
            centred = X - mean
            covariance = product(centred, centred.mT) / columns
            self._check_covariance(covariance, mean)
            Y = self.method(covariance, centred, self.eps, 0.0)
            return self._output(Y.reshape(features.shape), features)
