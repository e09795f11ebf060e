import functools
import math

import pytest
import torch

import matrices
import oracles
from matrices import TOLERANCE, relative_error, symmetric
from rootpool.linalg import (
    FUNCTIONS,
    RULES,
    Power,
    ScalarFunction,
    Taylor,
    inv_sqrtm,
    logm,
    matrix_function,
    newton_schulz,
    powm,
    sqrtm,
)

# The names are those of oracles.MATRIX_FUNCTIONS.
OURS = {
    "sqrt": sqrtm,
    "inv_sqrt": inv_sqrtm,
    "log": logm,
    "power 0.3": functools.partial(powm, exponent=0.3),
    "power -0.7": functools.partial(powm, exponent=-0.7),
}
DEGREE = {"sqrt": 0.5, "inv_sqrt": -0.5, "log": 0.0, "power 0.3": 0.3, "power -0.7": -0.7}
SEMIDEFINITE = ["sqrt", "power 0.3"]
functions = pytest.mark.parametrize("name", OURS)


@functools.cache
def near_tie(gap: float) -> tuple[torch.Tensor, torch.Tensor]:
    A = matrices.with_spectrum(torch.tensor([1, 1 + gap, 2, 2 + gap], dtype=torch.float64))
    return A, matrices.random_symmetric(4, 4, seed=3)


@functools.cache
def expected(name: str, gap: float) -> tuple[torch.Tensor, torch.Tensor]:
    return oracles.value_and_derivative(name, *near_tie(gap))


@functions
@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0])
@pytest.mark.parametrize("scale", [2.0**-40, 1.0, 2.0**40])  # exact factors near 1e-12 and 1e12
def test_value_and_gradient_to_the_last_digits(name, gap, scale):
    A, G = near_tie(gap)
    value, gradient = expected(name, gap)
    # f(c A) = c^p f(A), log(c A) = log(c) I + log(A)
    shift = torch.eye(4).double() * math.log(scale) if name == "log" else 0
    for dtype, tolerance in TOLERANCE.items():
        B = (scale * A).to(dtype).requires_grad_()
        F = OURS[name](B)
        F.backward(G.to(dtype))
        assert relative_error(F.detach(), scale ** DEGREE[name] * value + shift) < tolerance
        assert relative_error(B.grad, scale ** (DEGREE[name] - 1) * gradient) < tolerance


@functions
@pytest.mark.parametrize(
    "lam",
    [[0.5, 1, 2, 3.5], [1, 1 + 1e-9, 2, 2 + 1e-12], [1, 1, 2, 2], [1, 1, 1]],
    ids=["separated", "clustered", "repeated", "identity"],
)
def test_first_and_second_derivative(name, lam):
    A = matrices.with_spectrum(torch.tensor(lam, dtype=torch.float64))
    A = A.repeat(2, 1, 1).requires_grad_()

    def f(A):
        return OURS[name](symmetric(A))

    assert torch.autograd.gradcheck(f, A)
    assert torch.autograd.gradgradcheck(f, A)


@functions
@pytest.mark.parametrize("width", [1e-1, 2e-2, 1e-4, 1e-8, 0])
def test_second_derivative_to_ten_digits_across_the_switch_of_formulas(name, width):
    """Against central differences of the 50-digit first derivative."""
    lam = torch.tensor([1, 1 + width / 2, 1 + width, 4], dtype=torch.float64)
    A = matrices.with_spectrum(lam)
    G, W = matrices.random_symmetric(4, 4, seed=1), matrices.random_symmetric(4, 4, seed=2)
    B = A.clone().requires_grad_()
    (first,) = torch.autograd.grad(OURS[name](B), B, G, create_graph=True)
    (second,) = torch.autograd.grad(first, B, W)
    step = 2.0**-17
    plus, minus = (
        oracles.value_and_derivative(name, A + sign * step * W, G)[1] for sign in (1, -1)
    )
    assert relative_error(second, (plus - minus) / (2 * step)) < 1e-8


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, 1 / 3])
@pytest.mark.parametrize("kind", ["separated", "repeated", "huge", "tiny"])
def test_powers_that_are_known_otherwise(exponent, kind):
    A = matrices.matrix(kind).requires_grad_()
    P = powm(A, exponent)
    G = matrices.random_symmetric(6, 6)
    (gradient,) = torch.autograd.grad(P, A, G)
    A = A.detach()
    inverse = torch.linalg.inv(A)
    known = {
        0: (torch.eye(6).double(), torch.zeros(6, 6).double()),
        1: (A, G),
        2: (A @ A, A @ G + G @ A),
        3: (A @ A @ A, A @ A @ G + A @ G @ A + G @ A @ A),
        -1: (inverse, -inverse @ G @ inverse),
    }
    if exponent in known:
        value, derivative = known[exponent]
        assert relative_error(P.detach(), value) < 1e-12
        assert torch.allclose(gradient, derivative, rtol=1e-11, atol=1e-12 * derivative.abs().max())
    else:
        power = P.detach()
        for _ in range(round(1 / abs(exponent)) - 1):
            power = power @ P.detach()
        assert relative_error(power, A if exponent > 0 else inverse) < 1e-12


