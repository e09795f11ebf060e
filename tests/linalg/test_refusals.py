"""What is refused, with which words, and under which transformation: input, options, derivatives."""

import functools

import pytest
import torch
from torch.linalg import LinAlgError

import matrices
from named_functions import OURS
from rootpool import linalg as la

EYE, WIDE, VECTOR = torch.eye(2), torch.zeros(3, 4), torch.zeros(3)
NAN = torch.stack([EYE, EYE * torch.nan])
INTEGERS, HALF = EYE.to(torch.int64), EYE.half()
SAMPLES = torch.ones(4, 3)
SINGULAR = matrices.matrix("rank-deficient")
NEGATIVE = torch.diag(torch.tensor([1.0, -1e-3, 2.0], dtype=torch.float64)).expand(2, 2, 3, 3)
EXPONENTS = torch.tensor([0.7, 1.3], dtype=torch.float64)
MANY = torch.eye(2).repeat(2048, 1, 1)
LARGE = torch.diag(torch.tensor([3e38, 0.0]))
WITH_ZERO, SKEW = torch.stack([EYE, 0 * EYE]), EYE + EYE.roll(1)
POINTS, MINUS = torch.zeros(2, 4, 3), torch.tensor([1.0, -1.0])


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def broken(*place: int) -> torch.Tensor:
    A = torch.eye(70).repeat(2, 3, 1, 1)
    A[place] = torch.nan
    return A


def beyond(scale: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype)


