"""Functions of symmetric matrices with exact derivatives at repeated, tiny and zero eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import check_square
from .matrix_derivatives import MatrixFunction
from .parameters import check_at_least
from .precision import input_rounding, without_autocast
from .restricted import Floored, Leading
from .rules import Rule, resolve_rule
from .scalar import FUNCTIONS, Power, ScalarFunction
from .smooth import differentiable
from .tensor_power import tensor_power


def apply_function(
    A: Tensor,
    function: ScalarFunction,
    caller: str,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    """What all functions of this file come to; ``caller`` is named in errors."""
    if eigenvalue_floor is not None:
        has_range = isinstance(A, Tensor) and (A.is_floating_point() or A.is_complex())
        if has_range and eigenvalue_floor > torch.finfo(A.dtype).max:
            raise ValueError(
                f"eigenvalue_floor={eigenvalue_floor!r} is beyond the range of {A.dtype}"
            )
        function = Floored(function, eigenvalue_floor)
    if keep_largest is not None:
        function = Leading(function, keep_largest)
    kernel = None if rule is None else resolve_rule(rule)
    f = MatrixFunction(function, caller, kernel, solver_device, input_rounding(A))
    result: Tensor = _applied(A, f)
    return result


@without_autocast
def _applied(A: Tensor, f: MatrixFunction) -> Tensor:
    check_square(A, f.caller)
    return differentiable(f, A)


def named_function(function: str | ScalarFunction) -> ScalarFunction:
    """The function that a user gives by its name or as a value."""
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
    return function


def matrix_function(
    A: Tensor,
    function: str | ScalarFunction,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r""":math:`f(A) = U f(\Lambda) U^T` for symmetric ``A``, with its exact gradient.

    Its derivative along ``E`` is :math:`U (L \circ U^T E U) U^T` with divided differences,
    :math:`L_{ij} = (f(\lambda_i) - f(\lambda_j)) / (\lambda_i - \lambda_j)`; at ties :math:`f'(\lambda_i)`.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)`` of single or double precision.
            Asymmetry beyond round-off is an error; within it the lower triangle is read.
        function: ``"sqrt"``, ``"inv_sqrt"``, ``"log"``, ``"exp"``, or a :class:`ScalarFunction`.
        rule: None for the exact gradient (twice differentiable), or a gradient rule of the paper, fused
            with the function and right at ties (once differentiable). Large batches reach the rule in
            pieces.
        eigenvalue_floor: raise smaller eigenvalues, negative ones too, to this positive number. The
            gradient belongs to the function so changed: none flows through raised eigenvalues.
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
            eigenvalues). Inverse roots, logarithm and negative powers need positive definite ones.
            Also where a value or a derivative is beyond the range of the dtype, in the backward too
            (not under ``torch.compile`` and ``torch.func``: there it is infinite or NaN).

    >>> matrix_function(torch.eye(2) * 4, "sqrt")
    tensor([[2., 0.],
            [0., 2.]])
    """
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, named_function(function), "matrix_function", *options)


def sqrtm(
    A: Tensor,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Square root :math:`A^{1/2}` of positive semi-definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = 1 / (\sqrt{\lambda_i} + \sqrt{\lambda_j})

    Options, zero eigenvalues, errors and the meaning of L: see :func:`matrix_function`.

    Returns:
        ``(..., n, n)``, with gradients that are exact at repeated and zero eigenvalues.

    >>> A = torch.eye(3, dtype=torch.float64).requires_grad_()
    >>> sqrtm(A).trace().backward()
    >>> A.grad.diagonal()
    tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, FUNCTIONS["sqrt"], "sqrtm", *options)


def inv_sqrtm(
    A: Tensor,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Inverse square root :math:`A^{-1/2}` of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = -1 / (\sqrt{\lambda_i \lambda_j} (\sqrt{\lambda_i} + \sqrt{\lambda_j}))

    Options and the meaning of L: see :func:`matrix_function`.

    Returns:
        ``(..., n, n)``.

    >>> inv_sqrtm(torch.eye(2) * 4).diagonal()
    tensor([0.5000, 0.5000])
    """
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, FUNCTIONS["inv_sqrt"], "inv_sqrtm", *options)


