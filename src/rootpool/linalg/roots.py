"""Inverse p-th roots, as preconditioners need them (Shampoo)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from .functions import SpectralOptions, apply_function
from .parameters import check_at_least
from .scalar import FUNCTIONS, Power

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in Python itself from 3.11 on

__all__ = ["inverse_root"]


def inverse_root(A: Tensor, p: int, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Inverse p-th root :math:`A^{-1/p}` of positive definite ``A``: the inverse for p = 1.

    .. math:: L_{ij} = \frac{\lambda_i^{-1/p} - \lambda_j^{-1/p}}{\lambda_i - \lambda_j}

    without the cancellation. First and second derivatives are exact at ties.

    Args:
        A: symmetric positive definite matrices ``(..., n, n)``, float32 or float64.
        p: positive integer.
        options: as in :func:`matrix_function`; ``eigenvalue_floor`` is for singular matrices.

    Reference: Gupta, Koren and Singer, Shampoo: preconditioned stochastic tensor optimization, ICML
    2018, which uses p = 4; DASH and others use 2.

    >>> import torch
    >>> inverse_root(torch.eye(2) * 16, 4).diagonal()
    tensor([0.5000, 0.5000])
    """
    check_at_least("p", p, 1)
    function = FUNCTIONS["inv_sqrt"] if p == 2 else Power(-1 / p)
    return apply_function(A, function, "inverse_root", **options)
