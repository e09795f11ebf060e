"""What users of torch.linalg do to their tensors: each of these was wrong, or an error, once."""

import mpmath
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import matrices
from rootpool.linalg import (
    Truncated,
    eigh,
    eigvalsh,
    newton_schulz,
    powm,
    sqrtm,
    svd,
    svdvals,
)


@pytest.mark.parametrize("exponent", [-20.0, 30.0, 50.0])
def test_second_derivatives_of_large_powers_near_ties(exponent):
    """``sum_k f[i, k, j] (...)`` on a diagonal matrix is checked entry by entry in 50 digits."""
    lam = torch.tensor([0.9, 0.95, 1.0], dtype=torch.float64)
    A = torch.diag(lam).requires_grad_()
    V = torch.zeros(3, 3, dtype=torch.float64)
    V[0, 1] = V[1, 0] = V[1, 2] = V[2, 1] = 1.0
    (g,) = torch.autograd.grad((powm(A, exponent) * V).sum(), A, create_graph=True)
    (second,) = torch.autograd.grad((g * V).sum(), A)
    a, b, c = (mpmath.mpf(x.item()) for x in lam)
    f = [x ** mpmath.mpf(exponent) for x in (a, b, c)]
    divided = ((f[2] - f[1]) / (c - b) - (f[1] - f[0]) / (b - a)) / (c - a)
    assert abs(second[0, 2].item() / float(2 * divided) - 1) < 1e-12


def test_truncated_keeps_its_bound_in_every_dtype():
    tie = torch.ones(2, dtype=torch.float64)
    assert Truncated(0.1)(tie)[1, 0] == 0.1
    assert Truncated(1e39)(tie)[1, 0] == 1e39
    assert Truncated(1e39)(tie.float())[1, 0] == torch.finfo(torch.float32).max


def test_results_and_inputs_may_be_changed_in_place():
    A = matrices.random_definite(2, 3, 3).requires_grad_()
    B = A * 1
    F = sqrtm(B)
    F += 1
    B.relu_()
    F.sum().backward()
    assert torch.allclose(A.grad, torch.autograd.grad(sqrtm(A).sum(), A)[0])


def test_traced_with_threads(threads):
    threads(2)
    A = matrices.random_definite(64, 40, 40)
    graph = make_fx(lambda A: sqrtm(A))(A)
    assert torch.allclose(graph(A), sqrtm(A))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_jit_trace_with_threads(threads):
    threads(2)
    A = matrices.random_definite(64, 40, 40)
    for function in (sqrtm, lambda A: eigh(A).eigenvalues):
        traced = torch.jit.trace(function, A, check_trace=False)
        assert torch.allclose(traced(A), function(A), rtol=1e-10)


def test_meta_tensors_have_shapes():
    A = torch.empty(2, 3, 3, device="meta")
    assert sqrtm(A).shape == eigh(A).eigenvectors.shape == svd(A).U.shape == A.shape


def test_a_cotangent_without_batch_under_vmap(threads):
    threads(2)
    A, G = matrices.random_definite(3, 8, 40, 40), matrices.random_symmetric(8, 40, 40)
    got = torch.vmap(lambda A: torch.func.vjp(sqrtm, A)[1](G)[0])(A)
    expected = torch.stack([torch.func.vjp(sqrtm, a)[1](G)[0] for a in A])
    assert torch.allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("function", [sqrtm, eigvalsh, svdvals], ids=lambda f: f.__name__)
def test_vmap_over_any_dimension_and_twice(function):
    A = matrices.random_definite(2, 3, 4, 4)
    expected = function(A)
    for got in (
        torch.vmap(function, in_dims=1, out_dims=1)(A),
        torch.vmap(torch.vmap(function))(A),
        torch.vmap(function, in_dims=2)(A.movedim(0, -2)),
    ):
        assert torch.allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function", [sqrtm, lambda A: sum(eigh(A)), lambda A: newton_schulz(A=A).root]
)
def test_half_precision_under_autocast_is_computed_in_float32(function, dtype):
    """The backward inside, too."""
    A = matrices.random_definite(4, 4, dtype=torch.float32).to(dtype).requires_grad_()
    B = A.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        F = function(A)
        F.sin().sum().backward()
    expected = function(B)
    expected.sin().sum().backward()
    assert torch.equal(F, expected)
    assert torch.equal(A.grad, B.grad.to(dtype))


