"""Functions of real and of complex matrices in many digits: values and gradients, at ties and elsewhere."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import pytest
import torch
from torch import Tensor

import matrices
import oracles
from matrices import symmetric, with_eigenvalues, with_singular_values
from rootpool import linalg
from tolerances import allowed

FIELDS = {"real": torch.float64, "complex": torch.complex128}
SINGLE = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass(frozen=True)
class Problem:
    """A function of matrices, the same with mpmath (a matrix, values or a number), and inputs by kind."""

    ours: Callable[..., Tensor]
    digits: Callable
    inputs: dict[str, tuple[Tensor, ...]]
    symmetric: bool = False


def projector_by_eigh(A: Tensor) -> Tensor:
    U = linalg.eigh(A).eigenvectors[:, 2:]
    return U @ U.mH


def polar_factor_by_svd(A: Tensor) -> Tensor:
    U, _, Vh = linalg.svd(A)
    return U @ Vh


def subspace(X: Tensor) -> Tensor:
    V = linalg.principal_subspace(X, 2)
    return V @ V.mH


def subspace_digits(X: mpmath.matrix) -> mpmath.matrix:
    rows, _ = oracles.centred(X)
    return oracles.projector(rows.H * rows, 2)


def newton_schulz_digits(A: mpmath.matrix) -> tuple[mpmath.matrix, mpmath.matrix]:
    n = A.rows
    trace = mpmath.re(sum(A[i, i] for i in range(n)))
    Y, Z = A / trace, mpmath.eye(n)
    for _ in range(5):
        T = (3 * mpmath.eye(n) - Z * Y) / 2
        Y, Z = Y * T, T * Z
    return Y * mpmath.sqrt(trace), Z / mpmath.sqrt(trace)


def eigenvalues(A: mpmath.matrix) -> list:
    return list(mpmath.eigh(A, eigvals_only=True))


def problems(dtype: torch.dtype) -> dict[str, Problem]:
    random = functools.partial(matrices.random, dtype=dtype)
    values = functools.partial(with_eigenvalues, dtype=dtype)
    general = functools.partial(with_singular_values, dtype=dtype)
    definite = {
        "generic": (values([0.5, 1.1, 2.0]),),
        "repeated": (values([1.0, 1.0, 2.0]),),
        "close": (values([1.0, 1.0 + 1e-9, 2.0]),),
    }
    indefinite = {"indefinite": (values([-3.0, -3.0, 1.0]),)}
    square = {
        "generic": (random(3, 3),),
        "equal": (general(3, 3, [2.0, 2.0, 1.0]),),
        "close": (general(3, 3, [2.0, 2.0 - 1e-9, 1.0]),),
    }
    tall = {"generic": (random(4, 2),), "equal": (general(4, 2, [2.0, 2.0]),)}
    wide = {kind: (A.mH.resolve_conj().contiguous(),) for kind, (A,) in tall.items()}
    covariances = {
        "generic": (values([0.5, 1.1, 2.0]), values([0.3, 0.9, 2.5], seed=1)),
        "repeated": (values([1.0, 1.0, 2.0]), values([3.0, 3.0, 1.0], seed=1)),
        "close": (values([0.5, 1.1, 2.0]), values([0.5, 1.1, 2.0]) * (1 + 1e-6)),
    }
    features = {
        "more than dimensions": (random(6, 3), random(5, 3, seed=1)),
        "fewer than dimensions": (random(3, 4), random(4, 4, seed=1)),
    }
    views = {
        "generic": (random(6, 3), random(6, 2, seed=1)),
        "fewer than dimensions": (random(3, 4), random(3, 2, seed=1)),
        "fewer than both dimensions": (random(3, 4), random(3, 3, seed=1)),
    }
    samples = {
        "more than dimensions": (random(5, 3),),
        "fewer than dimensions": (random(4, 5),),
        "as many as kept": (random(3, 4),),
    }
    of_definite = {
        "sqrtm": (linalg.sqrtm, mpmath.sqrtm),
        "inv_sqrtm": (linalg.inv_sqrtm, lambda A: mpmath.sqrtm(A) ** -1),
        "logm": (linalg.logm, lambda A: oracles.function(A, mpmath.log)),
        "powm": (lambda A: linalg.powm(A, -0.7), lambda A: oracles.power(A, -0.7)),
        "powm, tensor": (
            lambda A: linalg.powm(A, torch.tensor(0.3, dtype=torch.float64)),
            lambda A: oracles.power(A, 0.3),
        ),
        **{
            f"inverse_root {p}": (
                lambda A, p=p: linalg.inverse_root(A, p),
                lambda A, p=p: oracles.power(A, mpmath.mpf(-1) / p),
            )
            for p in (1, 3, 4)
        },
        **{
            f"newton_schulz, {k}": (
                lambda A, k=k: linalg.newton_schulz(A)[k],
                lambda A, k=k: newton_schulz_digits(A)[k],
            )
            for k in (0, 1)
        },
    }
    of_symmetric = {
        "expm": (linalg.expm, mpmath.expm),
        "eigvalsh": (linalg.eigvalsh, eigenvalues),
        "eigh: eigenvalues": (lambda A: linalg.eigh(A).eigenvalues, eigenvalues),
        "leading_projector": (
            lambda A: linalg.leading_projector(A, 1),
            lambda A: oracles.projector(A, 1),
        ),
        "eigh: projector": (projector_by_eigh, lambda A: oracles.projector(A, 1)),
    }
    of_general = {
        "orthogonalize": (linalg.orthogonalize, oracles.polar_factor, square),
        "orthogonalize, tall": (linalg.orthogonalize, oracles.polar_factor, tall),
        "orthogonalize, wide": (linalg.orthogonalize, oracles.polar_factor, wide),
        "svd: polar factor": (polar_factor_by_svd, oracles.polar_factor, {"": square["generic"]}),
        "polar: H": (lambda A: linalg.polar(A).H, lambda A: oracles.power(A.H * A, 0.5), tall),
        "svdvals, tall": (linalg.svdvals, oracles.singular_values, tall),
        "svdvals, wide": (linalg.svdvals, oracles.singular_values, wide),
        "principal_subspace": (subspace, subspace_digits, samples),
        "frechet_distance": (linalg.frechet_distance, oracles.frechet, features),
        "canonical_correlations": (
            lambda X, Y: linalg.canonical_correlations(X, Y, 0.1),
            lambda X, Y: oracles.correlations(X, Y, 0.1),
            views,
        ),
    }
    if not dtype.is_complex:
        turned = {
            "in a plane": (general(3, 3, [2.0, 1.0, 0.0]),),
            "reflected": (-general(3, 3, [2.0, 2.0, 1.0]),),
        }
        of_general["rotation"] = (linalg.rotation, oracles.nearest_rotation, square | turned)
    return {
        **{name: Problem(*row, definite, True) for name, row in of_definite.items()},
        **{name: Problem(*row, definite | indefinite, True) for name, row in of_symmetric.items()},
        "bures_wasserstein": Problem(linalg.bures_wasserstein, oracles.bures, covariances, True),
        **{name: Problem(*row) for name, row in of_general.items()},
    }


PROBLEMS = {
    (field, name): row for field, dtype in FIELDS.items() for name, row in problems(dtype).items()
}
CASES = [(*key, kind) for key, problem in PROBLEMS.items() for kind in problem.inputs]


def of_digits(F: object) -> Tensor:
    """A matrix, list or number of mpmath as a tensor."""
    if isinstance(F, mpmath.matrix):
        return torch.tensor([[complex(F[i, j]) for j in range(F.cols)] for i in range(F.rows)])
    return torch.tensor([complex(x) for x in (F if isinstance(F, list) else [F])])


def weight(m: int, n: int, dtype: torch.dtype) -> Tensor:
    return matrices.random(m, n, dtype=dtype, seed=9)


def loss(F: Tensor, dtype: torch.dtype) -> Tensor:
    """Real, and smooth at ties: values count alike, entries of matrices do not."""
    if F.dim() < 2:
        return F.sin().sum()
    return (weight(*F.shape, dtype).to(F.dtype).conj() * F).sum().real


def loss_digits(F: object, dtype: torch.dtype) -> mpmath.mpf:
    if isinstance(F, mpmath.matrix):
        return oracles.weighted(weight(F.rows, F.cols, dtype), F)
    return mpmath.fsum(map(mpmath.sin, F if isinstance(F, list) else [F]))


@pytest.mark.parametrize(("field", "name", "kind"), CASES)
def test_value_and_gradient_to_the_last_digits(field, name, kind):
    dtype, problem = FIELDS[field], PROBLEMS[field, name]
    inputs = problem.inputs[kind]

    def value_and_gradients(*inputs):
        leaves = [A.clone().requires_grad_() for A in inputs]
        F = problem.ours(*leaves)
        return F.detach(), *torch.autograd.grad(loss(F, dtype), leaves)

    def close(got, wanted, size, rounding=torch.float64):
        return (got - wanted).norm() <= allowed(rounding, 6) * max(1, size)

    with mpmath.workdps(80):
        exact = of_digits(problem.digits(*map(oracles.digits, inputs)))
    value, *gradients = value_and_gradients(*inputs)
    assert close(value.to(exact.dtype).reshape(exact.shape), exact, exact.norm())
    directions = [matrices.random(*A.shape, dtype=dtype, seed=20) for A in inputs]
    if problem.symmetric:
        directions = list(map(symmetric, directions))
    slope = oracles.slope(lambda *A: loss_digits(problem.digits(*A), dtype), inputs, directions)
    pairs = list(zip(gradients, directions, strict=True))
    along = sum((g.conj() * V).sum().real for g, V in pairs)
    assert close(along, slope, sum(g.norm() * V.norm() for g, V in pairs))
    # In float32 it is another matrix: compare with ours, right in float64, at just that one.
    single = [A.to(SINGLE[dtype]) for A in inputs]
    expected = value_and_gradients(*(A.to(dtype) for A in single))
    for got, wanted in zip(value_and_gradients(*single), expected, strict=True):
        assert got.dtype == SINGLE[wanted.dtype]
        assert close(got, wanted, wanted.norm(), torch.float32)
