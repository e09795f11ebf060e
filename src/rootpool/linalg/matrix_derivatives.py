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

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .checks import (
    check_range,
    check_square,
    checked_like_forward,
    first_index,
    is_out_of_range,
    is_plain,
    is_watched,
    may_check,
    name_item,
)
from .decompose import eigh_forward
from .differentiation import (
    Differentiable,
    Held,
    add,
    apply,
    hermitian_part,
    hold,
    remember,
    stand_in,
)
from .jacobi import is_tiny
from .parallel import batchwise
from .precision import without_autocast
from .rules import Rule
from .scalar import ScalarFunction

__all__ = [
    "derivative",
    "derivative_coefficients",
    "differentiable_value",
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

    if not is_plain(A) or solver_device is not None or is_tiny(A):
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
        if is_out_of_range(result, G):
            check_range(result, f"the derivative of {function}", G)
        return (result,)

    if not is_plain(lam, U, G):
        return work(lam, U, G)[0]
    return batchwise(work, lam, U, G, trailing=[1, 2, 2], effort=0.2)[0]


def second_derivative(
    lam: Tensor, U: Tensor, G: Tensor, W: Tensor, function: ScalarFunction
) -> Tensor:
    """``d2f(A)[G, W]``."""
    if may_check(lam) and not function.twice_at_zero:
        singular = (lam == 0).any(-1)
        if singular.any():
            raise torch.linalg.LinAlgError(
                f"{function} has no second derivative here at the singular matrix "
                f"{name_item(first_index(singular))}; add a ridge to A"
            )
    inner = function.second_product(lam, U.mH @ hermitian_part(G) @ U, U.mH @ hermitian_part(W) @ U)
    second = U @ hermitian_part(inner) @ U.mH
    if is_out_of_range(second, G, W):
        check_range(second, f"the second derivative of {function}", G, W)
    return second


def _derivative(
    lam: Tensor, U: Tensor, G: Tensor, function: ScalarFunction, rule: Rule | None
) -> Tensor:
    """``df(A)[G]``, differentiable in ``G`` and in ``A``, for which ``U`` stands.

    By two nodes, so that autograd does not ask for the second derivative of f where only ``G`` is
    wanted: at singular matrices the root has none.
    """
    if not is_watched(U, G):
        return derivative(lam, U, G, function, rule)
    along: Tensor = apply(_Derivative, lam, U, G, function, rule)
    bend: Tensor = apply(_Bend, lam, U, hold(G, U), function, rule)
    return add(along, bend)  # type: ignore[return-value]


class _MatrixFunction(Differentiable):
    """``A -> f(A)``; the decomposition comes along so that the backward need not repeat it.

    No eigenvector is differentiated, so the derivatives of U are free to stand for those of A, which has
    its shape: what flows back into U goes on to A. That is how the backward is differentiated without
    saving A itself, which users may change in place.
    """

    saves_outputs = True

    @staticmethod
    def forward(
        A: Tensor,
        function: ScalarFunction,
        rule: Rule | None,
        caller: str,
        solver_device: str | torch.device | None,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return evaluate(A, function, caller, solver_device, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.function, ctx.rule, *_ = inputs
        _, lam, U = output
        ctx.mark_non_differentiable(lam)
        remember(ctx, lam, U)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(
        ctx: Any, G: Tensor | None, _lam: None, g_A: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if G is not None:
            lam, U = ctx.saved_tensors
            g_A = add(g_A, _derivative(lam, U, G, ctx.function, ctx.rule))
        return g_A, None, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Any, dA: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        lam, U = saved
        return _derivative(lam, U, dA, ctx.function, ctx.rule), None, dA


class _Derivative(Differentiable):
    """``G -> df(A)[G]``, a linear map that is its own transpose."""

    @staticmethod
    def forward(
        lam: Tensor, U: Tensor, G: Tensor, function: ScalarFunction, rule: Rule | None
    ) -> Tensor:
        return derivative(lam, U, G, function, rule)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        lam, U, _, ctx.function, ctx.rule = inputs
        remember(ctx, lam, U)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, W: Tensor | None) -> tuple[Tensor | None, ...]:
        lam, U = ctx.saved_tensors
        g_G = None if W is None else _derivative(lam, U, W, ctx.function, ctx.rule)
        return None, None, g_G, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Any, *tangents: Tensor | None) -> Tensor:
        dG = tangents[2]
        lam, U = saved
        if dG is None:
            return torch.zeros_like(U)
        return _derivative(lam, U, dG, ctx.function, ctx.rule)


class _Bend(Differentiable):
    """Zero, with the derivative of ``df(A)[G]`` with respect to ``A``."""

    @staticmethod
    def forward(
        lam: Tensor, U: Tensor, G: Tensor | Held, function: ScalarFunction, rule: Rule | None
    ) -> Tensor:
        return stand_in(U) if isinstance(G, Held) else stand_in(U, G)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.G, ctx.function, ctx.rule = inputs
        if not isinstance(ctx.G, Held):
            tensors, ctx.G = [*tensors, ctx.G], None
        remember(ctx, *tensors)

    @staticmethod
    def second(ctx: Any, saved: Sequence[Tensor], W: Tensor) -> Tensor:
        """``d2f(A)[G, W]``."""
        if ctx.rule is not None:
            raise RuntimeError(
                f"second derivatives with the gradient rule {ctx.rule} do not exist, because its "
                "first derivative is not the derivative of anything; use rule=None"
            )
        held = () if ctx.G is None else (ctx.G.tensor,)
        second: Tensor = apply(_SecondDerivative, *saved, *held, W, ctx.function)
        return second

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, W: Tensor | None) -> tuple[Tensor | None, ...]:
        g_A = None if W is None else _Bend.second(ctx, ctx.saved_tensors, W)
        return None, g_A, None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: list[Tensor], _lam: None, dA: Tensor | None, *_: object) -> Tensor:
        return torch.zeros_like(saved[1]) if dA is None else _Bend.second(ctx, saved, dA)


class _SecondDerivative(Differentiable):
    """``(A, G, W) -> d2f(A)[G, W]``; a further derivative is refused."""

    @staticmethod
    def forward(lam: Tensor, U: Tensor, G: Tensor, W: Tensor, function: ScalarFunction) -> Tensor:
        return second_derivative(lam, U, G, W, function)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.checked = True

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError("third derivatives of matrix functions are not implemented")

    tangent = backward


@without_autocast
def differentiable_value(
    A: Tensor,
    function: ScalarFunction,
    rule: Rule | None,
    caller: str,
    solver_device: str | torch.device | None,
    eps: float,
) -> Tensor:
    """``f(A)``, with all derivatives that there are."""
    check_square(A, caller)
    if not is_watched(A):
        return evaluate(A, function, caller, solver_device, eps)[0]
    value: Tensor = apply(_MatrixFunction, A, function, rule, caller, solver_device, eps)[0]
    return value
