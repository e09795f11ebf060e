import functools

import pytest
import torch

import matrices
from matrices import relative_error, symmetric
from rootpool import linalg as la

# Close enough to the true kernel at the gaps of SPECTRA["separated"] to pass gradcheck. Not all of RULES:
# a rule may be an approximation by nature.
ACCURATE = [
    la.Ordinary(),
    la.Truncated(),
    la.Taylor(degree=200),
    la.Pade(),
    la.PowerIteration(iterations=200),
    la.Lorentzian(broadening=1e-24),
    la.Degenerate(),
]
rules = pytest.mark.parametrize("rule", ACCURATE, ids=repr)


def invariant(A, rule="pade"):
    """Outputs that do not depend on the sign of an eigenvector."""
    lam, U = la.eigh(symmetric(A), rule=rule)
    return lam, U.abs()


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize(
    "shape", [(4, 4), (3, 4, 4), (2, 3, 4, 4), (0, 4, 4), (2, 1, 1), (2, 0, 0)]
)
def test_same_values_and_shapes_as_torch(shape, dtype):
    A = matrices.random_symmetric(*shape, dtype=dtype)
    got, expected = la.eigh(A), torch.linalg.eigh(A)
    assert torch.equal(got.eigenvalues, expected.eigenvalues)
    assert torch.equal(got.eigenvectors, expected.eigenvectors)
    assert got.eigenvectors.dtype == dtype


def test_reads_the_lower_triangle_of_any_layout_like_torch():
    A = matrices.random(5, 5, 3).permute(2, 0, 1)
    expected = torch.linalg.eigh(A).eigenvalues
    assert torch.equal(la.eigh(A).eigenvalues, expected)
    A = A.masked_fill(torch.ones(5, 5).triu(1).bool(), torch.nan)
    assert torch.equal(la.eigh(A).eigenvalues, expected)


@rules
def test_first_and_second_derivative(rule):
    A = matrices.with_eigenvalues([0.5, 2.0, 8.0]).requires_grad_()
    assert torch.autograd.gradcheck(functools.partial(invariant, rule=rule), A)
    assert torch.autograd.gradgradcheck(functools.partial(invariant, rule=rule), A)


@pytest.mark.parametrize("rule", la.RULES)
@pytest.mark.parametrize("kind", ["repeated", "clustered", "rank-deficient", "graded", "tiny"])
@pytest.mark.filterwarnings("ignore:the loss depends on individual eigenvectors")
def test_gradient_is_the_kernel_of_the_rule_in_the_basis_of_the_vectors(rule, kind):
    A = matrices.matrix(kind).requires_grad_()
    lam, U = la.eigh(A, rule=rule)
    G = matrices.random(6), matrices.random(6, 6, seed=1)
    (got,) = torch.autograd.grad((lam, U), A, G)
    lam, U = lam.detach(), U.detach()
    inner = torch.diag(G[0]) + la.resolve_rule(rule)(lam).mT * (U.mT @ G[1])
    assert relative_error(got, symmetric(U @ inner @ U.mT)) < 1e-12


def test_solver_device_brings_results_back():
    A = matrices.random_symmetric(3, 4, 4)
    assert torch.equal(la.eigh(A, solver_device="cpu").eigenvectors, la.eigh(A).eigenvectors)


def test_nothing_is_saved_without_gradient():
    A = matrices.random_symmetric(3, 4, 4).requires_grad_()
    with torch.no_grad():
        assert la.eigh(A).eigenvalues.grad_fn is None
    with torch.inference_mode():
        assert la.eigh(A).eigenvalues.is_inference()


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (3, 5, 5), (40, 40)])
def test_without_ties_the_default_is_the_ordinary_derivative(shape, dtype):
    """Small batches take torch's, which knows no rules; others take ours."""
    A = matrices.random_symmetric(*shape, dtype=dtype).requires_grad_()
    weights = (
        matrices.random(*shape[:-1], dtype=dtype, seed=1),
        matrices.random(*shape, dtype=dtype, seed=2),
    )

    def gradient(**options):
        lam, U = la.eigh(A, **options)
        # Squares, because two decompositions may differ in signs.
        return torch.autograd.grad((lam, U.square()), A, weights)[0]

    default, ordinary = gradient(), gradient(rule="ordinary")
    assert relative_error(default, ordinary) < 1e4 * torch.finfo(dtype).eps
    with la.skip_checks():  # nobody may look for ties
        assert relative_error(gradient(), ordinary) < 1e4 * torch.finfo(dtype).eps


def test_equal_eigenvalues_of_small_matrices_are_ties():
    """However they are rounded, the gradient is that of their plane, and turns nothing inside it."""
    for seed in range(100):
        Q = matrices.orthogonal(3, seed)
        A = symmetric((Q * matrices.place(torch.tensor([1.0, 2.0, 2.0]).double())) @ Q.mT)
        W, U = matrices.random_symmetric(3, 3, seed=seed), la.eigh(A.requires_grad_()).eigenvectors
        (got,) = torch.autograd.grad((U[:, 1:] @ U[:, 1:].mT * W).sum(), A)
        inner = Q.mT @ W @ Q
        inner[0, 0], inner[1:, 1:] = 0, 0
        assert relative_error(got, Q @ inner @ Q.mT) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_forward_mode_of_an_eigenspace_whose_values_differ_by_rounding(dtype):
    """Not ties for the rule: rounding of ``U^H dA U`` is divided by gaps of 1e-15, and has to cancel."""
    lam = torch.tensor([0.1, 0.3, 0.75, 0.75 * (1 + 12 * 2.0**-52)], dtype=torch.float64)
    mix = torch.exp(matrices.random(4, 4, 4).to(dtype) * (1j if dtype.is_complex else 1))
    U, turn = torch.linalg.qr(mix).Q, torch.zeros(4, 4, dtype=dtype)
    turn[:2, 2:] = 1

    def plane(A):
        vectors = la.eigh(A).eigenvectors[..., 2:]
        return vectors @ vectors.mH

    A, V = symmetric((U * lam) @ U.mH), U @ (turn + turn.mT) @ U.mH
    got = torch.func.jvp(plane, (A,), (V,))[1]
    turn[:2, 2:] /= (0.75 - lam[:2]).unsqueeze(-1)
    assert (got - U @ (turn + turn.mT) @ U.mH).abs().max() < 1e-12


@pytest.mark.parametrize("of", ["values", "vectors", "both"])
def test_a_batch_in_workers_has_the_derivatives_of_its_matrices(of, threads):
    weights = matrices.random(40), matrices.random(40, 40)

    def gradients(A):
        A = A.clone().requires_grad_()
        lam, U = la.eigh(A)
        # Squares, because two decompositions may differ in signs.
        by_values, by_vectors = (
            (lam @ weights[0]).sin().sum(),
            (U.square() * weights[1]).sin().sum(),
        )
        loss = {"values": by_values, "vectors": by_vectors, "both": by_values * by_vectors}[of]
        (plain,) = torch.autograd.grad(loss, A, retain_graph=True)
        (first,) = torch.autograd.grad(loss, A, create_graph=True)
        (second,) = torch.autograd.grad((first * weights[1]).sum(), A)
        return plain, first, second

    A = matrices.random_symmetric(5, 40, 40)
    threads(1)
    alone = gradients(A)
    threads(2)
    for got, expected in zip(gradients(A), alone, strict=True):
        assert relative_error(got, expected) < 1e-8