def test_a_product_rounded_by_autocast_is_judged_by_its_own_digits():
    """Its eigenvalues are below zero by the rounding of bfloat16, and count as zeros."""
    X = matrices.random(16, 8, dtype=torch.float32)
    with torch.autocast(X.device.type, torch.bfloat16):
        P = X @ X.mT / 8
        F = sqrtm(P)
    assert F.dtype == torch.float32
    assert matrices.relative_error(F @ F, P) < 0.02


COMPILED = {
    "sqrtm": sqrtm,
    "powm": lambda A: powm(A, A[0, 0]),
    "eigh": lambda A: eigh(A).eigenvalues,
    "svd": lambda A: svd(A).S,
}


@pytest.mark.parametrize("name", COMPILED)
def test_forward_mode_inside_a_compiled_function_is_an_error_or_right(name):
    """At a tie, where the derivative of torch itself would be NaN."""
    A, V = 2 * torch.eye(3, dtype=torch.float64), matrices.random_symmetric(3, 3)
    push = lambda A: torch.func.jvp(COMPILED[name], (A,), (V,))[1]  # noqa: E731
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"forward-mode derivatives .* inside torch\.compile; take"):
        torch.compile(push, fullgraph=True, backend="eager")(A)
    torch._dynamo.reset()
    assert torch.allclose(torch.compile(push, backend="eager")(A), push(A))


def test_polynomials_have_second_derivatives_at_singular_matrices():
    A = matrices.matrix("rank-deficient").requires_grad_()
    V = matrices.random_symmetric(6, 6)
    (g,) = torch.autograd.grad((powm(A, 2) * V).sum(), A, create_graph=True)
    (second,) = torch.autograd.grad((g * V).sum(), A)
    assert torch.allclose(second, 2 * V @ V)


def test_the_double_backward_trick_asks_for_a_first_derivative_alone():
    A, V = matrices.matrix("rank-deficient"), matrices.matrix("rank-deficient", seed=0)
    got = torch.autograd.functional.jvp(sqrtm, A, V)[1]
    assert torch.allclose(got, torch.func.jvp(sqrtm, (A,), (V,))[1])


def test_a_tensor_as_exponent():
    A = matrices.matrix("rank-deficient")
    p = torch.tensor([0.7, 1.3], dtype=torch.float64, device=A.device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: powm(A, p), p, check_forward_ad=True)
    assert torch.allclose(powm(A, p)[1], powm(A, 1.3))
    with pytest.raises(RuntimeError, match="second derivatives of powm with a tensor as exponent"):
        torch.autograd.gradgradcheck(lambda p: powm(A, p), p)
    with pytest.raises(TypeError, match="eigenvalue_floor or keep_largest: give a number"):
        powm(A, p, eigenvalue_floor=1.0)
    with pytest.raises(TypeError, match=r"a number or a tensor as exponent, got '0.5'"):
        powm(A, "0.5")
    with pytest.raises(
        torch.linalg.LinAlgError, match="negative exponent expects positive definite"
    ):
        powm(A, -p)


def test_arguments_are_those_of_torch():
    A = matrices.random(3, 3)
    assert torch.allclose(eigh(A, "U").eigenvalues, torch.linalg.eigh(A, "U").eigenvalues)
    assert svd(A[:2], True).Vh.shape == (3, 3)
    with pytest.raises(ValueError, match=r"UPLO must be 'L' or 'U'.*rule="):
        eigh(A, "pade")
    with pytest.raises(TypeError, match=r"full_matrices must be True or False.*rule="):
        svd(A, "pade")


def test_the_default_warns_where_eigenvalues_of_one_space_are_treated_differently():
    A = torch.eye(3, dtype=torch.float64).requires_grad_()
    lam, U = eigh(A)
    loss = ((U * (lam * torch.tensor([1.0, 2.0, 3.0]).double())) @ U.mT).sum()
    with pytest.warns(UserWarning, match="degenerate eigenspace"):
        loss.backward()
