"""The gradient of a matrix root needs no kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rootpool.linalg import sqrtm
from rootpool.report import Record

from .statement import Checked, line_plot, normal, numbers, orthogonal, relative_error, statement

__all__ = ["exact_gradient", "feature_gradient", "feature_maps", "native_root", "needs_no_kernel"]


def exact_gradient(exponents: Sequence[int] = (0, -2, -4, -6, -8, -10, -12, -14)) -> Checked:
    """Error of the gradient of a matrix root by the gap of two eigenvalues, compared with 50 digits."""
    records: list[Record] = []
    for gap, dtype in itertools.product(
        [*(10.0**e for e in exponents), 0.0], (torch.float64, torch.float32)
    ):
        A = _with_gap(gap).to(dtype)
        G = normal(3, 3, seed=1).to(dtype)
        expected = _in_50_digits(A, G)
        for name, root in _ROOTS.items():
            leaf = A.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(root(leaf), leaf, G)
            error = relative_error((gradient + gradient.mT).double() / 2, expected)
            kind = str(dtype).removeprefix("torch.")
            own = {"gap": gap, "tie": gap == 0, "dtype": kind, "way": name}
            records.append({**own, "error": error})
    ours = {
        dtype: max(numbers(records, "error", way="rootpool.linalg.sqrtm", dtype=dtype))
        for dtype in ("float64", "float32")
    }
    native = numbers(records, "error", way="torch.linalg.eigh", dtype="float64")
    coefficients = max(
        feature_gradient(X, normal(len(X), len(X)))[1] for X in feature_maps().values()
    )
    return Checked(
        records,
        ours["float64"] < 1e-14 and ours["float32"] < 1e-5 and coefficients <= 1,
        f"At gaps from 1 to 0, our gradient is right to {ours['float64']:.0e} in float64 and to "
        f"{ours['float32']:.0e} in float32. Through the eigenvectors, the error in float64 grows to "
        f"{max(e for e in native if math.isfinite(e)):.0e} as the gap closes, and at a tie it is "
        f"{native[-1]:.0e}. No coefficient exceeds {coefficients:.2f} with respect to the features.",
    )


def native_root(A: Tensor) -> Tensor:
    """The root by torch's decomposition, whose gradient has the kernel of the paper."""
    lam, U = torch.linalg.eigh(A)
    return (U * lam.sqrt()) @ U.mT


_ROOTS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.linalg.eigh": native_root,
    "rootpool.linalg.sqrtm": sqrtm,
}


def _with_gap(gap: float) -> Tensor:
    """A symmetric matrix with eigenvalues 1, 1 + gap and 3; diagonal if the gap is 0, to keep it exact."""
    lam = torch.tensor([1.0, 1.0 + gap, 3.0], dtype=torch.float64)
    U = orthogonal(3) if gap else torch.eye(3, dtype=torch.float64)
    A = (U * lam) @ U.mT
    return (A + A.mT) / 2


def _in_50_digits(A: Tensor, G: Tensor) -> Tensor:
    """The gradient without eigenvectors: in the root of ``[[A, E], [0, A]]``, with E = (G + G^T) / 2."""
    import mpmath  # type: ignore[import-untyped]

    n, E = len(A), (G + G.mT).double() / 2
    A = A.double()
    block = torch.cat([torch.cat([A, E], 1), torch.cat([0 * A, A], 1)])
    with mpmath.workdps(50):
        root = mpmath.sqrtm(mpmath.matrix(block.tolist()))
        found = [[float(mpmath.re(root[i, n + j])) for j in range(n)] for i in range(n)]
    return torch.tensor(found, dtype=torch.float64)


def feature_maps() -> dict[str, Tensor]:
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
    r"""The exact gradient of the root with respect to features ``(C, N)``, and its largest coefficient.

    .. math:: \frac{\partial l}{\partial A} =
        \left[ U (M \circ H) + (I - U U^T) (G + G^T) U \right] V^T, \quad H_{ij} = \frac{s_j}{s_i + s_j}

    from the singular value decomposition of the centred features, without values that are rounding errors.
    """
    A = (X - X.mean(1, keepdim=True)) / math.sqrt(X.shape[1])
    U, s, Vh = torch.linalg.svd(A, full_matrices=False)
    keep = s > 1e-12 * s[0]
    U, s, Vh = U[:, keep], s[keep], Vh[keep]
    M = U.mT @ (G + G.mT) @ U
    H = s / (s[:, None] + s)
    inside = U @ (M * H - M) + (G + G.mT) @ U
    return inside @ Vh / math.sqrt(X.shape[1]), float(H.max())


needs_no_kernel = statement(
    exact_gradient,
    line_plot(
        "gap",
        {
            f"{way}, {dtype}": ("error", {"way": way, "dtype": dtype, "tie": False})
            for way in _ROOTS
            for dtype in ("float64", "float32")
        },
        ("gap between the two eigenvalues, logarithmic", "relative error, logarithmic"),
    ),
)
