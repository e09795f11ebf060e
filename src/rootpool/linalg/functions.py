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

from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor

from ._precision import without_autocast
from .checks import (
    check_range,
    check_square,
    checked_like_forward,
    checks_enabled,
    first_index,
    is_plain,
    may_check,
    name_item,
)
from .decompose import eigh_forward
from .parallel import batchwise
from .restricted import Floored, Leading
from .rules import Rule, resolve_rule
from .scalar import FUNCTIONS, Power, ScalarFunction

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in Python itself from 3.11 on

__all__ = [
    "SpectralOptions",
    "derivative_coefficients",
    "expm",
    "inv_sqrtm",
    "logm",
    "matrix_function",
    "powm",
    "sqrtm",
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
        rule(seen) * (f.unsqueeze(-1) - f.unsqueeze(-2)),
    )


def _symmetric_part(A: Tensor) -> Tensor:
    return (A + A.mT) / 2


class _MatrixFunction(torch.autograd.Function):
    """``A -> f(A)``; the decomposition comes along so that the backward need not repeat it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor,
        function: ScalarFunction,
        rule: Rule | None,
        caller: str,
        solver_device: str | torch.device | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        def evaluate(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            lam, U = eigh_forward(A, function.domain, caller, solver_device)
            F = (U * function.values(lam).unsqueeze(-2)) @ U.mT
            check_range(F, caller)
            return F, lam, U

        if not is_plain(A) or solver_device is not None:
            return evaluate(A)
        F, lam, U = batchwise(evaluate, A, trailing=[2])
        return F, lam, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        A, ctx.function, ctx.rule, *_ = inputs
        _, lam, U = output
        ctx.checked = checks_enabled()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(lam, U)
        ctx.save_for_backward(A, lam, U)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None, None, None, None
        A, lam, U = ctx.saved_tensors
        return _Derivative.apply(A, lam, U, G, ctx.function, ctx.rule), None, None, None, None


class _Derivative(torch.autograd.Function):
    """``(A, G) -> df(A)[G]``, where ``A`` stands only for its derivative: ``lam, U`` are known."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, lam: Tensor, U: Tensor, G: Tensor, function: ScalarFunction, rule: Rule | None
    ) -> Tensor:
        def evaluate(lam: Tensor, U: Tensor, G: Tensor) -> tuple[Tensor]:
            inner = derivative_coefficients(function, rule, lam) * (U.mT @ G @ U)
            derivative = U @ _symmetric_part(inner) @ U.mT
            if may_check(derivative):  # a compiler cannot trace the text either
                check_range(derivative, f"the derivative of {function}", G)
            return (derivative,)

        if not is_plain(G):
            return evaluate(lam, U, G)[0]
        return batchwise(evaluate, lam, U, G, trailing=[1, 2, 2], effort=0.2)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        A, lam, U, G, ctx.function, ctx.rule = inputs
        ctx.checked = checks_enabled()
        ctx.save_for_backward(A, lam, U, G)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, W: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.rule is not None:
            raise RuntimeError(
                f"second derivatives with the gradient rule {ctx.rule} do not exist, because its "
                "first derivative is not the derivative of anything; use rule=None"
            )
        A, lam, U, G = ctx.saved_tensors
        g_G = _Derivative.apply(A, lam, U, W, ctx.function, None)
        g_A = _SecondDerivative.apply(A, lam, U, G, W, ctx.function)
        return g_A, None, None, g_G, None, None


