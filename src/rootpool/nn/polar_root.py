r"""The root of a covariance as a polar factor of the features: matrix products alone, in their own precision.

**Value.** Centred features :math:`A = (X - \bar X)/\sqrt N = U S V^T` have the left polar decomposition
:math:`A = Q P` with :math:`Q = U S U^T = (A A^T)^{1/2}`, which is the root, and :math:`P = U V^T`. So
:math:`Q = A P^T`, and P is what an odd polynomial that is 1 on all singular values makes of A: no
eigenproblem, and no squared condition number. The polynomial is a composition of some of degree 5,

.. math:: X \leftarrow X (a I + b\, G + c\, G^2), \qquad G = X^T X,

each the best one for an interval (:mod:`rootpool.linalg.minimax`). Rounding asks for two changes: no interval
is wider than 1 : 10, as small values would be rounded with the errors of large ones, and its upper end is
widened by a hundredth.

**Null space.** The composition raises a singular value ``lower`` to 1, and with it whatever rounding leaves
in the null space: for float32 and ``lower=1e-5`` that is 0.01, which Q hides and the gradient shows. The last
step, :math:`X (\tfrac52 G - \tfrac32 G^2)`, keeps 1 to second order, and takes 0.01 to its cube. So singular
values below ``lower`` fade out, and count as zeros from a thirtieth of it on.

**Gradient.** With :math:`2S = G + G^T` for the gradient G of Q, :math:`T = P^T (2S) P` and
:math:`Y = P^T A = V S V^T`, the backward of :mod:`rootpool.nn.fused` reads

.. math:: \frac{\partial l}{\partial A} = 2 S P - \tfrac12 P (T + L(T)), \qquad
          Y L(K) + L(K) Y = Y K - K Y .

L multiplies by :math:`(s_i - s_j)/(s_i + s_j)` in the basis V, so it is bounded. It is half of the corner
of the sign (Roberts 1980; Higham, *Functions of Matrices*, 2008, section 5) of

.. math:: \begin{pmatrix} Y & Y K - K Y \\ 0 & -Y \end{pmatrix},

by the same polynomials. The transpose of that map is the change

.. math:: dQ = dA\,P^T + P\,dA^T - \tfrac12 P \left( F + F^T + L(F - F^T) \right) P^T, \qquad F = P^T dA .

With more positions than channels everything is on the other side: :math:`Y = Q`, :math:`F = dA\,P^T`.

References: Amsel et al., The Polar Express, 2025, for the polynomials; the root as a polar factor, the last
step and the gradient are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import sqrtm
from rootpool.linalg.checks import check_range
from rootpool.linalg.differentiation import hermitian_part
from rootpool.linalg.minimax import best_odd_polynomial
from rootpool.linalg.parameters import check_positive
from rootpool.linalg.smooth import Factors, Smooth, differentiable

from .covariance import GRADIENT_ADVICE, GRADIENT_OF
from .method import Method

Step = tuple[float, float, float]  # a, b, c
NEWTON_SCHULZ: Step = (1.875, -1.25, 0.375)
CUBE: Step = (0.0, 2.5, -1.5)
WIDEST, MARGIN = 0.1, 1.01


def _steps(lower: float) -> tuple[Step, ...]:
    """Polynomials that take values from ``lower`` to 1, and smaller ones to zero."""
    low, high = lower, 1.0
    steps: list[Step] = []
    while low < 0.95:
        (a, b, c), error = best_odd_polynomial(max(low, WIDEST * high), high)
        step = (a / MARGIN, b / MARGIN**3, c / MARGIN**5)
        low = min(low * (step[0] + step[1] * low**2 + step[2] * low**4), 1 - error)
        steps, high = [*steps, step], 1 + error
    return (*steps, NEWTON_SCHULZ, NEWTON_SCHULZ, CUBE)


def _scaled(A: Tensor) -> Tensor:
    """A in a unit in which its largest singular value is at most 1; zeros stay zeros."""
    size = A.abs().amax((-2, -1), keepdim=True)  # or squares would overflow, or vanish
    A = A / torch.where(size == 0, 1, size)
    norm = torch.linalg.vector_norm(A, dim=(-2, -1), keepdim=True) * (1 + 1e-6)
    return A / torch.where(norm == 0, 1, norm)


def _polynomial(identity: Tensor, G: Tensor, a: float, b: float, c: float) -> Tensor:
    """``a I + b G + c G^2``, in few launches."""
    return torch.baddbmm(torch.add(a * identity, G, alpha=b), G, G, alpha=c)


@dataclass(frozen=True)
class _LeftFactor(Smooth):
    """``A -> Q``; the factors are P and Y."""

    link: ClassVar[int | None] = 0  # P

    steps: tuple[Step, ...]
    tall: bool

    @property
    def name(self) -> str:
        return "covariance_pool with polar"

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        P = _scaled(A)
        identity = torch.eye(min(A.shape[-2:]), dtype=A.dtype, device=A.device)
        for a, b, c in self.steps:
            H = _polynomial(identity, P.mT @ P if self.tall else P @ P.mT, a, b, c)
            P = P @ H if self.tall else H @ P
        Q = hermitian_part(A @ P.mT)
        return Q, P, hermitian_part(P.mT @ A) if self.tall else Q.clone()

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return factors[0] @ factors[0].mT

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        P, Y = factors[:2]
        SP = (g + g.mT) @ P
        T = hermitian_part(P.mT @ SP)
        if self.tall:
            gradient = SP - P @ (T + self._coupled(Y, T, -1)) / 2
        else:
            T = hermitian_part(P @ T @ P.mT)
            gradient = SP - (T + self._coupled(Y, T, -1)) @ P / 2
        check_range(gradient, GRADIENT_OF, g, item="features", advice=GRADIENT_ADVICE)
        return gradient

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        P, Y = factors[:2]
        F = P.mT @ dA if self.tall else dA @ P.mT
        change = F + F.mT + self._coupled(Y, F - F.mT, 1)
        across = dA @ P.mT
        inner = P @ change @ P.mT if self.tall else (P @ P.mT) @ change @ (P @ P.mT)
        return across + across.mT - inner / 2

    def _coupled(self, Y: Tensor, K: Tensor, sign: int) -> Tensor:
        """``L(K)`` for a symmetric K (``sign=-1``) or an antisymmetric one (1)."""
        Y = _scaled(Y)
        C = Y @ K
        C = C + sign * C.mT
        identity = torch.eye(Y.shape[-1], dtype=Y.dtype, device=Y.device)
        for a, b, c in self.steps:
            # The square of the block matrix has Y^2 on its diagonal and D in its corner.
            Y2, D = Y @ Y, Y @ C
            D = torch.sub(D, D.mT, alpha=sign)
            D2 = Y2 @ D
            H = _polynomial(identity, Y2, a, b, c)
            corner = torch.add(b * D, torch.sub(D2, D2.mT, alpha=sign), alpha=c)
            Y, C = hermitian_part(Y @ H), torch.baddbmm(Y @ corner, C, H)
        return C / 2

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> Tensor:
        raise RuntimeError(f"second derivatives of {self.name} are not implemented; use 'exact'")

    jvp_of_jvp = vjp_of_jvp


@dataclass(frozen=True)
class PolarRoot(Method):
    """The root as a polar factor of the features: products alone, as accurate in float32 as ``exact``.

    It has the value and gradient of :class:`Exact` for singular values of the centred features (roots of
    eigenvalues) from ``lower`` times their root sum of squares on; smaller ones fade out, and count as zeros
    from a thirtieth of that on. So rank-deficient maps are ordinary. Of covariances alone, without their
    features, it is :func:`rootpool.linalg.sqrtm`.

    Args:
        lower: at least 1e-5 for products in float32, 1e-4 for three products in bfloat16 instead of one, 0.02
            for TF32: otherwise rounding errors of the null space appear in the gradient.

    >>> PolarRoot().of_features(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]])).round(decimals=4)
    tensor([[[1., 0.],
             [0., 0.]]])
    """

    name: ClassVar[str] = "polar"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = (
        "on a GPU, in CUDA graphs, or to export an accurate root: products in float32"
    )
    low_precision_ok: ClassVar[bool] = True

    lower: float = 1e-5

    def __post_init__(self) -> None:
        check_positive("PolarRoot.lower", self.lower)
        if self.lower >= 1:
            raise ValueError(f"PolarRoot.lower must be below 1, got {self.lower!r}")
        object.__setattr__(
            self, "_steps", _steps(self.lower)
        )  # once; no field, as it is no parameter

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P)

    def of_features(self, features: Tensor) -> Tensor:
        """The root of the covariance of features ``(B, C, N)``."""
        d, N = features.shape[-2:]
        tall = d >= N
        # Relative to the first position, so that a constant map is exactly zero.
        if tall and N > 1:  # and by the reflection that maps the constant vector to the first axis
            A = features[..., 1:] - features[..., :1]
            # A number: torch.jit.trace makes N a tensor, whose sum with a number is float32.
            A = A - A.sum(-1, keepdim=True) / (float(N) + math.sqrt(N))
        else:
            A = features - features[..., :1].detach()
            A = A - A.mean(-1, keepdim=True)
        steps: tuple[Step, ...] = getattr(self, "_steps")  # noqa: B009 - mypy sees fields alone
        return differentiable(_LeftFactor(steps, tall), A / math.sqrt(N))
