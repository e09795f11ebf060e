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
from typing import TYPE_CHECKING, Any, TypedDict

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
from .parallel import batchwise
from .precision import input_rounding, without_autocast
from .restricted import Floored, Leading
from .rules import Rule, resolve_rule
from .scalar import FUNCTIONS, Power, ScalarFunction
from .tensor_power import tensor_power

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in Python itself from 3.11 on

__all__ = [
    "SpectralOptions",
    "derivative",
    "derivative_coefficients",
    "evaluate",
    "expm",
    "inv_sqrtm",
    "logm",
    "matrix_function",
    "powm",
    "second_derivative",
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

    if not is_plain(A) or solver_device is not None:
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


class SpectralOptions(TypedDict, total=False):
    """Options that all matrix functions share; see :func:`matrix_function`."""

    rule: str | Rule | None
    eigenvalue_floor: float | None
    keep_largest: int | None
    solver_device: str | torch.device | None


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
    if eigenvalue_floor is not None:
        if isinstance(A, Tensor) and eigenvalue_floor > torch.finfo(A.dtype).max:
            raise ValueError(
                f"eigenvalue_floor={eigenvalue_floor!r} is beyond the range of {A.dtype}"
            )
        function = Floored(function, eigenvalue_floor)
    if keep_largest is not None:
        function = Leading(function, keep_largest)
    kernel = None if rule is None else resolve_rule(rule)
    eps = input_rounding(A)
    value: Tensor = _outside_autocast(A, function, kernel, caller, solver_device, eps)
    return value


@without_autocast
def _outside_autocast(
    A: Tensor,
    function: ScalarFunction,
    rule: Rule | None,
    caller: str,
    solver_device: str | torch.device | None,
    eps: float,
) -> Tensor:
    check_square(A, caller)
    if not is_watched(A):
        return evaluate(A, function, caller, solver_device, eps)[0]
    value: Tensor = apply(_MatrixFunction, A, function, rule, caller, solver_device, eps)[0]
    return value


def matrix_function(
    A: Tensor, function: str | ScalarFunction, **options: Unpack[SpectralOptions]
) -> Tensor:
    r""":math:`f(A) = U f(\Lambda) U^T` for symmetric ``A``, with its exact gradient.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)`` of single or double precision.
            Asymmetry beyond round-off is an error; within it the lower triangle is read.
        function: ``"sqrt"``, ``"inv_sqrt"``, ``"log"``, ``"exp"``, or a :class:`ScalarFunction`.
        rule: None for the exact gradient (twice differentiable), or a gradient rule of the paper, fused
            with the function and right at ties (once differentiable). Large batches reach the rule in
            pieces.
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


def powm(A: Tensor, exponent: float | Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Power :math:`A^p` of ``A`` ``(..., n, n)``, semi-definite for :math:`p \ge 0`, else definite.

    Options and conventions at zero eigenvalues as in :func:`matrix_function`.

    Args:
        A: symmetric or complex Hermitian matrices.
        exponent: a number, or a tensor that broadcasts with the batch of ``A`` and gets a gradient:
            :math:`\partial_p A^p = A^p \log A`, where zero eigenvalues count 0. With a tensor the
            function is once differentiable, and ``solver_device`` is its only option.
        options: as in :func:`matrix_function`.

    >>> powm(torch.eye(2) * 8, 1 / 3).diagonal()
    tensor([2., 2.])
    >>> p = torch.tensor(2.0, requires_grad=True)
    >>> powm(torch.eye(2) * 8, p).trace().backward()
    >>> p.grad  # 2 * 64 * log(8)
    tensor(266.1685)
    """
    if isinstance(exponent, Tensor):
        unknown = set(options) - {"solver_device"}
        if unknown:
            raise TypeError(
                f"powm with a tensor as exponent takes no {', '.join(sorted(unknown))}; give a number"
            )
        check_square(A, "powm")
        return tensor_power(A, exponent, solver_device=options.get("solver_device"))
    if isinstance(exponent, str):
        raise TypeError(f"powm expects a number or a tensor as exponent, got {exponent!r}")
    named = {0.5: "sqrt", -0.5: "inv_sqrt"}
    function = FUNCTIONS[named[exponent]] if exponent in named else Power(float(exponent))
    return _apply(A, function, "powm", **options)
