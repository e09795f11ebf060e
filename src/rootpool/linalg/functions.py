"""Functions of symmetric matrices with exact derivatives at repeated, tiny and zero eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor

from .matrix_derivatives import differentiable_value
from .parameters import check_at_least
from .precision import input_rounding
from .restricted import Floored, Leading
from .rules import Rule, resolve_rule
from .scalar import FUNCTIONS, Power, ScalarFunction
from .tensor_power import tensor_power

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in Python itself from 3.11 on

__all__ = [
    "SpectralOptions",
    "apply_function",
    "expm",
    "inv_sqrtm",
    "inverse_root",
    "logm",
    "matrix_function",
    "powm",
    "sqrtm",
]


class SpectralOptions(TypedDict, total=False):
    """Options that all matrix functions share; see :func:`matrix_function`."""

    rule: str | Rule | None
    eigenvalue_floor: float | None
    keep_largest: int | None
    solver_device: str | torch.device | None


def apply_function(
    A: Tensor,
    function: ScalarFunction,
    caller: str,
    *,
    rule: str | Rule | None = None,
    eigenvalue_floor: float | None = None,
    keep_largest: int | None = None,
    solver_device: str | torch.device | None = None,
    **unknown: object,
) -> Tensor:
    """What all functions of this file come to; ``caller`` is named in errors."""
    if unknown:
        raise TypeError(
            f"{caller} has no option {', '.join(unknown)}; the options are "
            f"{', '.join(SpectralOptions.__annotations__)}"
        )
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
    eps = input_rounding(A)
    value: Tensor = differentiable_value(A, function, kernel, caller, solver_device, eps)
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
    return apply_function(A, function, "matrix_function", **options)


def sqrtm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Square root :math:`A^{1/2}` of positive semi-definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = 1 / (\sqrt{\lambda_i} + \sqrt{\lambda_j})

    Options and conventions at zero eigenvalues as in :func:`matrix_function`.

    >>> A = torch.eye(3, dtype=torch.float64).requires_grad_()
    >>> sqrtm(A).trace().backward()
    >>> A.grad.diagonal()
    tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    return apply_function(A, FUNCTIONS["sqrt"], "sqrtm", **options)


def inv_sqrtm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Inverse square root :math:`A^{-1/2}` of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = -1 / (\sqrt{\lambda_i \lambda_j} (\sqrt{\lambda_i} + \sqrt{\lambda_j}))

    Options as in :func:`matrix_function`.
    """
    return apply_function(A, FUNCTIONS["inv_sqrt"], "inv_sqrtm", **options)


def logm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Logarithm of positive definite ``A`` ``(..., n, n)``.

    .. math:: L_{ij} = \log(\lambda_i / \lambda_j) / (\lambda_i - \lambda_j)

    Options as in :func:`matrix_function`.
    """
    return apply_function(A, FUNCTIONS["log"], "logm", **options)


def expm(A: Tensor, **options: Unpack[SpectralOptions]) -> Tensor:
    r"""Exponential of symmetric ``A`` ``(..., n, n)``, which need not be definite.

    .. math:: L_{ij} = (e^{\lambda_i} - e^{\lambda_j}) / (\lambda_i - \lambda_j)

    Options as in :func:`matrix_function`. For matrices that are not symmetric use
    :func:`torch.linalg.matrix_exp`.

    >>> expm(torch.zeros(2, 2)).diagonal()
    tensor([1., 1.])
    """
    return apply_function(A, FUNCTIONS["exp"], "expm", **options)


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
        return tensor_power(A, exponent, options.get("solver_device"), input_rounding(A))
    if isinstance(exponent, (str, complex)):
        raise TypeError(f"powm expects a number or a tensor as exponent, got {exponent!r}")
    named = {0.5: "sqrt", -0.5: "inv_sqrt"}
    function = FUNCTIONS[named[exponent]] if exponent in named else Power(float(exponent))
    return apply_function(A, function, "powm", **options)


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
