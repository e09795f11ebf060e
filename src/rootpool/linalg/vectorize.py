"""Symmetric matrices as vectors of their upper triangle, row by row."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def triangle_size(n: int) -> int:
    """Number of entries on and above the diagonal of an ``n x n`` matrix.

    >>> triangle_size(3)
    6
    """
    return n * (n + 1) // 2


def triangle_weights(
    n: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    r"""1 on the diagonal, :math:`\sqrt2` off it: with them triangles have the Frobenius inner product.

    .. math:: \langle w \circ \mathrm{tri}(A), w \circ \mathrm{tri}(B) \rangle = \mathrm{tr}(A B)

    >>> triangle_weights(2)
    tensor([1.0000, 1.4142, 1.0000])
    """
    row, column = torch.triu_indices(n, n, device=device).unbind()
    weights = torch.full((triangle_size(n),), math.sqrt(2), dtype=dtype, device=device)
    return weights.masked_fill(row == column, 1)


def to_triangle(A: Tensor) -> Tensor:
    """Upper triangle of ``A`` ``(..., n, n)`` in row-major order, ``(..., n (n + 1) / 2)``.

    >>> to_triangle(torch.tensor([[1, 2], [2, 3]]))
    tensor([1, 2, 3])
    """
    if A.dim() < 2 or A.shape[-2] != A.shape[-1]:
        raise ValueError(f"to_triangle expects (..., n, n), got {tuple(A.shape)}")
    n = A.shape[-1]
    row, column = torch.triu_indices(n, n, device=A.device).unbind()
    return A.reshape(*A.shape[:-2], n * n)[..., row * n + column]


def from_triangle(vector: Tensor) -> Tensor:
    """The symmetric, or complex Hermitian, matrices ``(..., n, n)`` whose upper triangle is ``vector``.

    >>> from_triangle(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [2, 3]])
    """
    size = vector.shape[-1] if vector.dim() else 0
    n = (math.isqrt(8 * size + 1) - 1) // 2
    if vector.dim() == 0 or triangle_size(n) != size:
        raise ValueError(
            f"from_triangle expects (..., n (n + 1) / 2) entries, got {tuple(vector.shape)}"
        )
    row, column = torch.triu_indices(n, n, device=vector.device)
    source = torch.empty(n, n, dtype=torch.long, device=vector.device)
    source[row, column] = source[column, row] = torch.arange(size, device=vector.device)
    A = vector[..., source]
    return torch.triu(A) + torch.tril(A, -1).conj() if A.is_complex() else A
