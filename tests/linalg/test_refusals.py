"""What is refused, with which words, and under which transformation: input, options, derivatives."""

import functools

import pytest
import torch
from torch.linalg import LinAlgError

import matrices
from named_functions import OURS
from rootpool.linalg import (
    Degenerate,
    Lorentzian,
    Minimax,
    Pade,
    PowerIteration,
    Taylor,
    Truncated,
    bures_wasserstein,
    canonical_correlations,
    eigh,
    eigvalsh,
    frechet_distance,
    from_triangle,
    inv_sqrtm,
    leading_projector,
    logm,
    matrix_function,
    newton_schulz,
    orthogonalize,
    polar,
    powm,
    principal_subspace,
    resolve_rule,
    rotation,
    skip_checks,
    sqrtm,
    svd,
    svdvals,
    to_triangle,
)

EYE, WIDE, VECTOR = torch.eye(2), torch.zeros(3, 4), torch.zeros(3)
NAN = torch.stack([EYE, EYE * torch.nan])
INTEGERS, HALF = EYE.to(torch.int64), EYE.half()
SAMPLES = torch.ones(4, 3)
SINGULAR = matrices.matrix("rank-deficient")
NEGATIVE = torch.diag(torch.tensor([1.0, -1e-3, 2.0], dtype=torch.float64)).expand(2, 2, 3, 3)
EXPONENTS = torch.tensor([0.7, 1.3], dtype=torch.float64)
MANY = torch.eye(2).repeat(2048, 1, 1)
LARGE = torch.diag(torch.tensor([3e38, 0.0]))


def broken(*place: int) -> torch.Tensor:
    A = torch.eye(70).repeat(2, 3, 1, 1)
    A[place] = torch.nan
    return A


def beyond(scale: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype)