VALUE_ERRORS = {
    r"eigh expects \(..., n, n\), got \(3, 4\); .* use svd": lambda: la.eigh(WIDE),
    r"got \(3,\)": lambda: la.eigh(VECTOR),
    "eigh: A has NaN or infinite entries": lambda: la.eigh(NAN[1]),
    r"A\[1, 2\] has NaN": lambda: la.eigh(broken(1, 2, 5, 0)),
    r".*A\[1, 2\] has NaN": lambda: torch.vmap(la.eigh)(broken(1, 2, 5, 0)),
    r"UPLO must be 'L' or 'U'.*rule=": lambda: la.eigh(EYE, "pade"),
    "UPLO must be 'L' or 'U'": lambda: la.eigvalsh(EYE, "lower"),
    r"eigvalsh expects \(..., n, n\), got \(3, 4\)": lambda: la.eigvalsh(WIDE),
    r"svdvals: A has NaN": lambda: la.svdvals(NAN[1]),
    r"svd: A\[1\] has NaN": lambda: la.svd(NAN),
    r"svd expects \(..., m, n\), got \(3,\)": lambda: la.svd(VECTOR),
    r"sqrtm expects \(..., n, n\), got \(3, 4\); .* use svd": lambda: la.sqrtm(WIDE),
    "sqrtm: A has NaN or infinite entries": lambda: la.sqrtm(broken(0, 0, 1, 2)[0, 0]),
    r"A\[0\] has NaN": lambda: la.sqrtm(MANY * torch.nan),
    r"A\[0\] differs from its t": lambda: la.logm(beyond(1) + EYE.new_tensor([0, 1, 0])),
    "A differs from its transpose by 1e-12": lambda: la.sqrtm(EYE.double() + 1e-12 * EYE.roll(1)),
    r"powm: A\[1\] has NaN": lambda: la.powm(NAN, 0.3),
    "exponent must be finite, got inf": lambda: la.powm(EYE, float("inf")),
    "unknown function 'cos'; choose from sqrt, inv": lambda: la.matrix_function(EYE, "cos"),
    "must be positive and finite, got 0": lambda: la.sqrtm(EYE, eigenvalue_floor=0),
    "keep_largest must be an integer >= 1, got 0": lambda: la.sqrtm(EYE, keep_largest=0),
    r"newton_schulz expects \(..., n, n\), got \(3, 4\)": lambda: la.newton_schulz(WIDE),
    "iterations must be an integer >= 1, got 0": lambda: la.newton_schulz(EYE, 0),
    r"Minimax.lower must lie between 0 and 1, got 2": lambda: la.Minimax(lower=2),
    r"Minimax.degree must be 3 or 5, got 4": lambda: la.Minimax(degree=4),
    r"rotation expects \(..., n, n\), got \(3, 4\)": lambda: la.rotation(WIDE),
    r"orthogonalize expects \(..., m, n\), got \(3,\)": lambda: la.orthogonalize(VECTOR),
    r"A\[1\] has NaN": lambda: la.polar(NAN),
    r"expects k of at most 2 .*, got 4": lambda: la.leading_projector(EYE, 4),
    "expects symmetric matri": lambda: la.leading_projector(EYE.new_ones(3, 3).triu(), 1),
    "k must be an integer >= 1, got 0": lambda: la.principal_subspace(EYE, 0),
    "expects k of at most 2": lambda: la.principal_subspace(torch.zeros(2, 5), 3),
    r"matrices of one size and dtype, got \(2, 2\)": lambda: la.bures_wasserstein(
        EYE, torch.eye(3)
    ),
    "two or more samples in rows": lambda: la.frechet_distance(SAMPLES[:1], SAMPLES),
    "of one dimension and dtype": lambda: la.frechet_distance(SAMPLES, SAMPLES[:, :2]),
    "two views of the same samples": lambda: la.canonical_correlations(SAMPLES, EYE),
    "not be negative, got -1": lambda: la.canonical_correlations(SAMPLES, SAMPLES, -1),
    r"B\[0\] has NaN": lambda: la.eigh(EYE, B=NAN.flip(0)),
    r"size and dtype, got \(2, 2\) torch.float32 and \(3": lambda: la.eigh(EYE, B=torch.eye(3)),
    r"eigh expects symmetric matrices, but A diff": lambda: la.eigh(SKEW, B=EYE),
    r"but B differs from its": lambda: la.affine_invariant_distance(EYE, SKEW),
    "unknown function 'sin'": lambda: la.singular_value_function(WIDE, "sin"),
    "low_rank expects k of at most 3": lambda: la.low_rank(WIDE, 4),
    r"low_rank expects \(..., m, n\)": lambda: la.low_rank(VECTOR, 1),
    "threshold must not be negative, got -1": lambda: la.singular_value_threshold(WIDE, -1),
    "max to be positive and at least min, got max=1 and min=2": lambda: la.clip_singular_values(
        WIDE, 1, min=2
    ),
    r"one shape .* got \(4, 3\)": lambda: la.align(POINTS[0], POINTS),
    r"weights \(..., N\), one for each point, \(2, 4\), got \(4,\)": lambda: la.align(
        POINTS, POINTS, torch.ones(4)
    ),
    r"weights\[1\] are not finite numbers": lambda: la.align(
        POINTS, POINTS, MINUS[:, None].expand(2, 4)
    ),
    r"weights\[0\] are not": lambda: la.align(POINTS, POINTS, torch.zeros(2, 4)),
    r"points of X\[0\] are all the same": lambda: la.align(POINTS, POINTS, scale=True),
    "null_vectors expects k of at most 1": lambda: la.null_vectors(EYE, 2),
    r"at least n - k = 3 rows, got \(2, 4\)": lambda: la.null_vectors(WIDE[:2]),
    r"topk_eigh expects one matrix .* got \(2, 2, 2\)": lambda: la.topk_eigh(NAN, 1),
    "topk_svd expects one matrix": lambda: la.topk_svd(VECTOR, 1),
    "topk_eigh expects k of at most 2": lambda: la.topk_eigh(EYE, 4),
    "like= to be a vector": lambda: la.topk_eigh(lambda V: V, 1, like=EYE),
    r"to_triangle expects \(..., n, n\), got \(3, 4\)": lambda: la.to_triangle(WIDE),
    r"n \(n \+ 1\) / 2\) entries, got \(4,\)": lambda: la.from_triangle(torch.zeros(4)),
    r"got \(\)": lambda: la.from_triangle(torch.tensor(1.0)),
    "unknown gradient rule 'padee'; choose from ordin": lambda: la.resolve_rule("padee"),
}
TYPE_ERRORS = {
    "float32 or float64, got torch.int64": lambda: la.eigh(INTEGERS),
    "cast with A.float()": lambda: la.eigh(HALF),
    "expects a tensor, got list": lambda: la.eigh([[1.0]]),
    "svd expects float32 or float64, got torch.bfloat16": lambda: la.svd(EYE.bfloat16()),
    r"full_matrices must be True or False.*rule=": lambda: la.svd(EYE, "pade"),
    "sqrtm expects float32 or float64, got torch.int64; cast": lambda: la.sqrtm(INTEGERS),
    "sqrtm expects float32 or float64": lambda: la.sqrtm(INTEGERS, eigenvalue_floor=1e-3),
    "powm expects a number or a tensor as exponent, got 1j": lambda: la.powm(EYE, 1j),
    r"a number or a tensor as exponent, got '0.5'": lambda: la.powm(EYE, "0.5"),
    "eigenvalue_floor or keep_largest: give a number": lambda: la.powm(
        SINGULAR, EXPONENTS, eigenvalue_floor=1.0
    ),
    "which knows its divided differences": lambda: la.matrix_function(EYE, torch.cos),
    r"sqrtm\(\) got an unexpected keyword argument": lambda: la.sqrtm(EYE, floor=1.0),
    "rotation expects real matrices, got": lambda: la.rotation(EYE.cfloat()),
    "polar expects float32 or float64": lambda: la.polar(HALF),
    r"eigh\(A, B=B\)": lambda: la.eigh(EYE, EYE),
    "align expects real points": lambda: la.align(POINTS.cfloat(), POINTS.cfloat()),
    "as like=, expects a tensor": lambda: la.topk_eigh(lambda V: V, 1),
    "bures_wasserstein expects float32 or": lambda: la.bures_wasserstein(INTEGERS, EYE),
    "got 3": lambda: la.resolve_rule(3),
    "Taylor": lambda: la.resolve_rule(la.Taylor),
}
LINALG_ERRORS = {
    r"A\[0\] has the eigenvalue": lambda: la.sqrtm(-MANY),
    "negative exponent expects positive definit": lambda: la.powm(SINGULAR, -EXPONENTS),
    r"bures_wasserstein overflowed .* for A": lambda: la.bures_wasserstein(
        LARGE, LARGE.flip(-2, -1)
    ),
    r"frechet_distance overflowed .* for X": lambda: la.frechet_distance(
        matrices.random(4, 3, dtype=torch.float32) * 1e30, SAMPLES
    ),
    r"singular to working precision .* add a ridge": lambda: la.canonical_correlations(
        matrices.random(3, 5), matrices.random(3, 2)
    ),
    r"positive definite B, but B\[1\] is not; add": lambda: la.eigh(EYE, B=WITH_ZERO),
    r"positive definite A, but A\[1\]": lambda: la.affine_invariant_distance(WITH_ZERO, EYE),
    r"A\[1\] is singular .* does not tend to 0": lambda: la.singular_value_function(
        WITH_ZERO, "exp"
    ),
    r"A\[1\] is singular to working": lambda: la.singular_value_function(WITH_ZERO, "log"),
    r"clip_singular_values: A\[1\] is": lambda: la.clip_singular_values(WITH_ZERO, 2, min=1),
    r"topk_svd: the cut at k = 2 .* singular values": lambda: la.topk_svd(
        diagonal(3, 1, 1).requires_grad_(), 2
    ),
    "at most the rank, but the singular value 2 is zero": lambda: la.topk_svd(diagonal(1, 0), 2),
}
RUNTIME_ERRORS = {
    "second derivatives of powm with a tensor as exponent": lambda: torch.autograd.gradgradcheck(
        lambda p: la.powm(SINGULAR, p), EXPONENTS.requires_grad_()
    )
}
CALLS = [
    *((call, ValueError, message) for message, call in VALUE_ERRORS.items()),
    *((call, TypeError, message) for message, call in TYPE_ERRORS.items()),
    *((call, LinAlgError, message) for message, call in LINALG_ERRORS.items()),
    *((call, RuntimeError, message) for message, call in RUNTIME_ERRORS.items()),
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
        (functools.partial(la.powm, A, p), LinAlgError, r"powm overflowed .* for A\[1\]; scale")
        for A, p in ((beyond(1e200), 2), (beyond(1e-310), -1), (beyond(1e-40, torch.float32), -1))
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[c[2] for c in CALLS])
def test_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_shapes_and_dtypes_are_always_checked():
    with la.skip_checks():
        with pytest.raises(ValueError, match="expects"):
            la.sqrtm(WIDE)
        with pytest.raises(TypeError, match="float32 or float64"):
            la.sqrtm(HALF)