def logm(
    A: Tensor,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Logarithm of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = \log(\lambda_i / \lambda_j) / (\lambda_i - \lambda_j)

    Options and the meaning of L: see :func:`matrix_function`.

    Returns:
        ``(..., n, n)``.

    >>> logm(torch.eye(2)).diagonal()
    tensor([0., 0.])
    """
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, FUNCTIONS["log"], "logm", *options)


def expm(
    A: Tensor,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Exponential of symmetric ``A`` ``(..., n, n)``, which need not be definite.

    .. math:: L_{ij} = (e^{\lambda_i} - e^{\lambda_j}) / (\lambda_i - \lambda_j)

    Options and the meaning of L: see :func:`matrix_function`. For matrices that are not symmetric use
    :func:`torch.linalg.matrix_exp`.

    Returns:
        ``(..., n, n)``.

    >>> expm(torch.zeros(2, 2)).diagonal()
    tensor([1., 1.])
    """
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, FUNCTIONS["exp"], "expm", *options)


def powm(
    A: Tensor,
    exponent: float | Tensor,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Power :math:`A^p` of ``A`` ``(..., n, n)``, semi-definite for :math:`p \ge 0`, else definite.

    Args:
        A: symmetric or complex Hermitian matrices; for zero eigenvalues see :func:`matrix_function`.
        exponent: a number, or a tensor that broadcasts with the batch of ``A`` and gets a gradient:
            :math:`\partial_p A^p = A^p \log A`, where zero eigenvalues count 0. With a tensor the
            function is once differentiable, and ``solver_device`` is its only option.
        rule, eigenvalue_floor, keep_largest, solver_device: as in :func:`matrix_function`.

    Returns:
        ``(..., n, n)``.

    >>> powm(torch.eye(2) * 8, 1 / 3).diagonal()
    tensor([2., 2.])
    >>> p = torch.tensor(2.0, requires_grad=True)
    >>> powm(torch.eye(2) * 8, p).trace().backward()
    >>> p.grad  # 2 * 64 * log(8)
    tensor(266.1685)
    """
    if isinstance(exponent, Tensor):
        if (rule, eigenvalue_floor, keep_largest) != (None, None, None):
            raise TypeError(
                "powm by a tensor takes no rule, eigenvalue_floor or keep_largest: give a number"
            )
        return tensor_power(A, exponent, solver_device, input_rounding(A))
    if isinstance(exponent, (str, complex)):
        raise TypeError(f"powm expects a number or a tensor as exponent, got {exponent!r}")
    named = {0.5: "sqrt", -0.5: "inv_sqrt"}
    function = FUNCTIONS[named[exponent]] if exponent in named else Power(float(exponent))
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, function, "powm", *options)


def inverse_root(
    A: Tensor,
    p: int,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Inverse p-th root :math:`A^{-1/p}` of positive definite ``A``: the inverse for p = 1.

    .. math:: L_{ij} = \frac{\lambda_i^{-1/p} - \lambda_j^{-1/p}}{\lambda_i - \lambda_j}

    without the cancellation. First and second derivatives are exact at ties.

    Args:
        A: symmetric positive definite matrices ``(..., n, n)``, float32 or float64.
        p: positive integer.
        rule, eigenvalue_floor, keep_largest, solver_device: as in :func:`matrix_function`.

    Returns:
        ``(..., n, n)``.

    Reference: Gupta, Koren and Singer, Shampoo, ICML 2018, which uses p = 4; DASH and others use 2.

    >>> inverse_root(torch.eye(2) * 16, 4).diagonal()
    tensor([0.5000, 0.5000])
    """
    check_at_least("p", p, 1)
    function = FUNCTIONS["inv_sqrt"] if p == 2 else Power(-1 / p)
    options = (rule, eigenvalue_floor, keep_largest, solver_device)
    return apply_function(A, function, "inverse_root", *options)
