"""The paper's layer, exactly as its equations and its published code define it.

It is not meant for training: it shows what the gradients of these definitions are at ties.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rootpool.nn import MPNCov, SVDPade, SVDTaylor, SVDTrunc
from rootpool.nn.published import PairKernel

__all__ = ["REFERENCE_KERNELS", "reference_gradient"]


def _laundered(a: Tensor, b: Tensor) -> Tensor:
    """Infinities replaced by the largest finite entry, as the published code does."""
    K = 1 / (a - b)
    infinite = K.isinf()
    return torch.where(infinite, K[~infinite].amax(), K)


# Our method of the same kind, and the kernel of the reference.
REFERENCE_KERNELS: dict[str, tuple[str, PairKernel]] = {
    "SVD": ("mpn-cov", MPNCov().pair_kernel),
    "SVD, infinities replaced": ("mpn-cov", _laundered),
    "SVD-Trunc": ("svd-trunc", SVDTrunc().pair_kernel),
    "SVD-Taylor": ("svd-taylor", SVDTaylor().pair_kernel),
    "SVD-Pade": ("svd-pade", SVDPade().pair_kernel),
}


def reference_gradient(X: Tensor, G: Tensor, kernel: PairKernel) -> Tensor:
    """Equations (4) to (6) of the paper: the gradient of the root with respect to features ``(d, N)``."""
    d, N = X.shape
    A = X - X.mean(-1, keepdim=True)
    U, lam, _ = torch.linalg.svd(A @ A.mT / N)
    lam = lam.clamp_min(torch.finfo(lam.dtype).eps)
    row, column = torch.triu_indices(d, d, 1)
    K = lam.new_zeros(d, d)
    K[row, column] = kernel(lam[row], lam[column])
    K = K - K.mT
    to_vectors = (G + G.mT) @ (U * lam.sqrt())
    to_values = (U.mT @ G @ U).diagonal() / (2 * lam.sqrt())
    to_covariance = U @ (K.mT * (U.mT @ to_vectors) + torch.diag(to_values)) @ U.mT
    return (to_covariance + to_covariance.mT) @ A / N
