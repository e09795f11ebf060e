"""Complex matrices: values and gradients in many digits, at ties and elsewhere, and with one in 50 digits."""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import pytest
import torch
from torch import Tensor

import matrices
import oracles
from rootpool import linalg
from tolerances import allowed


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.complex(*(matrices.random(*shape, seed=2 * seed + k) for k in (0, 1)))


def unitary(n: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(random(n, n, seed=seed))[0]


def hermitian(A: Tensor) -> Tensor:
    return (A + A.mH) / 2


def with_eigenvalues(lam: list[float], seed: int = 0) -> Tensor:
    U = unitary(len(lam), seed)
    return hermitian((U * torch.tensor(lam, dtype=torch.float64)) @ U.mH)


def with_singular_values(m: int, n: int, s: list[float]) -> Tensor:
    U, V = unitary(m, 5)[:, : len(s)], unitary(n, 6)[:, : len(s)]
    return (U * torch.tensor(s, dtype=torch.float64)) @ V.mH


HERMITIAN = {
    "generic": (with_eigenvalues([0.5, 1.1, 2.0]),),
    "repeated": (with_eigenvalues([1.0, 1.0, 2.0]),),
    "close": (with_eigenvalues([1.0, 1.0 + 1e-9, 2.0]),),
}
SPLIT = {  # at the cut of the one largest
    "generic": HERMITIAN["generic"],
    "repeated": HERMITIAN["repeated"],
}
SQUARE = {"generic": (random(3, 3),), "equal": (with_singular_values(3, 3, [2.0, 2.0, 1.0]),)}
TALL = {"generic": (random(4, 2),), "equal": (with_singular_values(4, 2, [2.0, 2.0]),)}
WIDE = {kind: (A.mH.resolve_conj(),) for kind, (A,) in TALL.items()}
TWO = {
    "generic": (with_eigenvalues([0.5, 1.1, 2.0]), with_eigenvalues([0.3, 0.9, 2.5], 1)),
    "repeated": (with_eigenvalues([1.0, 1.0, 2.0]), with_eigenvalues([3.0, 3.0, 1.0], 1)),
}
VIEWS = {"generic": (random(6, 3), random(6, 2, seed=1))}
FEW = {"fewer than dimensions": (random(3, 4), random(4, 4, seed=1))}


@dataclass(frozen=True)
class Case:
    """A function of matrices, the same with mpmath (a matrix or values), and inputs by kind."""

    ours: Callable[..., Tensor]
    digits: Callable
    inputs: dict[str, tuple[Tensor, ...]]
    hermitian: bool = False


def by_eigh(A: Tensor) -> Tensor:
    U = linalg.eigh(A).eigenvectors[:, 2:]
    return U @ U.mH


def by_svd(A: Tensor) -> Tensor:
    U, _, Vh = linalg.svd(A)
    return U @ Vh


def subspace(X: Tensor) -> Tensor:
    V = linalg.principal_subspace(X, 2)
    return V @ V.mH


def subspace_digits(X: mpmath.matrix) -> mpmath.matrix:
    rows, _ = oracles.centred(X)
    return oracles.projector(rows.H * rows, 2)


def newton_schulz_digits(A: mpmath.matrix) -> mpmath.matrix:
    n = A.rows
    trace = mpmath.re(sum(A[i, i] for i in range(n)))
    Y, Z = A / trace, mpmath.eye(n)
    for _ in range(5):
        T = (3 * mpmath.eye(n) - Z * Y) / 2
        Y, Z = Y * T, T * Z
    return Y * mpmath.sqrt(trace)


def eigenvalues(A: mpmath.matrix) -> list:
    return list(mpmath.eigh(A, eigvals_only=True))


CASES = {
    "eigh: projector": Case(by_eigh, lambda A: oracles.projector(A, 1), SPLIT, True),
    "eigh: eigenvalues": Case(lambda A: linalg.eigh(A).eigenvalues, eigenvalues, HERMITIAN, True),
    "eigvalsh": Case(linalg.eigvalsh, eigenvalues, HERMITIAN, True),
    "expm": Case(linalg.expm, mpmath.expm, HERMITIAN, True),
    **{
        f"inverse_root {p}": Case(
            lambda A, p=p: linalg.inverse_root(A, p),
            lambda A, p=p: oracles.power(A, mpmath.mpf(-1) / p),
            HERMITIAN,
            True,
        )
        for p in (1, 2, 4)
    },
    "powm, tensor": Case(
        lambda A: linalg.powm(A, torch.tensor(0.3, dtype=torch.float64)),
        lambda A: oracles.power(A, 0.3),
        HERMITIAN,
        True,
    ),
    "newton_schulz": Case(
        lambda A: linalg.newton_schulz(A).root, newton_schulz_digits, HERMITIAN, True
    ),
    "leading_projector": Case(
        lambda A: linalg.leading_projector(A, 1),
        lambda A: oracles.projector(A, 1),
        HERMITIAN,
        True,
    ),
    "svd: polar factor": Case(by_svd, oracles.polar_factor, {"generic": SQUARE["generic"]}),
    "svdvals": Case(linalg.svdvals, oracles.singular_values, TALL),
    "orthogonalize": Case(linalg.orthogonalize, oracles.polar_factor, SQUARE),
    "orthogonalize, tall": Case(linalg.orthogonalize, oracles.polar_factor, TALL),
    "orthogonalize, wide": Case(linalg.orthogonalize, oracles.polar_factor, WIDE),
    "polar: H": Case(
        lambda A: linalg.polar(A).H, lambda A: oracles.power(A.H * A, 0.5), SQUARE | TALL
    ),
    "principal_subspace": Case(subspace, subspace_digits, {"generic": (random(5, 3),)}),
    "principal_subspace, N < d": Case(subspace, subspace_digits, {"generic": (random(4, 5),)}),
    "bures_wasserstein": Case(linalg.bures_wasserstein, oracles.bures, TWO, True),
    "frechet_distance": Case(linalg.frechet_distance, oracles.frechet, FEW),
    "canonical_correlations": Case(
        lambda X, Y: linalg.canonical_correlations(X, Y, 0.1),
        lambda X, Y: oracles.correlations(X, Y, 0.1),
        VIEWS,
    ),
}


def of_digits(F: object) -> Tensor:
    """A matrix, list or number of mpmath as a tensor."""
    if isinstance(F, mpmath.matrix):
        return torch.tensor([[complex(F[i, j]) for j in range(F.cols)] for i in range(F.rows)])
    return torch.tensor([complex(x) for x in (F if isinstance(F, list) else [F])])


def loss(F: Tensor) -> Tensor:
    """Real, and smooth at ties: values count alike, entries of matrices do not."""
    if F.dim() < 2:
        return F.sin().sum()
    W = random(*F.shape, seed=9)
    return (W.conj() * F).sum().real


def loss_digits(F: object) -> mpmath.mpf:
    if isinstance(F, mpmath.matrix):
        return oracles.weighted(random(F.rows, F.cols, seed=9), F)
    return mpmath.fsum(map(mpmath.sin, F if isinstance(F, list) else [F]))


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, case in CASES.items() for kind in case.inputs]
)
def test_value_and_gradient_of_complex_input_in_many_digits(name, kind):
    case, inputs = CASES[name], CASES[name].inputs[kind]
    with mpmath.workdps(80):
        wanted = of_digits(case.digits(*map(oracles.digits, inputs)))
    leaves = [A.clone().requires_grad_() for A in inputs]
    F = case.ours(*leaves)
    got = F.detach().to(wanted.dtype).reshape(wanted.shape)
    limit = allowed(torch.float64, 6)
    assert (got - wanted).norm() <= limit * max(1, wanted.norm())
    exact = oracles.gradient(
        lambda *A: loss_digits(case.digits(*A)), *inputs, symmetric=case.hermitian
    )
    for g, e in zip(torch.autograd.grad(loss(F), leaves), exact, strict=True):
        g = hermitian(g) if case.hermitian else g
        assert (g - e).norm() <= limit * max(1, e.norm())


