r"""The paper's own roots in two forms: *published*, its equations, and *released*, its authors' program.

**Published.** For :math:`P = U \Lambda U^T`, :math:`Q = U \Lambda^{1/2} U^T` and
:math:`G = \partial l / \partial Q` the paper has two steps,

.. math::
    \frac{\partial l}{\partial U} = (G + G^T)\, U \Lambda^{1/2}, \qquad
    \frac{\partial l}{\partial \Lambda} = \tfrac12 \Lambda^{-1/2} (U^T G U)_\mathrm{diag},

.. math::
    \frac{\partial l}{\partial P} = U \left( K^T \circ \big( U^T \tfrac{\partial l}{\partial U} \big)
    + \tfrac{\partial l}{\partial \Lambda} \right) U^T ,

evaluated in the precision of P in a way that decides what comes out near ties:

* :math:`\Lambda` and U are the singular values and right singular vectors of P, so that the zero
  eigenvalues of a covariance come back as rounding errors with a positive sign; those at or below eps are
  raised to eps;
* K has a positive sign at ties in both triangles, where it ought to be antisymmetric;
* its infinite entries become the largest finite entry of the whole batch.

Two terms of each pair that ought to cancel are multiplied by an entry of K before they meet, so that near
ties their rounding errors are what remains, and at ties they do not cancel at all.

**Released.** The program (DifferentiableSVD, commit 1676a64) does the same, except that

* covariances are :math:`X \bar I X^T` with a centring matrix :math:`\bar I` that is rounded to float32 also
  where everything else is float64. Its rows do not add up to zero, so a rank of N - 1 becomes N;
* ratios of eigenvalues are rounded once above the diagonal of K and twice below it, so that K is not
  antisymmetric near ties either;
* infinities are also replaced in the two products that follow and in the gradient to the features, where
  NaN become zeros;
* SVD-TopN drops the last 50 eigenvalues, whatever their number;
* SVD-PI projects with the complement of *all* eigenvectors and ignores the gradient to the eigenvalues,
  so that what remains is rounding errors;
* SVD-Newton differentiates 10 iterations on the covariance, and replaces nothing.

Its iSQRT-COV does not run, and has no form here.

.. warning::
    This is here to measure what the paper is about, and nothing else in the library uses it. Training with
    it can diverge, one sample changes the gradient of all others in the batch, and it hides infinities,
    which no other part of this library does. The methods without ``-published`` or ``-released`` in their
    names have none of this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias

import torch
from torch import Tensor

from rootpool.linalg import Pade, PowerIteration, Taylor, Truncated, newton_schulz
from rootpool.linalg.decompose import svd_forward
from rootpool.linalg.smooth import Factors, Smooth, differentiable

from .covariance import check_covariance
from .kernel_roots import SVDPI, MPNCov, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from .method import Method
from .newton_root import SVDNewton

# From the larger and the smaller eigenvalue of each pair to K_ij.
PairKernel: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PublishedRoot(Method):
    """The root of covariances with the published gradient; subclasses name the method and its parameters."""

    source: ClassVar[str] = "published"
    ours: ClassVar[type[Any]]
    defaults: ClassVar[dict[str, Any]] = {}  # of parameters, where they are not ours

    def __post_init__(self) -> None:
        _ = self.root  # checks the parameters

    @property
    def root(self) -> Any:
        """The same method with our gradient."""
        given = asdict(self).items()
        return self.ours(**{name: value for name, value in given if value is not None})

    def keep(self, channels: int) -> int:
        """How many of the largest eigenvalues to keep; the others are set to eps."""
        return getattr(self, "count", channels)

    def pair_kernel(self, larger: Tensor, smaller: Tensor, ratio: Tensor | None = None) -> Tensor:
        """The kernel of the larger and the smaller eigenvalue of each pair, and of their ratio."""
        rule = self.root.rule
        x = smaller / larger if ratio is None else ratio
        if isinstance(rule, Pade):
            p, q = pade_coefficients(rule.degree)
            return sum_of_powers(p, x) / sum_of_powers(q, x) / larger
        if isinstance(rule, (Taylor, PowerIteration)):
            return sum_of_powers((1.0,) * rule.terms, x) / larger
        kernel = 1 / (larger - smaller)
        return kernel.clamp(-rule.bound, rule.bound) if isinstance(rule, Truncated) else kernel

    def ratio(self, first: Tensor, second: Tensor) -> Tensor:
        """The smaller eigenvalue of each pair over the larger one."""
        return torch.minimum(first, second) / torch.maximum(first, second)

    def kernel(self, lam: Tensor) -> Tensor:
        """K of a batch of spectra: positive at ties, and with its infinities replaced."""
        first, second = lam.unsqueeze(-1), lam.unsqueeze(-2)
        larger, smaller = torch.maximum(first, second), torch.minimum(first, second)
        entries = self.pair_kernel(larger, smaller, self.ratio(first, second))
        K = torch.where(first >= second, entries, -entries)
        diagonal = torch.eye(lam.shape[-1], dtype=torch.bool, device=lam.device)
        return _without_infinities(K.masked_fill(diagonal, 0))

    def gradient(self, G: Tensor, lam: Tensor, U: Tensor) -> Tensor:
        """The gradient to the covariances: both steps, not symmetrised.

        Args:
            G: gradient to the roots, ``(..., d, d)``.
            lam: eigenvalues, at least eps, ``(..., d)``.
            U: eigenvectors in columns.
        """
        s = lam.sqrt().unsqueeze(-2)
        to_vectors = (G + G.mT) @ (U * s)
        to_values = (U * (G @ U)).sum(-2, keepdim=True) / (2 * s)
        inner = self.kernel(lam).mT * (U.mT @ to_vectors)
        inner = self.repair(inner + torch.diag_embed(to_values.squeeze(-2)))
        return self.repair(U @ inner @ U.mT)

    def repair(self, T: Tensor) -> Tensor:
        """What happens to the products of the gradient: nothing."""
        return T

    def __call__(self, P: Tensor) -> Tensor:
        return differentiable(_Root(self), P)


class ReleasedRoot(PublishedRoot):
    """The same as the authors' program computes it."""

    source: ClassVar[str] = "released"

    def covariance(self, features: Tensor) -> Tensor:
        """Covariances with the centring matrix of the program."""
        P = differentiable(_ReleasedCovariance(self), features)
        check_covariance(P, features)
        return P

    def ratio(self, first: Tensor, second: Tensor) -> Tensor:
        """Rounded once above the diagonal and twice below it."""
        ratio = first / second
        return torch.where(ratio < 1, ratio, 1 / ratio)

    def repair(self, T: Tensor) -> Tensor:
        """The same as with the kernel."""
        return _without_infinities(T)

    def repair_features(self, T: Tensor) -> Tensor:
        """The same for the gradient to the features, and NaN become zeros."""
        T = self.repair(T)
        return torch.where(T.isnan(), 0, T)