class _SecondDerivative(torch.autograd.Function):
    """``(A, G, W) -> d2f(A)[G, W]``; a further derivative is refused."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, lam: Tensor, U: Tensor, G: Tensor, W: Tensor, function: ScalarFunction
    ) -> Tensor:
        if may_check(lam) and function.domain != "any":
            singular = (lam == 0).any(-1)
            if singular.any():
                raise torch.linalg.LinAlgError(
                    f"{function} has no second derivative here at the singular matrix "
                    f"{name_item(first_index(singular))}; add a ridge to A"
                )
        inner = function.second_product(
            lam, U.mT @ _symmetric_part(G) @ U, U.mT @ _symmetric_part(W) @ U
        )
        derivative = U @ _symmetric_part(inner) @ U.mT
        if may_check(derivative):
            check_range(derivative, f"the second derivative of {function}", G, W)
        return derivative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError("third derivatives of matrix functions are not implemented")


class SpectralOptions(TypedDict, total=False):
    """Options that all matrix functions share; see :func:`matrix_function`."""

    rule: str | Rule | None
    eigenvalue_floor: float | None
    keep_largest: int | None
    solver_device: str | torch.device | None


@without_autocast
def _apply(
    A: Tensor,
    function: ScalarFunction,
    caller: str,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    check_square(A, caller)
    if eigenvalue_floor is not None:
        function = Floored(function, eigenvalue_floor)
    if keep_largest is not None:
        function = Leading(function, keep_largest)
    kernel = None if rule is None else resolve_rule(rule)
    value: Tensor = _MatrixFunction.apply(A, function, kernel, caller, solver_device)[0]
    return value


def matrix_function(
    A: Tensor, function: str | ScalarFunction, **options: Unpack[SpectralOptions]
) -> Tensor:
    r""":math:`f(A) = U f(\Lambda) U^T` for symmetric ``A``, with its exact gradient.

    Args:
        A: symmetric matrices ``(..., n, n)``, float32 or float64. Asymmetry beyond round-off is an
            error; within it the lower triangle is read.
        function: ``"sqrt"``, ``"inv_sqrt"``, ``"log"``, ``"exp"``, or a :class:`ScalarFunction`.
        rule: None for the exact gradient (twice differentiable, if there is no floor and no
            truncation), or a gradient rule of the paper, fused with the function and right at ties
            (once differentiable). Large batches reach the rule in pieces.
        eigenvalue_floor: raise smaller eigenvalues, negative ones too, to this positive number. The
            gradient is that of the function so changed: none flows through raised eigenvalues.
        keep_largest: set the function to 0 on all but that many largest eigenvalues.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``(..., n, n)``. Value and gradient of a matrix do not depend on the rest of the batch or on the
        number of threads by more than rounding.

    Raises:
        torch.linalg.LinAlgError: eigenvalues outside the domain of the function. Roots and positive
            powers accept semi-definite matrices: eigenvalues at round-off level,
            ``|lam| <= 2 sqrt(n) eps max(lam)``, count as exact zeros, and the derivative, infinite
            there, is taken along perturbations that keep the rank (0 between two zero
            eigenvalues). Inverse roots, logarithm and negative powers want positive definite ones.
            Also where a value or a derivative is beyond the range of the dtype, in the backward too
            (not under ``torch.compile`` and ``torch.func``: there it is infinite or NaN).

    >>> matrix_function(torch.eye(2) * 4, "sqrt")
    tensor([[2., 0.],
            [0., 2.]])
    """
    if isinstance(function, str):
        if function not in FUNCTIONS:
            raise ValueError(
                f"unknown function {function!r}; choose from {', '.join(FUNCTIONS)} or give a "
                "ScalarFunction such as Power(0.3)"
            )
        function = FUNCTIONS[function]
    if not isinstance(function, ScalarFunction):
        raise TypeError(
            f"function must be one of {', '.join(FUNCTIONS)} or a ScalarFunction, which knows its "
            f"divided differences, got {function!r}"
        )
    return _apply(A, function, "matrix_function", **options)


def sqrtm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Square root :math:`A^{1/2}` of positive semi-definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = 1 / (\sqrt{\lambda_i} + \sqrt{\lambda_j})

    Options and conventions at zero eigenvalues as in :func:`matrix_function`.

    >>> A = torch.eye(3, dtype=torch.float64).requires_grad_()
    >>> sqrtm(A).trace().backward()
    >>> A.grad.diagonal()
    tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    return _apply(A, FUNCTIONS["sqrt"], "sqrtm", **options)


def inv_sqrtm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Inverse square root :math:`A^{-1/2}` of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = -1 / (\sqrt{\lambda_i \lambda_j} (\sqrt{\lambda_i} + \sqrt{\lambda_j}))

    Options as in :func:`matrix_function`.
    """
    return _apply(A, FUNCTIONS["inv_sqrt"], "inv_sqrtm", **options)


def logm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Logarithm of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = \log(\lambda_i / \lambda_j) / (\lambda_i - \lambda_j)

    Options as in :func:`matrix_function`.
    """
    return _apply(A, FUNCTIONS["log"], "logm", **options)


def expm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Exponential of symmetric ``A`` ``(..., n, n)``, which need not be definite.

    .. math:: L_{ij} = (e^{\lambda_i} - e^{\lambda_j}) / (\lambda_i - \lambda_j)

    Options as in :func:`matrix_function`. For matrices that are not symmetric use
    :func:`torch.linalg.matrix_exp`.

    >>> expm(torch.zeros(2, 2)).diagonal()
    tensor([1., 1.])
    """
    return _apply(A, FUNCTIONS["exp"], "expm", **options)


def powm(A: Tensor, exponent: float, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Power :math:`A^p` of ``A`` ``(..., n, n)``, semi-definite for :math:`p \ge 0`, else definite.

    Options and conventions at zero eigenvalues as in :func:`matrix_function`.

    >>> powm(torch.eye(2) * 8, 1 / 3).diagonal()
    tensor([2., 2.])
    """
    named = {0.5: "sqrt", -0.5: "inv_sqrt"}
    function = FUNCTIONS[named[exponent]] if exponent in named else Power(float(exponent))
    return _apply(A, function, "powm", **options)
