r"""Functions of symmetric matrices with exact derivatives at repeated, tiny and zero eigenvalues.

With :math:`A = U \Lambda U^T` and :math:`F = f(A) = U f(\Lambda) U^T`, the theorem of Daleckii and
Krein (1965; Higham, *Functions of Matrices*, 2008, section 3.2) says

.. math:: dF = U \left( L \circ (U^T dA\, U) \right) U^T, \qquad L_{ij} = f[\lambda_i, \lambda_j].

No eigenvector is differentiated and no gap divided by. :math:`L` is symmetric, hence the map is its
own transpose and the backward is the same formula. The second derivative, in the eigenbasis and for
symmetric directions G and W, is

.. math:: \sum_k f[\lambda_i, \lambda_k, \lambda_j] \left( G_{ik} W_{kj} + W_{ik} G_{kj} \right),

a symmetric trilinear form with the third direction, so it is the backward of the backward.

With a gradient rule the paper's kernel takes the place of the gap: :math:`L_{ij} = K_{ij} (f_i -
f_j)`, and :math:`f'` at ties, where no kernel could give the right value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .checks import bad_item, check_range, is_concrete
from .decompose import eigh_forward
from .differentiation import hermitian_part
from .parallel import batchwise
from .rules import Rule
from .scalar import ScalarFunction
from .smooth import Factors, Smooth
from .solvers import is_tiny


@dataclass(frozen=True)
class MatrixFunction(Smooth):
    """``A -> f(A)``; the factors are eigenvalues and eigenvectors. The latter carry the gradient of A."""

    name = "matrix functions"
    link: ClassVar[int | None] = 1

    function: ScalarFunction
    caller: str
    rule: Rule | None = None
    solver_device: str | torch.device | None = None
    eps: float = 0.0  # as in eigh_forward

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        if not is_concrete(A) or self.solver_device is not None or is_tiny(A):
            return self._value(A)
        return batchwise(self._value, A, trailing=[2])

    def _value(self, A: Tensor) -> tuple[Tensor, ...]:
        lam, U = eigh_forward(A, self.function.domain, self.caller, self.solver_device, self.eps)
        F = (U * self.function.values(lam).unsqueeze(-2)) @ U.mH
        check_range(F, self.caller)
        return F, lam, U

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return A

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        lam, U, *_ = factors
        if not is_concrete(lam, U, dA):
            return self._jvp(lam, U, dA)[0]
        return batchwise(self._jvp, lam, U, dA, trailing=[1, 2, 2], effort=0.2)[0]

    def _jvp(self, lam: Tensor, U: Tensor, dA: Tensor) -> tuple[Tensor]:
        inner = self.function.coefficients(lam, self.rule) * (U.mH @ dA @ U)
        result = U @ hermitian_part(inner) @ U.mH
        check_range(result, "the derivative of", dA, of=self.function)
        return (result,)

    vjp = jvp

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        f = self.function
        if self.rule is not None:
            raise RuntimeError(
                f"second derivatives with the gradient rule {self.rule} do not exist, because its "
                "first derivative is not the derivative of anything; use rule=None"
            )
        lam, U, *_ = factors
        if not f.twice_at_zero and (singular := bad_item((lam == 0).any(-1))):
            raise torch.linalg.LinAlgError(
                f"{f} has no second derivative here at the singular matrix {singular}; add a ridge to A"
            )
        G, W = (U.mH @ hermitian_part(direction) @ U for direction in (v, w))
        second = U @ hermitian_part(f.second_product(lam, G, W)) @ U.mH
        check_range(second, "the second derivative of", v, w, of=f)
        return second

    vjp_of_jvp = jvp_of_jvp
