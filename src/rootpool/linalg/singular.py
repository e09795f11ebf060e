r"""Functions of singular values, :math:`F(A) = U f(S) V^H`: derivatives that divide by no gap.

Polar factors, nearest rotations and bases of subspaces are instances of the machine of this file.

With :math:`X = U^H dA\, V`, split into its Hermitian part H and its antihermitian part K,

.. math:: dF = U \left( L \circ H + P \circ K \right) V^H + (I - U U^H)\, dA\, V\, r(S)\, V^H, \qquad
          L_{ij} = f[s_i, s_j], \quad P_{ij} = \frac{f(s_i) + f(s_j)}{s_i + s_j}, \quad r(s) = \frac{f(s)}{s}

for at least as many rows as columns (otherwise transpose). L has no cancellation
(:class:`ScalarFunction`), and at zero P and r are :math:`f'(0)`. F is the gradient of
:math:`\sum_i \phi(s_i)` with :math:`\phi' = f`, so that all of its derivatives are symmetric, and each
map is its own transpose.

For the second derivative continue f as an odd function. F is then a block of the matrix function f of
:math:`\begin{psmallmatrix} 0 & A \\ A^H & 0 \end{psmallmatrix}`, with eigenvalues :math:`\pm s_i` and 0.
In its eigenvectors a change of A has the blocks :math:`\pm H`, :math:`\pm K` and, outside the range of U,
:math:`Y = (I - U U^H)\, dA\, V`. What the theorem of Daleckii and Krein says of second derivatives becomes

.. math:: \begin{aligned}
    H_2 &= \sum_k f[s_i, s_k, s_j] H_{ik} H'_{kj} - f[s_i, -s_k, s_j] K_{ik} K'_{kj}
           + \tfrac12 f[s_i, 0, s_j] (Y^H Y')_{ij}, \\
    K_2 &= B - B^H - \tfrac12 f[-s_i, 0, s_j] (Y^H Y')_{ij}, \qquad
           B_{ij} = \sum_k f[-s_i, s_k, s_j] K_{ik} H'_{kj}, \\
    Y_2 &= \sum_k f[0, s_k, s_j] Y_{ik} H'_{kj} - f[0, -s_k, s_j] Y_{ik} K'_{kj},
    \end{aligned}

each added to what it is with both directions exchanged. Only the first has three arguments of one sign; the
others are quotients by a *sum* of two of them, the one that contains the larger, and so sums of products.

References: Noferini, A formula for the Frechet derivative of a generalized matrix function, SIAM J. Matrix
Analysis 38(2), 2017; Higham, *Functions of Matrices*, 2008, section 3.2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import bad_item, check_count, check_matrix, check_range
from .decompose import roundoff, svd_forward
from .differentiation import hermitian_part, quotient
from .functions import named_function
from .parameters import check_not_negative
from .precision import without_autocast
from .restricted import Pieces, check_cut, leading
from .scalar import Power, ScalarFunction
from .smooth import Factors, Smooth, differentiable_tall

_ADVICE = "scale the matrices, or keep their small singular values away from zero"


class Coefficients(NamedTuple):
    """L, P and r of the formulas."""

    differences: Tensor
    sums: Tensor
    ratios: Tensor

    def without_slope(self) -> Coefficients:
        """Of f minus a multiple of the identity, which second derivatives do not see.

        With the slope of f at the smallest singular value nothing is left there that would cancel.
        """
        slope = self.differences[..., :1, :1]
        return Coefficients(*(c - slope for c in self))


class SingularMap(Smooth):
    """``A -> U f(S) V^H`` for at least as many rows as columns; the factors are U, s and V."""

    twice_at_zero = True  # whether there is a second derivative where a singular value is zero

    @abstractmethod
    def coefficients(self, s: Tensor) -> Coefficients:
        """Of the derivatives."""

    @abstractmethod
    def second_product(self, s: Tensor, G: Tensor, W: Tensor) -> Tensor:
        """As of :class:`ScalarFunction`, for ascending ``s``."""

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return factors[0]

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        U, s, V = factors
        c, right = self.coefficients(s), dA @ V
        X = U.mH @ right
        H = hermitian_part(X)
        inner = c.differences * H + c.sums * (X - H)
        if U.shape[-2] > U.shape[-1]:
            change = (U @ (inner - X * c.ratios) + right * c.ratios) @ V.mH
        else:
            change = U @ inner @ V.mH
        check_range(change, f"the derivative of {self.name}", dA, advice=_ADVICE)
        return change

    vjp = jvp

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        U, s, V = factors
        c = self.coefficients(s).without_slope()
        L, P, R = c.differences, c.sums, quotient(1, s.unsqueeze(-1) + s.unsqueeze(-2))
        (H, K, Y), (H_w, K_w, Y_w) = _parts(U, V, v), _parts(U, V, w)
        # The lower triangle of what is Hermitian: there s_i is the larger of s_i and s_j.
        lower = (R * K) @ (P * K_w) + (R * K_w) @ (P * K) - L * ((R * K) @ K_w + (R * K_w) @ K)
        B = _turned(c, K, H_w, P, R) + _turned(c, K_w, H, P, R)
        anti = B - B.mH
        if Y is not None and Y_w is not None:
            r, q = c.ratios, quotient(1, s).unsqueeze(-2)
            overlap = hermitian_part(Y.mH @ Y_w)
            lower = lower + (L - r) * q.mT * overlap
            anti = anti - (r - r.mT) * R * overlap
        inner = self.second_product(s, H, H_w) + lower.tril() + lower.tril(-1).mH + anti
        second = U @ inner
        if Y is not None and Y_w is not None:
            RK, RK_w = R * K, R * K_w
            second = second + _turned(c, Y, H_w, r, q) + _turned(c, Y_w, H, r, q)
            second = second + (Y * r) @ RK_w + (Y_w * r) @ RK - (Y @ RK_w + Y_w @ RK) * r
        second = second @ V.mH
        check_range(second, f"the second derivative of {self.name}", v, w, advice=_ADVICE)
        return self._where_it_exists(second, s)

    vjp_of_jvp = jvp_of_jvp

    def _where_it_exists(self, second: Tensor, s: Tensor) -> Tensor:
        """``second``, unless a zero forbids it: an error then, or NaN where nobody can look."""
        if self.twice_at_zero:
            return second
        singular = (s == 0).any(-1)
        if item := bad_item(singular):
            raise LinAlgError(
                f"{self.name} has no second derivative at the singular matrix {item}; add a small matrix "
                "to A"
            )
        return torch.where(singular[..., None, None], torch.nan, second)


@dataclass(frozen=True)
class SingularFunction(SingularMap):
    """Of a function with f(0) = 0, or of full rank; singular values ascend."""

    function: ScalarFunction
    caller: str
    solver_device: str | torch.device | None = None

    @property
    def name(self) -> str:
        return self.caller

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        U, s, Vh = svd_forward(A, False, self.solver_device)
        s = torch.where(s <= roundoff(s), 0, s)
        U, s, V = U.flip(-1), s.flip(-1), Vh.mH.flip(-1).resolve_conj()
        F = (U * self._values(s).unsqueeze(-2)) @ V.mH
        check_range(F, self.caller, A, advice="scale the matrices")
        return F, U, s, V.contiguous()

    def _values(self, s: Tensor) -> Tensor:
        """``f(s)``; where the vectors are arbitrary, f has to be zero."""
        f = self.function.values(s)
        undefined = (s == 0) & (self.function.values(torch.zeros_like(s)) != 0)
        if item := bad_item(undefined.any(-1)):
            raise LinAlgError(
                f"{self.caller}: {item} is singular to working precision, where {self.function} is not "
                "defined, because it does not tend to 0 there; give a function with f(0) = 0, or add a small "
                "matrix to A"
            )
        return torch.where(undefined, torch.nan, f)

    def coefficients(self, s: Tensor) -> Coefficients:
        f, slope = self._values(s), self.function.derivatives(s)
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        totals = quotient(f.unsqueeze(-1) + f.unsqueeze(-2), sums)
        return Coefficients(
            self.function.divided_differences(s),
            torch.where(sums == 0, slope.unsqueeze(-1), totals),
            torch.where(s == 0, slope, quotient(f, s)).unsqueeze(-2),
        )

    def second_product(self, s: Tensor, G: Tensor, W: Tensor) -> Tensor:
        return self.function.second_product(s, G, W)

    @property
    def twice_at_zero(self) -> bool:  # type: ignore[override]
        # |x| x has none, although x^2 does.
        return self.function.twice_at_zero and self.function != Power(2.0)


def _parts(U: Tensor, V: Tensor, dA: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """H, K and Y of a direction; Y is None where U is square."""
    right = dA @ V
    X = U.mH @ right
    H = hermitian_part(X)
    return H, X - H, right - U @ X if U.shape[-2] > U.shape[-1] else None


def _turned(c: Coefficients, K: Tensor, H: Tensor, P: Tensor, R: Tensor) -> Tensor:
    """``sum_k f[-s_i, s_k, s_j] K_ik H_kj``; with r and 1/s for P and R, ``f[0, s_k, s_j]``."""
    L, before, after = c.differences, H.triu(), H.tril(-1)  # k up to j, and k beyond j
    by_ij = R * (K @ (L * before) - (P * K) @ before)
    return by_ij + (R * K) @ (L * after) - P * ((R * K) @ after)


# --------------------------------------------------------------------------------------------------
# Functions that are linear on parts of the spectrum


@dataclass(frozen=True)
class _Clamp(Pieces):
    """Between ``low`` and ``high``, minus ``offset``; with the slope of ``torch.clamp`` at both."""

    low: float
    high: float = math.inf
    offset: float = 0.0

    def part(self, s: Tensor) -> Tensor:
        return (s >= self.low).long() + (s > self.high).long()

    def values(self, s: Tensor) -> Tensor:
        return s.clamp(self.low, self.high) - self.offset


@dataclass(frozen=True)
class _LowRank(Pieces):
    """The ``count`` largest singular values; kept zeros count as dropped, since that keeps the rank."""

    count: int

    def part(self, s: Tensor) -> Tensor:
        return leading(s, self.count) & (s > 0)

    def values(self, s: Tensor) -> Tensor:
        return torch.where(self.part(s), s, 0)

    def divided_differences(self, s: Tensor) -> Tensor:
        cut = s.shape[-1] - self.count
        if cut > 0:
            kept = torch.where(s[..., cut] == 0, torch.inf, s[..., cut])
            check_cut(kept, s[..., cut - 1], roundoff(s)[..., 0], "singular values")
        return super().divided_differences(s)

    def second_product(self, s: Tensor, G: Tensor, W: Tensor) -> Tensor:
        null = s[..., max(s.shape[-1] - self.count, 0)] == 0
        if item := bad_item(null):
            raise LinAlgError(
                f"low_rank has no second derivative at {item}, whose rank is below k = {self.count}; choose "
                "k up to the rank"
            )
        return super().second_product(s, G, W)


# --------------------------------------------------------------------------------------------------
# For users


@without_autocast
def singular_value_function(
    A: Tensor,
    function: str | ScalarFunction,
    *,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""A function of the singular values, :math:`U f(S) V^H`, of matrices of any shape.

    .. math:: dF = U \left[ f[s_i, s_j]\, H_{ij} + \frac{f(s_i) + f(s_j)}{s_i + s_j} K_{ij} \right] V^H
              + (I - U U^H)\, dA\, V \frac{f(S)}{S} V^H + U \frac{f(S)}{S} U^H dA\, (I - V V^H)

    with the Hermitian part H and the antihermitian part K of :math:`U^H dA\, V`. Equal singular values
    are ordinary, in the second derivative too. Singular values at round-off level
    (``2 sqrt(k) eps max(s)``) count as zeros. There the derivative is the one of f continued as an odd
    function. Where that is infinite (roots), it is taken along changes that keep the rank.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        function: a name or a :class:`ScalarFunction`, as in :func:`matrix_function`: ``Power(0.5)`` for a
            root. For singular A it has to be zero at zero.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``(..., m, n)``.

    Raises:
        torch.linalg.LinAlgError: for a singular A where ``f(0)`` is not 0. Also in the second derivative,
            where f has none at zero.

    Reference: Noferini, A formula for the Frechet derivative of a generalized matrix function, SIAM J.
    Matrix Analysis 38(2), 2017.

    >>> A = torch.tensor([[0.0, -4.0], [9.0, 0.0], [0.0, 0.0]])
    >>> singular_value_function(A, "sqrt").round()
    tensor([[ 0., -2.],
            [ 3.,  0.],
            [ 0.,  0.]])
    """
    check_matrix(A, "singular_value_function")
    f = SingularFunction(named_function(function), "singular_value_function", solver_device)
    return differentiable_tall(f, A)