CALLS = [
    (lambda: eigh(WIDE), ValueError, r"eigh expects \(..., n, n\), got \(3, 4\); .* use svd"),
    (lambda: eigh(VECTOR), ValueError, r"got \(3,\)"),
    (lambda: eigh(INTEGERS), TypeError, "float32 or float64, got torch.int64"),
    (lambda: eigh(HALF), TypeError, "cast with A.float()"),
    (lambda: eigh([[1.0]]), TypeError, "expects a tensor, got list"),
    (lambda: eigh(NAN[1]), ValueError, "eigh: A has NaN or infinite entries"),
    (lambda: eigh(broken(1, 2, 5, 0)), ValueError, r"A\[1, 2\] has NaN"),
    (lambda: torch.vmap(eigh)(broken(1, 2, 5, 0)), ValueError, r"A\[1, 2\] has NaN"),
    (lambda: eigh(EYE, "pade"), ValueError, r"UPLO must be 'L' or 'U'.*rule="),
    (lambda: eigvalsh(EYE, "lower"), ValueError, "UPLO must be 'L' or 'U'"),
    (lambda: eigvalsh(WIDE), ValueError, r"eigvalsh expects \(..., n, n\), got \(3, 4\)"),
    (lambda: svdvals(NAN[1]), ValueError, r"svdvals: A has NaN"),
    (lambda: svd(NAN), ValueError, r"svd: A\[1\] has NaN"),
    (lambda: svd(VECTOR), ValueError, r"svd expects \(..., m, n\), got \(3,\)"),
    (lambda: svd(EYE.bfloat16()), TypeError, "svd expects float32 or float64, got torch.bfloat16"),
    (lambda: svd(EYE, "pade"), TypeError, r"full_matrices must be True or False.*rule="),
    # Matrix functions
    (lambda: sqrtm(WIDE), ValueError, r"sqrtm expects \(..., n, n\), got \(3, 4\); .* use svd"),
    (lambda: sqrtm(INTEGERS), TypeError, "sqrtm expects float32 or float64, got torch.int64; cast"),
    (lambda: sqrtm(INTEGERS, eigenvalue_floor=1e-3), TypeError, "sqrtm expects float32 or float64"),
    (lambda: sqrtm(broken(0, 0, 1, 2)[0, 0]), ValueError, "sqrtm: A has NaN or infinite entries"),
    (lambda: sqrtm(MANY * torch.nan), ValueError, r"A\[0\] has NaN"),
    (lambda: sqrtm(-MANY), LinAlgError, r"A\[0\] has the eigenvalue"),
    (lambda: logm(beyond(1) + EYE.new_tensor([0, 1, 0])), ValueError, r"A\[0\] differs from its t"),
    (lambda: powm(NAN, 0.3), ValueError, r"powm: A\[1\] has NaN"),
    (lambda: powm(EYE, float("inf")), ValueError, "exponent must be finite, got inf"),
    (lambda: powm(EYE, 1j), TypeError, "powm expects a number or a tensor as exponent, got 1j"),
    (lambda: powm(EYE, "0.5"), TypeError, r"a number or a tensor as exponent, got '0.5'"),
    (lambda: powm(SINGULAR, -EXPONENTS), LinAlgError, "negative exponent expects positive definit"),
    (
        lambda: powm(SINGULAR, EXPONENTS, eigenvalue_floor=1.0),
        TypeError,
        "takes no eigenvalue_floor; give a number",
    ),
    (
        lambda: torch.autograd.gradgradcheck(
            lambda p: powm(SINGULAR, p), EXPONENTS.requires_grad_()
        ),
        RuntimeError,
        "second derivatives of powm with a tensor as exponent",
    ),
    (
        lambda: matrix_function(EYE, "cos"),
        ValueError,
        "unknown function 'cos'; choose from sqrt, inv",
    ),
    (lambda: matrix_function(EYE, torch.cos), TypeError, "which knows its divided differences"),
    (lambda: sqrtm(EYE, floor=1.0), TypeError, "no option floor; the options are rule, eigen"),
    (lambda: sqrtm(EYE, eigenvalue_floor=0), ValueError, "must be positive and finite, got 0"),
    (lambda: sqrtm(EYE, keep_largest=0), ValueError, "keep_largest must be an integer >= 1, got 0"),
    *(
        (functools.partial(f, A), LinAlgError, r"A\[0, 0\] has the eigenvalue -0.001")
        for function in OURS.values()
        for f, A in ((function, NEGATIVE), (torch.vmap(function), NEGATIVE))
    ),
    *(
        (
            lambda f=OURS[name]: f(torch.stack([torch.eye(6).double(), SINGULAR])),
            LinAlgError,
            r"but A\[1\] is singular .*eigenvalue_floor",
        )
        for name in ("inv_sqrt", "log", "power -0.7")
    ),
    *(
        (functools.partial(powm, A, p), LinAlgError, r"powm overflowed .* for A\[1\]; scale")
        for A, p in (
            (beyond(1e200), 2),
            (beyond(1e-310), -1),
            (beyond(1e-40, torch.float32), -1),
        )
    ),
    (lambda: newton_schulz(WIDE), ValueError, r"newton_schulz expects \(..., n, n\), got \(3, 4\)"),
    (lambda: newton_schulz(EYE, 0), ValueError, "iterations must be an integer >= 1, got 0"),
    (lambda: Minimax(lower=2), ValueError, r"Minimax.lower must lie between 0 and 1, got 2"),
    (lambda: Minimax(steps=0), ValueError, r"Minimax.steps must be an integer >= 1, got 0"),
    (lambda: Minimax(degree=4), ValueError, r"Minimax.degree must be 3 or 5, got 4"),
    # Problems
    (lambda: rotation(WIDE), ValueError, r"rotation expects \(..., n, n\), got \(3, 4\)"),
    (lambda: rotation(EYE.cfloat()), TypeError, "rotation expects real matrices, got"),
    (lambda: orthogonalize(VECTOR), ValueError, r"orthogonalize expects \(..., m, n\), got \(3,\)"),
    (lambda: polar(HALF), TypeError, "polar expects float32 or float64"),
    (lambda: polar(NAN), ValueError, r"A\[1\] has NaN"),
    (lambda: leading_projector(EYE, 4), ValueError, r"expects k of at most 2 .*, got 4"),
    (
        lambda: leading_projector(EYE.new_ones(3, 3).triu(), 1),
        ValueError,
        "expects symmetric matri",
    ),
    (lambda: principal_subspace(EYE, 0), ValueError, "k must be an integer >= 1, got 0"),
    (lambda: principal_subspace(torch.zeros(2, 5), 3), ValueError, "expects k of at most 2"),
    (
        lambda: bures_wasserstein(EYE, torch.eye(3)),
        ValueError,
        r"matrices of one size and dtype, got \(2, 2\)",
    ),
    (lambda: bures_wasserstein(INTEGERS, EYE), TypeError, "bures_wasserstein expects float32 or"),
    (
        lambda: bures_wasserstein(LARGE, LARGE.flip(-2, -1)),
        LinAlgError,
        r"bures_wasserstein overflowed .* for A",
    ),
    (lambda: frechet_distance(SAMPLES[:1], SAMPLES), ValueError, "two or more samples in rows"),
    (lambda: frechet_distance(SAMPLES, SAMPLES[:, :2]), ValueError, "of one dimension and dtype"),
    (
        lambda: frechet_distance(matrices.random(4, 3, dtype=torch.float32) * 1e30, SAMPLES),
        LinAlgError,
        r"frechet_distance overflowed .* for X",
    ),
    (lambda: canonical_correlations(SAMPLES, EYE), ValueError, "two views of the same samples"),
    (lambda: canonical_correlations(SAMPLES, SAMPLES, -1), ValueError, "not be negative, got -1"),
    (
        lambda: canonical_correlations(matrices.random(3, 5), matrices.random(3, 2)),
        LinAlgError,
        r"singular to working precision .* add a ridge",
    ),
    (lambda: to_triangle(WIDE), ValueError, r"to_triangle expects \(..., n, n\), got \(3, 4\)"),
    (lambda: from_triangle(torch.zeros(4)), ValueError, r"n \(n \+ 1\) / 2\) entries, got \(4,\)"),
    (lambda: from_triangle(torch.tensor(1.0)), ValueError, r"got \(\)"),
    # Rules
    (lambda: resolve_rule("padee"), ValueError, "unknown gradient rule 'padee'; choose from ordin"),
    (lambda: resolve_rule(3), TypeError, "got 3"),
    (lambda: resolve_rule(Taylor), TypeError, "Taylor"),
    (lambda: Truncated(bound=0), ValueError, "Truncated.bound must be positive and finite, got 0"),
    (lambda: Truncated(bound=torch.inf), ValueError, "Truncated.bound"),
    (lambda: Taylor(degree=-1), ValueError, "Taylor.degree must be an integer >= 0, got -1"),
    (lambda: Pade(degree=0), ValueError, "Pade.degree must be an integer >= 1"),
    (lambda: Pade(degree=1.5), ValueError, "Pade.degree"),
    (lambda: PowerIteration(iterations=0), ValueError, "PowerIteration.iterations"),
    (lambda: Lorentzian(broadening=-1), ValueError, "Lorentzian.broadening"),
    (lambda: Degenerate(tolerance=0), ValueError, "Degenerate.tolerance"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[c[2] for c in CALLS])
def test_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_shapes_and_dtypes_are_always_checked():
    with skip_checks():
        with pytest.raises(ValueError, match="expects"):
            sqrtm(WIDE)
        with pytest.raises(TypeError, match="float32 or float64"):
            sqrtm(HALF)


# --------------------------------------------------------------------------------------------------
# Derivatives: (function, input, order, error)


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def beside(*values: float) -> torch.Tensor:
    """A matrix that has every derivative, and one that has not."""
    return torch.stack([diagonal(1, 2, 3), diagonal(*values)])


def span(X: torch.Tensor, k: int) -> torch.Tensor:
    V = principal_subspace(X, k)
    return (V @ V.mT)[0, 1]


OVERFLOW = r"the derivative of .* overflowed .* for A\[1\]; scale"
SCALED = matrices.matrix("separated") * 1e-313
TIE = r"leading subspace of A\[1\] has no derivative, because eigenvalues .* \(1 and 1\); choose k"
NOT_UNIQUE = r"nearest rotation to A\[1\] is not unique"
CUT = "singular values on both sides of the cut"
DERIVATIVES = [
    (sqrtm, SINGULAR, 2, "no second derivative here at the singular matrix A; add a"),
    (sqrtm, beyond(1e-250)[1], 2, r"the second derivative of Sqrt\(\) overflowed .* for A;"),
    (inv_sqrtm, beyond(1e-250), 1, OVERFLOW),
    (inv_sqrtm, beyond(1e-30, torch.float32), 1, OVERFLOW),
    (logm, beyond(1e-310), 1, OVERFLOW),
    (functools.partial(powm, exponent=-1), beyond(1e-200), 1, OVERFLOW),
    (logm, matrices.matrix("separated"), 3, "third derivatives"),
    (lambda A: eigh(A)[1] @ A.new_ones(6), SCALED, 1, "the gradient of eigh overflowed .* for A"),
    (lambda A: svd(A)[0] @ A.new_ones(6), SCALED, 1, "the gradient of svd overflowed .* for A"),
    (eigvalsh, beside(1, 1, 2), 2, r"second derivative of eigvalsh at A\[1\] .* trace"),
    (svdvals, beside(2, 1, 1), 2, r"second derivative of svdvals at A\[1\] .* trace"),
    (svdvals, beside(2, 1, 0), 2, r"second derivative of svdvals at A\[1\] .* trace"),
    (orthogonalize, beside(1, 1, 0), 2, r"polar factor .* at A\[1\], whose rank"),
    (lambda A: orthogonalize(A)[0, 1], beyond(1e-310)[1], 1, "polar factor overflowed .* for A; s"),
    (rotation, beside(0, 0, 0), 1, NOT_UNIQUE),
    (rotation, beside(1, 0, 0), 1, NOT_UNIQUE),
    (rotation, beside(2, 1, -1), 1, NOT_UNIQUE),
    (functools.partial(leading_projector, k=2), beside(1, 1, 1), 1, TIE),
    (functools.partial(span, k=1), torch.cat([diagonal(1, 1, 1), -diagonal(1, 1, 1)]), 1, CUT),
    (functools.partial(span, k=2), diagonal(1, -1, 0)[:2, :1] * diagonal(1, 0, 0)[:1], 1, CUT),
    (
        functools.partial(span, k=2),
        matrices.random(4, 3),
        3,
        "third derivatives of principal_subsp",
    ),
]


IDS = [f"{order}: {message}" for *_, order, message in DERIVATIVES]


@pytest.mark.parametrize(("function", "A", "order", "message"), DERIVATIVES, ids=IDS)
def test_derivatives(function, A, order, message):
    losses = [lambda A: (function(A) * (1 + function(A))).sum()]
    value = losses[0](leaf := A.clone().requires_grad_())
    for _ in range(order - 1):
        (first,) = torch.autograd.grad(value, leaf, create_graph=True)
        value = first.sum()
    with pytest.raises(RuntimeError, match=message):  # of which LinAlgError is one
        value.backward()
    item = A[1] if r"A\[1\]" in message else A
    for _ in range(order - 1):
        losses.append(lambda A, f=losses[-1]: torch.func.grad(f)(A).sum())
    # Where torch.func hides the values, NaN or infinity says it.
    try:
        assert not bool(torch.func.grad(losses[-1])(item).isfinite().all())
    except RuntimeError as error:
        assert "derivative" in str(error) or "unique" in str(error)  # noqa: PT017
