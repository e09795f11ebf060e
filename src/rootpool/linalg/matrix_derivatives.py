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

from .checks import (
    bad_item,
    check_range,
    is_concrete,
)
from .decompose import eigh_forward
from .differentiation import hermitian_part
from .parallel import batchwise
from .rules import Rule
from .scalar import ScalarFunction
from .smooth import Factors, Smooth
from .solvers import is_tiny

__all__ = [
    "MatrixFunction",
    "derivative",
    "derivative_coefficients",
    "evaluate",
    "second_derivative",
]


def derivative_coefficients(function: ScalarFunction, rule: Rule | None, lam: Tensor) -> Tensor:
    """``L`` ``(..., n, n)`` of a spectrum ``(..., n)``: exact, or with the kernel of a rule."""
    if rule is None:
        return function.divided_differences(lam)
    seen = function.kernel_spectrum(lam)
    f, slope = function.values(lam), function.derivatives(lam)
    # Equal eigenvalues have equal derivatives, except across the cut of `Leading`: there 0.
    same = slope.unsqueeze(-1) == slope.unsqueeze(-2)
    return torch.where(
        seen.unsqueeze(-1) == seen.unsqueeze(-2),
        torch.where(same, slope.unsqueeze(-1), 0),
        rule(seen) * (f.unsqueeze(-1) - f.unsqueeze(-2)) * function.kernel_share(lam),
    )


def evaluate(
    A: Tensor,
    function: ScalarFunction,
    caller: str,
    solver_device: str | torch.device | None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """``f(A)``, eigenvalues and eigenvectors."""

    def work(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lam, U = eigh_forward(A, function.domain, caller, solver_device, eps)
        F = (U * function.values(lam).unsqueeze(-2)) @ U.mH
        check_range(F, caller)
        return F, lam, U

    if not is_concrete(A) or solver_device is not None or is_tiny(A):
        return work(A)
    F, lam, U = batchwise(work, A, trailing=[2])
    return F, lam, U


def derivative(
    lam: Tensor, U: Tensor, G: Tensor, function: ScalarFunction, rule: Rule | None = None
) -> Tensor:
    """``df(A)[G]``."""

    def work(lam: Tensor, U: Tensor, G: Tensor) -> tuple[Tensor]:
        inner = derivative_coefficients(function, rule, lam) * (U.mH @ G @ U)
        result = U @ hermitian_part(inner) @ U.mH
        check_range(result, "the derivative of", G, of=function)
        return (result,)

    if not is_concrete(lam, U, G):
        return work(lam, U, G)[0]
    return batchwise(work, lam, U, G, trailing=[1, 2, 2], effort=0.2)[0]


def second_derivative(
    lam: Tensor, U: Tensor, G: Tensor, W: Tensor, function: ScalarFunction
) -> Tensor:
    """``d2f(A)[G, W]``."""
    if not function.twice_at_zero and (singular := bad_item((lam == 0).any(-1))):
        raise torch.linalg.LinAlgError(
            f"{function} has no second derivative here at the singular matrix {singular}; add a ridge to A"
        )
    inner = function.second_product(lam, U.mH @ hermitian_part(G) @ U, U.mH @ hermitian_part(W) @ U)
    second = U @ hermitian_part(inner) @ U.mH
    check_range(second, "the second derivative of", G, W, of=function)
    return second


@dataclass(frozen=True)
class MatrixFunction(Smooth):
    """``A -> f(A)``; the factors are eigenvalues and eigenvectors. The latter carry the gradient of A."""

    name = "matrix functions"
    link: ClassVar[int | None] = 1

    function: ScalarFunction
    rule: Rule | None
    caller: str
    solver_device: str | torch.device | None
    eps: float  # as in eigh_forward

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        return evaluate(A, self.function, self.caller, self.solver_device, self.eps)

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return A

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        lam, U, _ = factors
        return derivative(lam, U, dA, self.function, self.rule)

    vjp = jvp

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        if self.rule is not None:
            raise RuntimeError(
                f"second derivatives with the gradient rule {self.rule} do not exist, because its "
                "first derivative is not the derivative of anything; use rule=None"
            )
        lam, U, _ = factors
        return second_derivative(lam, U, v, w, self.function)

    vjp_of_jvp = jvp_of_jvp