@without_autocast
def low_rank(A: Tensor, k: int, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The nearest matrix of rank k: :math:`\sum_{i \le k} s_i u_i v_i^H` (truncated SVD).

    The derivative is the one of :func:`singular_value_function` with :math:`f(s) = s` for the k largest
    singular values and 0 for the others. It divides by the gaps between kept and dropped values, and by
    no others: equal values on one side are ordinary. It includes what the dropped part contributes.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        k: the rank, 1 to ``min(m, n)``. Matrices of smaller rank stay as they are, and their gradient is
            taken along changes that keep the rank.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``(..., m, n)``.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the singular values on both sides of the cut are
            equal to working precision (not under ``torch.compile`` and ``torch.func``: there it is
            infinite or NaN).

    References: Eckart and Young, Psychometrika 1(3), 1936; Francuz, Schuch and Vanhecke, Stable and
    efficient differentiation of tensor network algorithms, Physical Review Research 7, 2025.

    >>> A = torch.diag(torch.tensor([3.0, 3.0, 1.0])).requires_grad_()
    >>> low_rank(A, 2)[0, 2].backward()
    >>> A.grad[0, 2], A.grad[2, 0]
    (tensor(1.1250), tensor(0.3750))
    """
    check_matrix(A, "low_rank")
    check_count(k, min(A.shape[-2:]), "low_rank", A)
    return differentiable_tall(SingularFunction(_LowRank(k), "low_rank", solver_device), A)


@without_autocast
def singular_value_threshold(
    A: Tensor, threshold: float, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Soft threshold of singular values: the proximal step of the nuclear norm.

    .. math:: U \max(S - \tau, 0)\, V^H = \mathrm{argmin}_X \; \tau \|X\|_* + \tfrac12 \|X - A\|^2

    with exact derivatives, also at equal and zero singular values. At a singular value that is equal to
    the threshold, the slope is 1.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        threshold: :math:`\tau`, a number of at least 0. For one that is learned, write
            ``t * singular_value_threshold(A / t, 1.0)``.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``(..., m, n)``.

    Reference: Cai, Candes and Shen, A singular value thresholding algorithm for matrix completion, SIAM J.
    Optimization 20(4), 2010.

    >>> singular_value_threshold(torch.diag(torch.tensor([3.0, 1.0])), 2.0).abs()
    tensor([[1., 0.],
            [0., 0.]])
    """
    check_matrix(A, "singular_value_threshold")
    check_not_negative("threshold", threshold)
    function = _Clamp(threshold, offset=threshold)
    f = SingularFunction(function, "singular_value_threshold", solver_device)
    return differentiable_tall(f, A)


@without_autocast
def clip_singular_values(
    A: Tensor,
    max: float,
    *,
    min: float = 0.0,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Singular values clipped to an interval: with the default, the nearest matrix of norm at most ``max``.

    .. math:: U \min(\max(S, s_{\min}), s_{\max})\, V^H

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        max: the largest singular value of the result, positive; ``float("inf")`` for no bound.
        min: the smallest one, at most ``max``. If it is positive, ``A`` must have full rank.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``(..., m, n)``. Derivatives are exact at ties; at a bound they are as in :func:`torch.clamp`.

    Raises:
        torch.linalg.LinAlgError: for a singular ``A`` where ``min`` is positive.

    >>> clip_singular_values(torch.diag(torch.tensor([3.0, 1.0])), 2.0)
    tensor([[2., 0.],
            [0., 1.]])
    """
    check_matrix(A, "clip_singular_values")
    check_not_negative("min", min)
    if not (max > 0 and max >= min):
        raise ValueError(
            f"clip_singular_values expects max to be positive and at least min, got {max=} and {min=}"
        )
    function = _Clamp(float(min), float(max))
    return differentiable_tall(SingularFunction(function, "clip_singular_values", solver_device), A)