@pytest.mark.parametrize("kind", HERMITIAN)
@pytest.mark.parametrize("name", oracles.MATRIX_FUNCTIONS)
def test_matrix_functions_by_block_matrices_in_50_digits(name, kind):
    """By algorithms that know neither eigenvalues nor differences."""
    function = {
        "sqrt": linalg.sqrtm,
        "inv_sqrt": linalg.inv_sqrtm,
        "log": linalg.logm,
        "power 0.3": lambda A: linalg.powm(A, 0.3),
        "power -0.7": lambda A: linalg.powm(A, -0.7),
    }[name]
    (A,), G = HERMITIAN[kind], hermitian(random(3, 3, seed=3))
    value, derivative = oracles.value_and_derivative(name, A, G)
    B = A.clone().requires_grad_()
    F = function(B)
    F.backward(G)
    for got, wanted in ((F.detach(), value), (B.grad, derivative)):
        error = torch.view_as_real(got - wanted).norm() / torch.view_as_real(wanted).norm()
        assert error < allowed(torch.float64, 3)


@pytest.mark.parametrize("name", CASES)
def test_complex64_has_the_digits_of_float32(name):
    case = CASES[name]
    inputs = next(iter(case.inputs.values()))
    single = case.ours(*(A.to(torch.complex64) for A in inputs))
    double = case.ours(*inputs)
    assert single.dtype == (torch.complex64 if double.is_complex() else torch.float32)
    assert (single - double).norm() <= allowed(torch.float32, 6) * max(1, double.norm())
