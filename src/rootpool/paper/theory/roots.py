"""Gradients of the matrix root: what ties do to the paper's equations, and the exact one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rootpool.analysis import Record
from rootpool.linalg import sqrtm
from rootpool.nn import covariance_pool

from ..result import Result
from .common import normal, numbers, orthogonal, relative_error
from .reference import REFERENCE_KERNELS, reference_gradient

__all__ = ["exact_gradient", "ties"]

EXACT_TIES = ("fewer positions than channels", "equal")


def _maps() -> dict[str, Tensor]:
    """Features ``(C, N)`` whose covariances have spectra of four kinds."""
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(3):
        hadamard = torch.kron(hadamard, torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double())
    scale = torch.tensor([2.0, 2, 2, 1, 1, 1, 1], dtype=torch.float64)
    equal = scale[:, None] * hadamard[1:]  # covariance diag(4, 4, 4, 1, 1, 1, 1), to the bit
    return {
        "separated": normal(6, 200),
        "fewer positions than channels": normal(8, 5),
        "equal": equal,
        "equal up to rounding": orthogonal(7, seed=2) @ equal,
    }


def feature_gradient(X: Tensor, G: Tensor) -> tuple[Tensor, float]:
    r"""The exact gradient of the root to features ``(C, N)``, and the largest coefficient in it.

    .. math:: \frac{\partial l}{\partial A} =
        \left[ U (M \circ H) + (I - U U^T) (G + G^T) U \right] V^T, \quad H_{ij} = \frac{s_j}{s_i + s_j}

    by the singular value decomposition of the centred features, without the values at round-off.
    """
    A = (X - X.mean(1, keepdim=True)) / math.sqrt(X.shape[1])
    U, s, Vh = torch.linalg.svd(A, full_matrices=False)
    keep = s > 1e-12 * s[0]
    U, s, Vh = U[:, keep], s[keep], Vh[keep]
    M = U.mT @ (G + G.mT) @ U
    H = s / (s[:, None] + s)
    inside = U @ (M * H - M) + (G + G.mT) @ U
    return inside @ Vh / math.sqrt(X.shape[1]), float(H.max())


def _layer_gradient(X: Tensor, G: Tensor, method: str) -> Tensor:
    X = X.unsqueeze(0).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(covariance_pool(X, method, output="matrix")[0], X, G)
    return gradient[0]


def ties() -> Result:
    """Gradients of the root to the features: the paper's equations, our layers, the exact one."""
    records: list[Record] = []
    for kind, X in _maps().items():
        G = normal(len(X), len(X), seed=3)
        expected, _ = feature_gradient(X, G)
        for name, (method, kernel) in REFERENCE_KERNELS.items():
            reference = relative_error(reference_gradient(X, G, kernel), expected)
            ours = relative_error(_layer_gradient(X, G, method), expected)
            records.append(
                {"spectrum": kind, "method": name, "reference_error": reference, "our_error": ours}
            )
        exact = relative_error(_layer_gradient(X, G, "exact"), expected)
        records.append({"spectrum": kind, "method": "exact", "our_error": exact})
    return Result(
        "theory:ties",
        "Where eigenvalues tie, the paper's equations give no gradient, if the kernel is infinite "
        "there, or leave the tie out, whatever finite number stands there. Fused with the root, every "
        "kernel is right at a tie. The exact gradient is right near a tie, too.",
        *_tie_verdict(records),
        {"dtype": "float64"},
    )


def _tie_verdict(records: list[Record]) -> tuple[tuple[Record, ...], bool, str]:
    equal = [r for r in records if r["spectrum"] == "equal" and "reference_error" in r]
    thin = [r for r in records if r["spectrum"] == EXACT_TIES[0] and "reference_error" in r]
    wrong = sum(not float(r["reference_error"] or 0) < 0.1 for r in equal)
    missing = [
        str(r["method"]) for r in thin if not math.isfinite(float(r["reference_error"] or 0))
    ]
    ours = max(e for kind in EXACT_TIES for e in numbers(records, "our_error", spectrum=kind))
    exact = max(numbers(records, "our_error", method="exact"))
    near = [r for r in records if r["spectrum"] == "equal up to rounding"]
    lost = [str(r["method"]) for r in near if float(r["our_error"] or 0) > 0.1]
    return (
        tuple(records),
        wrong == len(equal) and bool(missing) and ours < 1e-7 and exact < 1e-12,
        f"At equal eigenvalues {wrong} of {len(equal)} gradients of the paper's equations are wrong or "
        f"not finite. With fewer positions than channels {' and '.join(missing)} give none; a finite "
        f"kernel does no harm there, because no feature points into the null space. Our layers are "
        f"within {ours:.0e} at both. Within rounding of a tie {' and '.join(lost)} lose it even fused, "
        f"since they bound the kernel; the exact gradient is right to {exact:.0e} everywhere.",
    )