def _without_infinities(T: Tensor) -> Tensor:
    """Infinity becomes the largest other entry of the batch, then minus infinity the smallest."""
    if T.numel() == 0:
        return T
    T = torch.where(T.isposinf(), T.masked_fill(T.isposinf(), -math.inf).amax(), T)
    return torch.where(T.isneginf(), T.masked_fill(T.isneginf(), math.inf).amin(), T)


class _ReleasedTopN(ReleasedRoot):
    defaults: ClassVar[dict[str, Any]] = {"count": None}
    count: int | None

    def keep(self, channels: int) -> int:
        return max(0, channels - 50) if self.count is None else self.count


class _ReleasedPI(ReleasedRoot):
    def gradient(self, G: Tensor, lam: Tensor, U: Tensor) -> Tensor:
        terms: int = self.root.iterations + 1
        norm = torch.linalg.vector_norm(lam, dim=-1, keepdim=True).clamp_min(1e-10)
        series = sum_of_powers((1.0,) * terms, lam / norm) / norm
        nothing = torch.eye(lam.shape[-1], dtype=U.dtype, device=U.device) - U @ U.mT
        to_vectors = (G + G.mT) @ (U * lam.sqrt().unsqueeze(-2))
        gradient: Tensor = (U * series.unsqueeze(-2)) @ (U.mT @ nothing) @ to_vectors @ U.mT
        return gradient


class _ReleasedNewton(ReleasedRoot):
    def __call__(self, P: Tensor) -> Tensor:
        approximation = newton_schulz(P, self.root.iterations).root
        with torch.no_grad():
            exact = _Root(self).value(P)[0]
        return approximation + (exact - approximation).detach()

    def repair_features(self, T: Tensor) -> Tensor:
        return T


def _form(ours: type[Any], form: type[PublishedRoot]) -> type[PublishedRoot]:
    """The class of a method in that form, with the parameters of ours."""
    source = form.source
    what = "by the paper's equations" if source == "published" else "as the authors' program has it"
    members = {
        "ours": ours,
        "name": f"{ours.name}-{source}",
        "use": f"to measure what the paper is about: {ours.name} {what}",
        "__doc__": f"{ours.__name__} {what}.",
        "__module__": __name__,
    }
    parameters = [(f.name, f.type, form.defaults.get(f.name, f.default)) for f in fields(ours)]
    name = f"{ours.__name__}{source.title()}"
    return make_dataclass(name, parameters, bases=(form,), namespace=members, frozen=True)