# --------------------------------------------------------------------------------------------------
# Derivatives: (function, input, order, error)


def beside(*values: float) -> torch.Tensor:
    """A matrix that has every derivative, and one that has not."""
    return torch.stack([diagonal(1, 2, 3), diagonal(*values)])


def span(X: torch.Tensor, k: int) -> torch.Tensor:
    V = la.principal_subspace(X, k)
    return (V @ V.mT)[0, 1]


singular_root = functools.partial(la.singular_value_function, function="sqrt")
singular_square = functools.partial(la.singular_value_function, function=la.Power(2.0))
OVERFLOW = r"the derivative of .* overflowed .* for A\[1\]; scale"
SCALED = matrices.matrix("separated") * 1e-313
TIE = r"leading subspace of A\[1\] has no derivative, because eigenvalues .* \(1 and 1\); choose k"
NOT_UNIQUE = r"nearest rotation to A\[1\] is not unique"
CUT = "singular values on both sides of the cut"
DERIVATIVES = [
    (la.sqrtm, SINGULAR, 2, "no second derivative here at the singular matrix A; add a"),
    (la.sqrtm, beyond(1e-250)[1], 2, r"the second derivative of Sqrt\(\) overflowed .* for A;"),
    (la.inv_sqrtm, beyond(1e-250), 1, OVERFLOW),
    (la.inv_sqrtm, beyond(1e-30, torch.float32), 1, OVERFLOW),
    (la.logm, beyond(1e-310), 1, OVERFLOW),
    (functools.partial(la.powm, exponent=-1), beyond(1e-200), 1, OVERFLOW),
    (la.logm, matrices.matrix("separated"), 3, "third derivatives"),
    (
        lambda A: la.eigh(A)[1] @ A.new_ones(6),
        SCALED,
        1,
        "the gradient of eigh overflowed .* for A",
    ),
    (lambda A: la.svd(A)[0] @ A.new_ones(6), SCALED, 1, "the gradient of svd overflowed .* for A"),
    (la.eigvalsh, beside(1, 1, 2), 2, r"second derivative of eigvalsh at A\[1\] .* trace"),
    (la.svdvals, beside(2, 1, 1), 2, r"second derivative of svdvals at A\[1\] .* trace"),
    (la.svdvals, beside(2, 1, 0), 2, r"second derivative of svdvals at A\[1\] .* trace"),
    (la.orthogonalize, beside(1, 1, 0), 2, r"polar factor .* at the singular matrix A\[1\]"),
    (
        lambda A: la.orthogonalize(A)[0, 1],
        beyond(1e-310)[1],
        1,
        "polar factor overflowed .* for A; s",
    ),
    (la.rotation, beside(0, 0, 0), 1, NOT_UNIQUE),
    (la.rotation, beside(1, 0, 0), 1, NOT_UNIQUE),
    (la.rotation, beside(2, 1, -1), 1, NOT_UNIQUE),
    (functools.partial(la.leading_projector, k=2), beside(1, 1, 1), 1, TIE),
    (functools.partial(span, k=1), torch.cat([diagonal(1, 1, 1), -diagonal(1, 1, 1)]), 1, CUT),
    (functools.partial(span, k=2), diagonal(1, -1, 0)[:2, :1] * diagonal(1, 0, 0)[:1], 1, CUT),
    (
        functools.partial(span, k=2),
        matrices.random(4, 3),
        3,
        "third derivatives of principal_subsp",
    ),
    (functools.partial(la.low_rank, k=2), diagonal(2, 1, 1), 1, CUT),
    (
        functools.partial(la.low_rank, k=3),
        beside(2, 1, 0),
        2,
        r"at A\[1\], whose rank is below k = 3",
    ),
    (functools.partial(la.low_rank, k=2), diagonal(3, 2, 1), 3, "third derivatives of low_rank"),
    (singular_root, beside(2, 1, 0), 2, r"no second derivative at the singular matrix A\[1\]"),
    (singular_square, beside(2, 1, 0), 2, r"no second derivative at the singular matrix A\[1\]"),
    (functools.partial(la.null_vectors, k=2), diagonal(3, 1, 1, 1), 1, CUT),
    (
        lambda X: la.align(X, X).rotation,
        matrices.random(4, 1).expand(4, 3),
        1,
        "nearest rotation to A is not unique",
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