# --------------------------------------------------------------------------------------------------


def exact_gradient(exponents: Sequence[int] = (0, -2, -4, -6, -8, -10, -12, -14)) -> Result:
    """Error of the gradient of a matrix root by the gap of two eigenvalues, against 50 digits."""
    records: list[Record] = []
    for gap, dtype in itertools.product(
        [*(10.0**e for e in exponents), 0.0], (torch.float64, torch.float32)
    ):
        A = _with_gap(gap).to(dtype)
        G = normal(3, 3, seed=1).to(dtype)
        expected = root_gradient_in_50_digits(A, G)
        for name, root in _ROOTS.items():
            leaf = A.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(root(leaf), leaf, G)
            error = relative_error((gradient + gradient.mT).double() / 2, expected)
            kind = str(dtype).removeprefix("torch.")
            records.append({"gap": gap, "dtype": kind, "way": name, "error": error})
    ours = {
        dtype: max(numbers(records, "error", way="rootpool.linalg.sqrtm", dtype=dtype))
        for dtype in ("float64", "float32")
    }
    native = numbers(records, "error", way="torch.linalg.eigh", dtype="float64")
    coefficients = max(feature_gradient(X, normal(len(X), len(X)))[1] for X in _maps().values())
    return Result(
        "theory:exact-gradient",
        "The gradient of a matrix root needs no 1 / (lambda_i - lambda_j): its coefficients are "
        "1 / (s_i + s_j), and with respect to the features s_j / (s_i + s_j), between 0 and 1.",
        tuple(records),
        ours["float64"] < 1e-14
        and ours["float32"] < 1e-5
        and math.isnan(native[-1])
        and coefficients <= 1,
        f"At gaps from 1 to 0 our gradient is right to {ours['float64']:.0e} in float64 and to "
        f"{ours['float32']:.0e} in float32. Through the eigenvectors the error in float64 grows to "
        f"{max(e for e in native if math.isfinite(e)):.0e} as the gap closes, and at a tie there is no "
        f"gradient. No coefficient to the features exceeds {coefficients:.2f}.",
        {"size": 3},
    )


def _native_root(A: Tensor) -> Tensor:
    lam, U = torch.linalg.eigh(A)
    return (U * lam.sqrt()) @ U.mT


_ROOTS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.linalg.eigh": _native_root,
    "rootpool.linalg.sqrtm": sqrtm,
}


def _with_gap(gap: float) -> Tensor:
    """A symmetric matrix with eigenvalues 1, 1 + gap and 3; diagonal for a tie that rounding keeps."""
    lam = torch.tensor([1.0, 1.0 + gap, 3.0], dtype=torch.float64)
    U = orthogonal(3) if gap else torch.eye(3, dtype=torch.float64)
    A = (U * lam) @ U.mT
    return (A + A.mT) / 2


def root_gradient_in_50_digits(A: Tensor, G: Tensor) -> Tensor:
    """Y of ``Q Y + Y Q = (G + G^T) / 2`` with ``Q = A^(1/2)``: the gradient, without eigenvectors."""
    import mpmath  # type: ignore[import-untyped]

    n = len(A)
    with mpmath.workdps(50):
        Q = mpmath.sqrtm(mpmath.matrix(A.double().tolist()))
        system = mpmath.matrix(n * n)
        for i, j, k in itertools.product(range(n), repeat=3):
            system[i * n + j, k * n + j] += Q[i, k]
            system[i * n + j, i * n + k] += Q[k, j]
        right = mpmath.matrix(((G + G.mT).double() / 2).flatten().tolist())
        Y = mpmath.lu_solve(system, right)
        return torch.tensor([float(mpmath.re(y)) for y in Y], dtype=torch.float64).reshape(n, n)