_RELEASED: dict[type[Any], type[ReleasedRoot]] = {
    MPNCov: ReleasedRoot,
    SVDTopN: _ReleasedTopN,
    SVDTrunc: ReleasedRoot,
    SVDPI: _ReleasedPI,
    SVDNewton: _ReleasedNewton,
    SVDTaylor: ReleasedRoot,
    SVDPade: ReleasedRoot,
}
FORMS = (
    *(_form(ours, PublishedRoot) for ours in _RELEASED if ours is not SVDNewton),
    *(_form(ours, form) for ours, form in _RELEASED.items()),
)
"""The methods, such as SVDPadePublished and SVDPadeReleased."""
globals().update({form.__name__: form for form in FORMS})  # a pickle finds a class by its name

# --------------------------------------------------------------------------------------------------
# For autograd


class _OnlyBackward(Smooth):
    """A function whose only derivative is the backward of the paper."""

    method: PublishedRoot

    @property
    def name(self) -> str:
        return self.method.name

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return A

    def jvp(self, factors: Factors, dA: Tensor) -> NoReturn:
        raise RuntimeError(f"{self.name} has no forward mode: its equations {_ADVICE}")

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> NoReturn:
        raise RuntimeError(f"{self.name} has no second derivative: its equations {_ADVICE}")

    jvp_of_jvp = vjp_of_jvp


_ADVICE = (
    "are those of a backward, and not the derivative of the root; use the method without -published or "
    "-released in its name, or exact"
)


@dataclass(frozen=True)
class _Root(_OnlyBackward):
    """``P -> Q`` with that gradient; the factors are eigenvalues and eigenvectors."""

    link: ClassVar[int | None] = 1

    method: PublishedRoot

    def value(self, P: Tensor) -> tuple[Tensor, ...]:
        _, lam, Vh = svd_forward(P, False, None)
        U = Vh.mT.contiguous()
        lam[..., self.method.keep(P.shape[-1]) :] = 0
        lam = lam.clamp_min(torch.finfo(P.dtype).eps)
        return (U * lam.sqrt().unsqueeze(-2)) @ U.mT, lam, U

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        lam, U, _ = factors
        return self.method.gradient(g, lam, U)


@dataclass(frozen=True)
class _ReleasedCovariance(_OnlyBackward):
    """``X -> X C X^T``, C the centring matrix; its gradient is ``(G + G^T) X C``."""

    link: ClassVar[int | None] = 0

    method: ReleasedRoot

    def value(self, X: Tensor) -> tuple[Tensor, ...]:
        return X @ _centring(X) @ X.mT, X.clone()

    def like_value(self, X: Tensor, factors: Factors) -> Tensor:
        return X @ X.mT

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        X = factors[0]
        return self.method.repair_features((g + g.mT) @ X @ _centring(X))


def _centring(X: Tensor) -> Tensor:
    """``I / N - 1 / N^2``, rounded to float32, in the dtype of X."""
    N = X.shape[-1]
    C = torch.full((N, N), -1 / N / N, dtype=torch.float32, device=X.device)
    return C.diagonal_scatter(C.diagonal() + 1 / N).to(X.dtype)


# --------------------------------------------------------------------------------------------------
# The Padé approximant of the paper's code


@functools.cache
def pade_coefficients(degree: int, digits: int = 20) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of the diagonal approximant of 1/(1 - x), solved for in so many digits.

    ``degree`` counts numerator and denominator together: 100 is [50/50]. The linear system is singular,
    because 1/(1 - x) is itself a quotient of polynomials. Its coefficients come from numerical
    differentiation and are ones up to rounding, and it is that rounding which the solution is made of.
    Where it does not help (degree 20 in 30 digits), the solver raises ``ZeroDivisionError``.
    """
    import mpmath  # type: ignore[import-untyped]  # comes with torch, by way of sympy

    with mpmath.workdps(digits):
        series = mpmath.taylor(lambda x: 1 / (1 - x), 0, degree)
        p, q = mpmath.pade(series, degree - degree // 2, degree // 2)
        return tuple(float(c) for c in p), tuple(float(c) for c in q)


def sum_of_powers(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """A polynomial, lowest power first, by adding one power after the other, as the paper's code does."""
    value = torch.full_like(x, coefficients[0])
    power = torch.ones_like(x)
    for c in coefficients[1:]:
        power *= x
        value += power if c == 1 else c * power
    return value