def test_named_powers_are_the_named_functions():
    A = matrices.random_definite(3, 5, 5)
    assert torch.equal(powm(A, 0.5), sqrtm(A))
    assert torch.equal(powm(A, -0.5), inv_sqrtm(A))
    for name, function in FUNCTIONS.items():
        assert torch.equal(matrix_function(A, name), matrix_function(A, function))
    assert torch.equal(matrix_function(A, Power(0.3)), powm(A, 0.3))


# ---------------------------------------------------------------------------- semi-definite input


@pytest.mark.parametrize("name", SEMIDEFINITE)
@pytest.mark.parametrize("kind", ["rank-deficient", "zero"])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_zero_eigenvalues_are_ordinary(name, kind, dtype):
    A = matrices.matrix(kind, dtype).requires_grad_()
    F = OURS[name](A)
    (F * matrices.random(6, 6, dtype=dtype)).sum().backward()
    assert A.grad.isfinite().all()
    rank = int((matrices.spectrum(kind) > 0).sum())
    assert torch.linalg.matrix_rank(F.detach(), hermitian=True) == rank
    if name == "sqrt" and rank:
        assert relative_error((F @ F).detach(), A.detach()) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", SEMIDEFINITE)
@pytest.mark.parametrize("exact_zero", [True, False])
def test_gradient_at_a_singular_matrix_is_the_one_along_perturbations_that_keep_the_rank(
    name, exact_zero
):
    X = matrices.random(6, 3)
    if exact_zero:
        X[3:] = 0
    weight = matrices.random_symmetric(6, 6, seed=1)

    def f(X):
        return (OURS[name](X @ X.mT) * weight).sum()

    direction = matrices.random(6, 3, seed=2)
    if exact_zero:
        direction[3:] = 0
    (gradient,) = torch.autograd.grad(f(X.requires_grad_()), X)
    numeric = oracles.central_difference(f, X.detach(), direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-7)


def test_second_derivative_at_a_singular_matrix_is_refused():
    A = matrices.matrix("rank-deficient").requires_grad_()
    (first,) = torch.autograd.grad(sqrtm(A).sum(), A, create_graph=True)
    with pytest.raises(
        torch.linalg.LinAlgError, match="no second derivative here at the singular matrix A; add a"
    ):
        first.sum().backward()


@pytest.mark.parametrize("name", ["inv_sqrt", "log", "power -0.7"])
def test_singular_input_needs_a_floor(name):
    A = torch.stack([torch.eye(6).double(), matrices.matrix("rank-deficient")])
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"but A\[1\] is singular .*eigenvalue_floor"
    ):
        OURS[name](A)
    F = OURS[name](A, eigenvalue_floor=1e-3)
    assert F.isfinite().all()


@functions
def test_negative_eigenvalues_beyond_round_off(name):
    A = torch.diag(torch.tensor([1.0, -1e-3, 2.0], dtype=torch.float64)).expand(2, 2, 3, 3)
    with pytest.raises(torch.linalg.LinAlgError, match=r"A\[0, 0\] has the eigenvalue -0.001"):
        OURS[name](A)
    with pytest.raises(torch.linalg.LinAlgError, match=r"A\[0, 0\] has the eigenvalue -0.001"):
        torch.vmap(OURS[name])(A)
    assert OURS[name](A, eigenvalue_floor=1e-2).isfinite().all()


@pytest.mark.parametrize("name", SEMIDEFINITE)
def test_negative_eigenvalues_at_round_off_are_zeros(name):
    A = torch.diag(torch.tensor([1.0, -1e-17, 2.0], dtype=torch.float64))
    assert OURS[name](A)[1, 1] == 0


