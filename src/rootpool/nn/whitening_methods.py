"""How features are whitened, given their covariance: by an inverse root or a triangular factor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import Minimax, inv_sqrtm, newton_schulz
from rootpool.linalg.parameters import check_at_least
from rootpool.suggest import unknown_name

from .factors import cholesky, inverse_factor, with_ridge


@dataclass(frozen=True)
class WhiteningMethod(ABC):
    r"""A function of covariances that gives a matrix W with :math:`W (\Sigma + \varepsilon I) W^T = I`.

    A subclass is a frozen dataclass whose fields are its parameters. ``name`` is what users call it,
    ``use`` says in one line when to choose it.

    >>> from rootpool.nn import Whitening
    >>> Whitening(8, method=CholeskyWhitening()).method
    CholeskyWhitening()
    """

    name: ClassVar[str]
    use: ClassVar[str]

    @abstractmethod
    def __call__(self, S: Tensor, eps: float, rounding: float = 0.0) -> Tensor:
        """W, ``(..., n, n)``.

        Args:
            S: covariances ``(..., n, n)``.
            eps: the ridge.
            rounding: how far ``S`` may be off, relative to its trace, because it was stored in a narrower
                dtype; what the computation itself rounds comes on top.
        """


@dataclass(frozen=True)
class ExactWhitening(WhiteningMethod):
    r"""ZCA: :math:`W = (\Sigma + \varepsilon I)^{-1/2}`, by an eigendecomposition.

    Its gradient is exact at repeated eigenvalues. Among all whitening matrices it changes the features
    least.
    """

    name: ClassVar[str] = "exact"
    use: ClassVar[str] = "the default: white to the last digits, whatever the condition number"

    def __call__(self, S: Tensor, eps: float, rounding: float = 0.0) -> Tensor:
        # Round-off, also of the running statistics, may take eigenvalues below the ridge.
        return inv_sqrtm(with_ridge(S, eps), eigenvalue_floor=eps / 2)


@dataclass(frozen=True)
class NewtonWhitening(WhiteningMethod):
    r"""IterNorm: a few Newton-Schulz steps towards :math:`(\Sigma + \varepsilon I)^{-1/2}`.

    .. math::
        S = (\Sigma + \varepsilon I) / \mathrm{tr}(\Sigma + \varepsilon I), \quad P_0 = I, \quad
        P_{k+1} = \tfrac12 (3 P_k - P_k^3 S), \quad W = P_T / \sqrt{\mathrm{tr}(\Sigma + \varepsilon I)}

    Products only, so that it can be exported. Large eigenvalues become 1 first. Directions with less than
    about :math:`1.5^{-2T}` of the trace stay small, which IterNorm means to be so: the noise of small
    batches is in them. The iteration is the coupled one of :func:`rootpool.linalg.newton_schulz`, whose
    iterates are the same but for rounding: by itself :math:`P_k` is not stable. Many steps (20 and more)
    need a ridge above the rounding of the covariance, because an eigenvalue below zero diverges.

    Args:
        iterations: T, or :class:`rootpool.linalg.Minimax`.

    Reference: Huang et al., Iterative normalization: beyond standardization towards efficient whitening,
    CVPR 2019, which uses 5.
    """

    name: ClassVar[str] = "newton"
    use: ClassVar[str] = "IterNorm: products only, and small eigenvalues are left small"

    iterations: int | Minimax = 5

    def __post_init__(self) -> None:
        if not isinstance(self.iterations, Minimax):
            check_at_least("NewtonWhitening.iterations", self.iterations, 1)

    def __call__(self, S: Tensor, eps: float, rounding: float = 0.0) -> Tensor:
        return newton_schulz(with_ridge(S, eps), self.iterations).inverse_root


@dataclass(frozen=True)
class CholeskyWhitening(WhiteningMethod):
    r""":math:`W = L^{-1}` with :math:`L L^T = \Sigma + \varepsilon I`, as in W-MSE.

    White like the exact one, without an eigendecomposition. But it depends on the order of the channels:
    the first is only scaled, the last is what all others do not explain. Where rounding would make the
    factorisation break down, the ridge is larger: the rounding of the covariance.

    Reference: Ermolov et al., Whitening for self-supervised representation learning, ICML 2021.
    """

    name: ClassVar[str] = "cholesky"
    use: ClassVar[str] = "no eigendecomposition, where the order of the channels may matter (W-MSE)"

    def __call__(self, S: Tensor, eps: float, rounding: float = 0.0) -> Tensor:
        ridge = torch.where(self._breaks_down(S, eps), self._safe_ridge(S, rounding), eps)
        advice = f'raise eps, which is {eps}, or use method="exact"'
        # A product with the inverse of n columns is several times faster than a solution for all m.
        return inverse_factor(cholesky(with_ridge(S, ridge[..., None, None]), "whitening", advice))

    @staticmethod
    def _breaks_down(S: Tensor, eps: float) -> Tensor:
        """Whether pivots, which are at least eps without rounding, are far below it: ``(...)``."""
        L, info = torch.linalg.cholesky_ex(with_ridge(S.detach(), eps))
        pivots = L.diagonal(dim1=-2, dim2=-1).square()
        broken: Tensor = (info != 0) | (pivots < eps / 2).any(-1)
        return broken

    @staticmethod
    def _safe_ridge(S: Tensor, rounding: float) -> Tensor:
        """Four times what a factorisation and the dtype of the statistics round, ``(...)``.

        The first is below n + 1 roundings of the trace (Higham, Accuracy and Stability, 2002, theorem 10.3).
        """
        trace = S.diagonal(dim1=-2, dim2=-1).sum(-1)
        return 4 * (rounding + S.shape[-1] * torch.finfo(S.dtype).eps) * trace


WHITENING_METHODS: dict[str, type[WhiteningMethod]] = {
    method.name: method for method in (ExactWhitening, NewtonWhitening, CholeskyWhitening)
}


def resolve_whitening(method: str | WhiteningMethod) -> WhiteningMethod:
    """Return the whitening of that name with its defaults, or the value itself.

    >>> resolve_whitening("newton")
    NewtonWhitening(iterations=5)
    >>> resolve_whitening(NewtonWhitening(iterations=7))
    NewtonWhitening(iterations=7)
    """
    if isinstance(method, WhiteningMethod):
        return method
    if not isinstance(method, str):
        raise TypeError(
            "method must be a name in WHITENING_METHODS or a value such as NewtonWhitening(7), "
            f"got {method!r}"
        )
    if method not in WHITENING_METHODS:
        raise ValueError(unknown_name("whitening method", method, WHITENING_METHODS))
    return WHITENING_METHODS[method]()
