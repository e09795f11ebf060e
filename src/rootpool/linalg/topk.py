r"""The largest eigenpairs and singular triples of large matrices, with a gradient by an adjoint solve.

An iteration finds :math:`A U = U \Lambda` for the k largest eigenvalues, without a derivative. Along a
change dA the vectors turn among themselves like the eigenvectors of :math:`M = U^H A\, U`, which is small,
and out of their span by the solutions of

.. math:: (\lambda_i - A)\, x_i = (I - U U^H)\, dA\, u_i, \qquad U^H x_i = 0 .

On the complement of the span these are positive definite systems, whose condition is the gap at the cut: ties
among the kept and among the others are ordinary. The map is its own adjoint, so the backward solves the same
systems by conjugate gradients. What is neglected of A acts through them; the usual formula for the vectors,
with the kept ones alone, misses it.

Singular triples are eigenpairs of :math:`\begin{psmallmatrix} 0 & A \\ A^H & 0 \end{psmallmatrix}`, so that
nothing is squared.

Reference: Francuz, Schuch and Vanhecke, Physical Review Research 7, 2025 (for truncated decompositions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.autograd.function import once_differentiable
from torch.linalg import LinAlgError

from ._private import is_wrapped, records_operators, within_dual_level
from .checks import DTYPES, VECTOR_ADVICE, check_count, check_range, check_square, check_tensor
from .decompose import eigh_forward
from .differentiation import hermitian_part
from .eigh import EighResult, eigh
from .precision import product, without_autocast
from .rules import Degenerate
from .solvers import power_of_two
from .svd import SVDResult

Operator = Callable[[Tensor], Tensor]
DENSE = 64  # up to this side, and for nearly all pairs, a full decomposition takes less time


class _FirstOrder(torch.autograd.Function):
    """``A U`` as it is. U is no constant, so that a gradient by it cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, AU: Tensor, limits: str) -> Tensor:
        ctx.save_for_backward(AU)
        ctx.limits = limits
        return AU.view_as(AU)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        (AU,) = ctx.saved_tensors
        return _Refused.apply(G, AU, ctx.limits) if torch.is_grad_enabled() else G, None


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, G: Tensor, AU: Tensor, limits: str) -> Tensor:
        ctx.limits = limits
        return G.view_as(G)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> NoReturn:
        raise RuntimeError(ctx.limits)


_LIMITS = (
    "{} has no second derivative and no forward mode, and works neither in torch.func and torch.vmap nor in "
    "torch.compile, torch.export and torch.jit.trace; use eigh or svd"
)


def _check_plain(limits: str, tensor: Tensor) -> None:
    """Raise inside transformations that would see constants, or no values."""
    traced = is_wrapped(tensor) or records_operators()
    if traced or (within_dual_level() and unpack_dual(tensor).tangent is not None):
        raise RuntimeError(limits)


class _OutOfTheSpan(torch.autograd.Function):
    """``R -> X`` of the systems above. R is zero but for rounding, and so is X."""

    @staticmethod
    def forward(ctx: Any, R: Tensor, U: Tensor, lam: Tensor, apply: Operator) -> Tensor:
        ctx.save_for_backward(U, lam)
        ctx.apply_A = apply
        return torch.zeros_like(R)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        U, lam = ctx.saved_tensors
        return _solve(ctx.apply_A, U, lam, G), None, None, None


def _solve(apply: Operator, U: Tensor, lam: Tensor, G: Tensor) -> Tensor:
    """The systems above for the right sides ``G``, all at once by conjugate gradients."""

    def project(X: Tensor) -> Tensor:
        return X - U @ (U.mH @ X)

    def inner(X: Tensor, Y: Tensor) -> Tensor:
        product = (X.conj() * Y).sum(0)
        return product.real if product.is_complex() else product

    # In units of both sides of the systems squares stay within the range.
    scale, unit = power_of_two(lam.abs().amax()), power_of_two(G.abs().amax())
    R = project(project(G / unit))
    X, P, size = torch.zeros_like(R), R, inner(R, R)
    eps, wanted = torch.finfo(lam.dtype).eps, size.sum()
    least, best = wanted, X
    for _ in range(max(1000, 2 * len(U))):
        if not bool(least > (10 * eps) ** 2 * wanted):
            break
        step = project((P * lam - apply(P)) / scale)
        curvature = inner(P, step)
        alpha = torch.where(curvature > 0, size / torch.where(curvature > 0, curvature, 1), 0)
        X, R = X + P * alpha, project(R - step * alpha)
        last, size = size, inner(R, R)
        if bool(size.sum() < least):
            least, best = size.sum(), X
        elif bool(size.sum() > 1e4 * least) or not bool((alpha > 0).any()):
            break  # nothing but rounding is left
        P = R + P * torch.where(last > 0, size / torch.where(last > 0, last, 1), 0)
    if bool(least > eps * wanted):
        raise LinAlgError(
            "the gradient of the largest eigenvectors did not converge: the residual is "
            f"{math.sqrt(float(least / wanted)):.1g} of the right side, because the gap at the cut is too "
            "small; choose k at a larger gap, or float64"
        )
    gradient = best * (unit / scale)
    check_range(gradient, "the gradient of the largest eigenvectors", G, advice=VECTOR_ADVICE)
    return gradient