# --------------------------------------------------------------------------------------- options


@functions
def test_floor_has_the_derivative_of_the_floored_function(name):
    lam = torch.tensor([-0.5, 0.1, 0.1, 0.5, 1.0, 2.0], dtype=torch.float64)
    A = matrices.with_spectrum(lam)
    weight, direction = matrices.random_symmetric(6, 6), matrices.random_symmetric(6, 6, seed=1)

    def f(A):
        return (OURS[name](A, eigenvalue_floor=0.3) * weight).sum()

    def brute_force(A):
        lam, U = torch.linalg.eigh(A)
        raised = U @ torch.diag(lam.clamp(min=0.3)) @ U.mT
        return (OURS[name](symmetric(raised)) * weight).sum()

    assert f(A) == pytest.approx(float(brute_force(A)), rel=1e-12)
    (gradient,) = torch.autograd.grad(f(A.requires_grad_()), A)
    numeric = oracles.central_difference(brute_force, A.detach(), direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@functions
@pytest.mark.parametrize("count", [1, 3, 6, 100])
def test_keep_largest_has_the_derivative_of_the_truncated_function(name, count):
    A = matrices.matrix("separated")
    weight, direction = matrices.random_symmetric(6, 6), matrices.random_symmetric(6, 6, seed=1)

    def f(A):
        return (OURS[name](A, keep_largest=count) * weight).sum()

    def brute_force(A):
        lam, U = torch.linalg.eigh(A)
        U, full = U[:, -count:], OURS[name](A)
        return (U @ U.mT @ full @ U @ U.mT * weight).sum()

    assert f(A) == pytest.approx(float(brute_force(A)), rel=1e-12)
    (gradient,) = torch.autograd.grad(f(A.requires_grad_()), A)
    numeric = oracles.central_difference(brute_force, A.detach(), direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize("rule", [None, "pade", "taylor"])
def test_keep_largest_across_a_tie_stays_finite_and_symmetric(rule):
    A = matrices.matrix("repeated").requires_grad_()
    sqrtm(A, keep_largest=2, rule=rule).sum().backward()
    assert A.grad.isfinite().all()
    A = torch.eye(4).double().requires_grad_()
    sqrtm(A, keep_largest=2, rule=rule).trace().backward()
    assert torch.equal(A.grad, torch.diag(A.grad.diagonal()))
    assert A.grad.trace() == 1.0


@pytest.mark.parametrize("rule", RULES)
@functions
def test_rule_fused_with_the_function_is_right_at_ties(name, rule):
    G = matrices.random_symmetric(3, 3)
    A = (torch.eye(3).double() * 2).requires_grad_()
    (exact,) = torch.autograd.grad(OURS[name](A), A, G)
    (fused,) = torch.autograd.grad(OURS[name](A, rule=rule), A, G)
    assert torch.allclose(fused, exact, rtol=1e-14)


@functions
def test_rules_that_approximate_well_agree_with_the_exact_gradient(name):
    A = matrices.matrix("separated").requires_grad_()
    (exact,) = torch.autograd.grad(OURS[name](A).sum(), A)
    for rule in ("ordinary", "truncated", "pade", "degenerate", Taylor(300)):
        (fused,) = torch.autograd.grad(OURS[name](A, rule=rule).sum(), A)
        assert relative_error(fused, exact) < 1e-13


@pytest.mark.parametrize("degree", [0, 3, 10])
def test_taylor_rule_fused_is_its_series(degree):
    A = matrices.matrix("separated").requires_grad_()
    G = matrices.random_symmetric(6, 6)
    (got,) = torch.autograd.grad(sqrtm(A, rule=Taylor(degree)), A, G)
    lam, U = torch.linalg.eigh(A.detach())
    K = oracles.taylor_kernel(lam, degree)
    L = K * (lam.sqrt()[:, None] - lam.sqrt()[None, :]) + torch.diag(0.5 / lam.sqrt())
    assert torch.allclose(got, U @ (L * (U.mT @ G @ U)) @ U.mT, rtol=1e-12)


def test_second_derivative_with_a_rule_or_options_is_refused():
    A = matrices.matrix("separated").requires_grad_()
    (first,) = torch.autograd.grad(sqrtm(A, rule="taylor").sum(), A, create_graph=True)
    with pytest.raises(RuntimeError, match=r"second derivatives .* Taylor\(degree=100\)"):
        first.sum().backward()
    (first,) = torch.autograd.grad(sqrtm(A, eigenvalue_floor=1.5).sum(), A, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives of Floored"):
        first.sum().backward()


def test_third_derivative_is_refused():
    A = matrices.matrix("separated").requires_grad_()
    (first,) = torch.autograd.grad(logm(A).sum(), A, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), A, create_graph=True)
    with pytest.raises(RuntimeError, match="third derivatives"):
        second.sum().backward()


# ------------------------------------------------------------------------------ transformations


@functions
def test_vmap_and_functional_derivatives(name):
    A = matrices.random_definite(2, 3, 4, 4)
    f = OURS[name]
    assert torch.equal(torch.vmap(f)(A), f(A))
    assert torch.equal(torch.vmap(f, in_dims=1, out_dims=1)(A), f(A))
    jacobian = torch.func.jacrev(f)(A[0, 0])
    assert torch.allclose(torch.vmap(torch.vmap(torch.func.jacrev(f)))(A)[0, 0], jacobian)
    B = A[0, 0].clone().requires_grad_()
    (row,) = torch.autograd.grad(f(B)[1, 2], B)
    assert torch.allclose(jacobian[1, 2], row)


def test_hessian_by_functional_transformations():
    A = matrices.random_definite(3, 3)

    def f(A):
        return sqrtm(symmetric(A)).sin().sum()

    hessian = torch.func.jacrev(torch.func.jacrev(f))(A)
    direction = matrices.random_symmetric(3, 3)
    numeric = oracles.central_difference(torch.func.jacrev(f), A, direction)
    assert torch.allclose((hessian * direction).sum((-2, -1)), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"rule": "pade"}, {"eigenvalue_floor": 1.0, "keep_largest": 2}]
)
@functions
def test_compile_without_graph_breaks(name, options):
    def loss(A):
        return OURS[name](A, **options).sin().sum()

    torch._dynamo.reset()
    A = matrices.random_definite(3, 4, 4).requires_grad_()
    (expected,) = torch.autograd.grad(loss(A), A)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (got,) = torch.autograd.grad(compiled(A), A)
    assert torch.allclose(got, expected, rtol=1e-10)


