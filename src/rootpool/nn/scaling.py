r"""Scalings of pooled vectors as values: ``(B, d)`` in, ``(B, d)`` out.

The paper leaves the triangle of the root as it is. When vectors of several poolings meet in one
classifier their relative sizes matter, and a scaling sets them. Any function of vectors is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from rootpool.linalg.parameters import check_positive

Scaling: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Length:
    r"""Every vector brought to the same Euclidean length.

    .. math::
        v \mapsto \text{length} \, \frac{u}{|u|}, \qquad
        u_i = \mathrm{sign}(v_i) |v_i|^\text{power}

    ``Length(1)`` is L2 normalisation; with ``power=0.5``, of the signed square root, which
    B-CNN (Lin et al. 2015) and improved Fisher vectors use. Zero vectors stay zero. A power below 1 has
    an infinite derivative at zero entries; there it is 0.

    >>> Length(10.0)(torch.tensor([[3.0, -4.0], [0.0, 0.0]]))
    tensor([[ 6., -8.],
            [ 0.,  0.]])
    """

    length: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_positive("Length.length", self.length)
        check_positive("Length.power", self.power)

    def __call__(self, vectors: Tensor) -> Tensor:
        # A sum of squares needs more range than half precision has.
        u = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        if self.power != 1:
            zero = u == 0
            u = torch.where(zero, 0, torch.where(zero, 1, u).abs() ** self.power * u.sign())
        # In units of the largest entry the squares neither overflow nor vanish; the result does not
        # depend on the unit, so that it needs no derivative.
        largest = u.detach().abs().amax(-1, keepdim=True)
        u = u / torch.where(largest == 0, 1, largest)
        norm = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        return (u * (self.length / torch.where(norm == 0, 1, norm))).to(vectors.dtype)