def _largest(apply: Operator, k: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues, ascending, behind the next smaller one if there is one; their vectors."""
    n = len(like)
    if n <= max(DENSE, 2 * (k + 1)):
        dense = apply(torch.eye(n, dtype=like.dtype, device=like.device))
        lam, U = eigh_forward(hermitian_part(dense), "any", "topk_eigh", None)
        return lam[-k - 1 :], U[:, n - k :].contiguous()
    try:
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "topk_eigh and topk_svd find eigenvectors by scipy: pip install scipy"
        ) from None

    def matvec(v: Any) -> Any:
        columns = torch.from_numpy(v.reshape(n, -1)).to(like)
        return (apply(columns) / unit).cpu().numpy().reshape(v.shape)

    # The same result at every call: scipy would start from a random vector of its own.
    generator = torch.Generator("cpu").manual_seed(0)
    vector = torch.randn(n, 1, generator=generator, dtype=like.dtype, device="cpu")
    # ARPACK takes eigenvalues below eps^(2/3) for zeros.
    unit, start = power_of_two(apply(vector.to(like)).abs().amax()), vector[:, 0].numpy()
    operator = LinearOperator((n, n), matvec=matvec, matmat=matvec, dtype=start.dtype)
    try:
        values, vectors = eigsh(operator, k + 1, which="LA", v0=start)
    except ArpackError as error:
        raise LinAlgError(
            f"topk_eigh: scipy's eigsh did not find the {k + 1} largest of {n} eigenvalues ({error}); choose "
            "k at a larger gap and up to the rank, or use eigh"
        ) from error
    values, order = torch.from_numpy(values).sort()
    # Lanczos' vectors are orthogonal to rounding; close ones a little less.
    U = torch.linalg.qr(torch.from_numpy(vectors)[:, order[1:]])[0]
    return values.to(like.device) * unit, U.to(like)


def _topk(apply: Operator, k: int, like: Tensor, caller: str, what: str) -> tuple[Tensor, Tensor]:
    """Eigenvalues and vectors, with their graph."""
    limits = _LIMITS.format(caller)
    if torch.compiler.is_compiling():  # an error where the graph has to be whole, else eager mode
        torch._dynamo.skip_frame(msg=limits)
        raise RuntimeError(limits)
    _check_plain(limits, like)
    with torch.no_grad():
        found, U = _largest(apply, k, like)
    lam, tolerance = found[-k:], max(len(U), 10) * torch.finfo(found.dtype).eps
    AU = apply(U)
    _check_plain(limits, AU)
    if not AU.requires_grad:
        return lam, U
    AU = _FirstOrder.apply(AU, limits)
    following, least = map(float, found[:2]) if k < len(found) else (-math.inf, 0.0)
    if least - following <= tolerance * float(found.abs().max()):
        raise LinAlgError(
            f"{caller}: the cut at k = {k} is inside a multiplet, because {what} on both sides of it are "
            f"equal to working precision ({least:.6g} and {following:.6g}); choose k at a gap of the spectrum"
        )
    small = product(U.mH, AU)
    values, turned = eigh(hermitian_part(small), rule=Degenerate(tolerance))
    outside = _OutOfTheSpan.apply(AU - product(U, small), U, lam, apply)
    return values, product(U + outside, turned)


@without_autocast
def topk_eigh(A: Tensor | Operator, k: int, *, like: Tensor | None = None) -> EighResult:
    r"""The k largest eigenvalues and eigenvectors of a large symmetric matrix, or of a function ``V -> A V``.

    .. math:: dU = U\, \Omega + X, \qquad (\lambda_i - A)\, x_i = (I - U U^H)\, dA\, u_i

    The gradient is exact for every loss that :func:`eigh` with the rule ``"degenerate"`` has one for, and
    needs no other eigenvectors. It is a first derivative: second ones, forward mode, ``vmap`` and
    ``torch.compile`` are refused.

    Args:
        A: one symmetric or Hermitian matrix ``(n, n)``, dense (its Hermitian part counts) or sparse, or a
            function of columns ``(n, j)`` that is linear and Hermitian; gradients flow to the tensors that
            it uses.
        k: how many, 1 to n.
        like: for a function, a vector ``(n,)`` of its dtype and device.

    Returns:
        ``eigenvalues`` ``(k,)`` ascending and ``eigenvectors`` ``(n, k)``. From 65 rows on they are found by
        scipy (ARPACK), which has to be installed; products with A are taken where it is.

    Raises:
        torch.linalg.LinAlgError: if a gradient is wanted, where the k-th and the next eigenvalue are equal
            to working precision.

    Reference: Lehoucq, Sorensen and Yang, *ARPACK Users' Guide*, 1998.

    >>> A = torch.diag(torch.tensor([1.0, 5.0, 2.0, 5.0])).requires_grad_()
    >>> eigenvalues, U = topk_eigh(A, 2)
    >>> eigenvalues.detach()
    tensor([5., 5.])
    >>> (U @ U.mT)[0, 1].backward()
    >>> A.grad[0]
    tensor([0.0000, 0.1250, 0.0000, 0.0000])
    """
    if isinstance(A, Tensor):
        check_square(A, "topk_eigh")
        _check_single(A, "topk_eigh")
        dense = A.layout == torch.strided
        matrix, times = (hermitian_part(A), product) if dense else (A, torch.matmul)
        apply, vector = (lambda V: times(matrix, V)), A.new_empty(A.shape[-1])
    else:
        check_tensor(like, "topk_eigh of a function, as like=,")
        assert like is not None
        if like.dim() != 1 or like.dtype not in DTYPES:
            raise ValueError(
                "topk_eigh expects like= to be a vector (n,) of single or double precision, got "
                f"{tuple(like.shape)} {like.dtype}"
            )
        apply, vector = A, like
    check_count(k, len(vector), "topk_eigh", vector)
    return EighResult(*_topk(apply, k, vector, "topk_eigh", "eigenvalues"))


@without_autocast
def topk_svd(A: Tensor, k: int) -> SVDResult:
    r"""The k largest singular values of a large matrix, and their vectors: a truncated SVD.

    The gradient is exact for every loss that :func:`svd` with the rule ``"degenerate"`` has one for, and
    contains what the neglected part of ``A`` contributes. Limits and errors as in :func:`topk_eigh`.

    Args:
        A: one matrix ``(m, n)``.
        k: how many, 1 to ``min(m, n)``; at most the rank.

    Returns:
        ``U`` ``(m, k)``, ``S`` ``(k,)`` descending and ``Vh`` ``(k, n)``.

    Raises:
        torch.linalg.LinAlgError: as in :func:`topk_eigh`; also if the k-th singular value is zero.

    >>> U, S, Vh = topk_svd(torch.diag(torch.tensor([1.0, 3.0, 2.0])), 2)
    >>> S
    tensor([3., 2.])
    """
    check_tensor(A, "topk_svd")
    _check_single(A, "topk_svd")
    m, n = A.shape
    check_count(k, min(m, n), "topk_svd", A)

    def apply(Z: Tensor) -> Tensor:
        return torch.cat([product(A, Z[m:]), product(A.mH, Z[:m])])

    s, Z = _topk(apply, k, A.new_empty(m + n), "topk_svd", "singular values")
    if float(s.detach()[0]) <= 2 * math.sqrt(m + n) * torch.finfo(s.dtype).eps * float(
        s.detach()[-1]
    ):
        raise LinAlgError(
            f"topk_svd expects k of at most the rank, but the singular value {k} is zero; give a smaller k"
        )
    Z = math.sqrt(2) * Z.flip(-1)
    return SVDResult(Z[:m], s.flip(-1), Z[m:].mH)


def _check_single(A: Tensor, caller: str) -> None:
    if A.dim() != 2 or A.dtype not in DTYPES or 0 in A.shape:
        raise ValueError(
            f"{caller} expects one matrix of single or double precision, got {tuple(A.shape)} {A.dtype}; for "
            "batches of small matrices use eigh or svd"
        )