def test_compile_with_inductor():
    torch._dynamo.reset()
    A = matrices.random_definite(3, 4, 4).requires_grad_()
    loss = lambda A: sqrtm(A).sin().sum()  # noqa: E731
    (expected,) = torch.autograd.grad(loss(A), A)
    (got,) = torch.autograd.grad(torch.compile(loss, fullgraph=True)(A), A)
    assert torch.allclose(got, expected, rtol=1e-10)


def test_autocast_computes_in_float32_forward_and_backward():
    A = matrices.random_definite(8, 8, dtype=torch.float32).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        F = sqrtm(A)
        F.sum().backward()
    assert F.dtype == torch.float32
    B = A.detach().float().requires_grad_()
    sqrtm(B).sum().backward()
    assert torch.equal(A.grad, B.grad.bfloat16())


@functions
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (1, 1), (2, 0, 3, 3)])
def test_empty_and_tiny_shapes(name, shape):
    A = torch.ones(shape, dtype=torch.float64).requires_grad_()
    F = OURS[name](A if shape[-1] < 2 else A * torch.eye(shape[-1]))
    assert F.shape == shape
    F.sum().backward()
    assert A.grad.shape == shape


def test_batch_shapes_and_independence():
    A = matrices.random_definite(2, 3, 5, 5).requires_grad_()
    F = sqrtm(A)
    (gradient,) = torch.autograd.grad(F.sin().sum(), A)
    B = A.detach()[1, 2].requires_grad_()
    (alone,) = torch.autograd.grad(sqrtm(B).sin().sum(), B)
    assert torch.allclose(F[1, 2], sqrtm(B), rtol=1e-15, atol=1e-15)
    assert torch.allclose(gradient[1, 2], alone, rtol=1e-14, atol=1e-15)


def test_unused_output_and_no_grad():
    A = matrices.random_definite(3, 3).requires_grad_()
    assert torch.autograd.grad(sqrtm(A).sum() * 0, A)[0].abs().max() == 0
    with torch.no_grad():
        assert sqrtm(A).grad_fn is None


# --------------------------------------------------------------------------------------- bad input


def test_bad_input():
    with pytest.raises(ValueError, match=r"sqrtm expects \(..., n, n\), got \(3, 4\); .* use svd"):
        sqrtm(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"A\[1\] differs from its transpose by 1; symmetrise"):
        logm(torch.stack([torch.eye(2), torch.tensor([[1.0, 1.0], [0.0, 1.0]])]))
    with pytest.raises(ValueError, match=r"powm: A\[0\] has NaN"):
        powm(torch.full((1, 2, 2), torch.nan), 0.3)
    with pytest.raises(ValueError, match="exponent must be finite, got inf"):
        powm(torch.eye(2), float("inf"))
    with pytest.raises(ValueError, match="unknown function 'cos'; choose from sqrt, inv_sqrt, log"):
        matrix_function(torch.eye(2), "cos")
    with pytest.raises(TypeError, match="ScalarFunction, which knows its divided differences"):
        matrix_function(torch.eye(2), torch.cos)
    with pytest.raises(ValueError, match="eigenvalue_floor must be positive and finite, got 0"):
        sqrtm(torch.eye(2), eigenvalue_floor=0)
    with pytest.raises(ValueError, match="keep_largest must be an integer >= 1, got 0"):
        sqrtm(torch.eye(2), keep_largest=0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_broken_upper_triangle_is_an_error_too(bad):
    A = torch.eye(3)
    A[0, 1] = bad
    with pytest.raises(ValueError, match="sqrtm: A has NaN or infinite entries"):
        sqrtm(A)


def test_rule_that_cannot_take_an_empty_batch():
    A = matrices.random_definite(8, 80, 80).requires_grad_()
    rule = lambda lam: 1 / (lam.unsqueeze(-1) - lam.unsqueeze(-2) + lam.max() * 1e9)  # noqa: E731
    sqrtm(A, rule=rule).sum().backward()
    assert A.grad.isfinite().all()


def test_autocast_of_a_keyword_argument():
    A = matrices.random_definite(4, 4, dtype=torch.float32).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(newton_schulz(A=A).root, newton_schulz(A).root)


def test_user_defined_function():
    class Square(ScalarFunction):
        domain = "any"

        def values(self, lam):
            return lam * lam

        def derivatives(self, lam):
            return 2 * lam

        def divided_differences(self, lam):
            return lam.unsqueeze(-1) + lam.unsqueeze(-2)

    A = matrices.random_symmetric(4, 4).requires_grad_()
    F = matrix_function(A, Square())
    assert torch.allclose(F, A @ A)
    (got,) = torch.autograd.grad(F.sum(), A)
    (expected,) = torch.autograd.grad((A @ A).sum(), A)
    assert torch.allclose(got, symmetric(expected))
    assert torch.allclose(
        torch.autograd.grad(matrix_function(A, Square(), rule="pade").sum(), A)[0], got
    )


# ------------------------------------------------------------------------------- ends of the range


@pytest.mark.parametrize(
    ("function", "scale", "dtype"),
    [
        (functools.partial(powm, exponent=2), 1e200, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-310, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-40, torch.float32),
    ],
)
def test_values_beyond_the_range_are_an_error(function, scale, dtype):
    A = torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype)
    with pytest.raises(torch.linalg.LinAlgError, match=r"powm at A\[1\] is beyond the range of"):
        function(A)


@pytest.mark.parametrize(
    ("function", "scale", "dtype"),
    [
        (inv_sqrtm, 1e-250, torch.float64),
        (inv_sqrtm, 1e-30, torch.float32),
        (logm, 1e-310, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-200, torch.float64),
    ],
)
def test_gradients_beyond_the_range_are_an_error(function, scale, dtype):
    A = torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype).requires_grad_()
    F = function(A)
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"the derivative of .* at A\[1\] is beyond .*; scale"
    ):
        F.sum().backward()


def test_an_overflow_of_the_loss_passes_through():
    A = torch.eye(3).requires_grad_()
    sqrtm(A).backward(torch.full((3, 3), torch.inf))
    assert not A.grad.isfinite().all()


def test_second_derivatives_beyond_the_range_are_an_error():
    A = (1e-250 * torch.eye(3).double()).requires_grad_()
    (first,) = torch.autograd.grad(sqrtm(A).sum(), A, create_graph=True)
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"the second derivative of Sqrt\(\) at A is"
    ):
        first.sum().backward()
