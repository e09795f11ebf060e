"""Every function under every transformation, and under pairs of them: what the tests run and the page shows.

A row is a function of one tensor, its input, and what it refuses with the reason. The script
``scripts/transformations.py`` runs the same checks and writes ``docs/api/transformations.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from matrices import random, tangent
from rootpool import linalg as la
from rootpool.nn import covariance, covariance_pool


@dataclass(frozen=True)
class Refusal:
    """Why a transformation is refused, and the error that says so."""

    reason: str
    error: str


REAL = Refusal("covariances are those of real features", "expects floating-point features")
REAL_POINTS = Refusal("points are real", "align expects real points")
REAL_ROTATION = Refusal("a rotation is real", "rotation expects real matrices")
ONCE = Refusal(
    "its gradient is not the derivative of the root", "second derivatives .* do not exist"
)
POLAR = Refusal("not implemented for polar", "second derivatives of .* with polar are not impl")
RULE = Refusal("a rule is not the derivative of anything", "gradient rule .* do not exist")
TOPK = Refusal(
    "it iterates, by values", "topk_.* has no second derivative and no forward mode, and works"
)
TENSOR = Refusal("not implemented for a tensor", "with a tensor as exponent are not implemented")


@dataclass(frozen=True)
class Row:
    """``call`` maps an input of the shape of ``sample`` to a tensor; dashes are documented refusals."""

    call: Callable[[Tensor], Tensor]
    sample: Callable[..., Tensor]
    symmetric: bool = True
    refuses: dict[str, Refusal] = field(default_factory=dict)

    def refusal(self, transformation: str) -> Refusal | None:
        """What is refused once is refused in pairs: those are named by what they need."""
        needs = NEEDS.get(transformation, (transformation,))
        return next((self.refuses[name] for name in needs if name in self.refuses), None)


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    if not dtype.is_complex:
        return random(*shape, dtype=dtype, seed=seed)
    parts = (random(*shape, dtype=dtype.to_real(), seed=seed + k) for k in (0, 1))
    return torch.complex(*parts)


def definite(dtype: torch.dtype = torch.float64, *lead: int) -> Tensor:
    A = numbers(*lead, 3, 3, dtype=dtype)
    return A @ A.mH + torch.eye(3, dtype=dtype, device=A.device)


def two_definite(dtype: torch.dtype = torch.float64) -> Tensor:
    return definite(dtype, 2)


def of_shape(*shape: int) -> Callable[..., Tensor]:
    return lambda dtype=torch.float64: numbers(*shape, dtype=dtype)


def projector(A: Tensor) -> Tensor:
    U = la.eigh(A).eigenvectors[..., 1:]
    return _product(U, U)


def projector_of_pair(A: Tensor, B: Tensor) -> Tensor:
    U = la.eigh(A, B=B).eigenvectors[..., 1:]
    return _product(U, U)


def polar_by_svd(A: Tensor) -> Tensor:
    U, _, Vh = la.svd(A)
    return _product(U, Vh.mH)


def null_space(A: Tensor) -> Tensor:
    N = la.null_vectors(A, 2)
    return _product(N, N)


def top(A: Tensor) -> Tensor:
    lam, U = la.topk_eigh(A, 2)
    return _product(U * lam, U)


def truncated(A: Tensor) -> Tensor:
    U, S, Vh = la.topk_svd(A, 2)
    return _product(U * S, Vh.mH)


def subspace(X: Tensor) -> Tensor:
    V = la.principal_subspace(X, 2)
    return _product(V, V)


def _product(A: Tensor, B: Tensor) -> Tensor:
    """``A B^H``, which autocast leaves alone."""
    return (A.unsqueeze(-2) * B.conj().unsqueeze(-3)).sum(-1)


def matrix(call: Callable[[Tensor], Tensor], **refuses: Refusal) -> Row:
    return Row(call, definite, refuses=refuses)


def general(call: Callable[[Tensor], Tensor], *shape: int, **refuses: Refusal) -> Row:
    return Row(call, of_shape(*shape), symmetric=False, refuses=refuses)


def of_two(call: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function of two matrices as one of both together, ``(..., 2, m, n)``."""
    return lambda Z: call(*Z.unbind(-3))


def a_map(like: Tensor) -> Tensor:
    """Features ``(2, 3, 4)``, which tracers need not draw."""
    return torch.arange(24, device=like.device).view(2, 3, 4).square().sin().to(like)


def attention(X: Tensor) -> Tensor:
    """Weights of positions, one of them zero."""
    return torch.arange(X.shape[-1], device=X.device).expand(X.shape[0], -1)


def of_maps(call: Callable[[Tensor], Tensor], *shape: int, **refuses: Refusal) -> Row:
    return general(call, *(shape or (2, 3, 4)), complex=REAL, **refuses)


def pooling(method: str, *shape: int, **refuses: Refusal) -> Row:
    return of_maps(lambda X: covariance_pool(X, method), *shape, **refuses)


NO_MORE = dict.fromkeys(("gradgrad", "jvp", "vmap", "compile", "export"), TOPK)

FUNCTIONS: dict[str, Row] = {
    "sqrtm": matrix(la.sqrtm),
    "inv_sqrtm": matrix(la.inv_sqrtm),
    "logm": matrix(la.logm),
    "expm": matrix(lambda A: la.expm(A / 4)),  # so that differences keep their digits
    "inverse_root(A, 4)": matrix(lambda A: la.inverse_root(A, 4)),
    "powm(A, 0.3)": matrix(lambda A: la.powm(A, 0.3)),
    "powm(A, tensor)": matrix(
        lambda A: la.powm(A, torch.full((), 0.3, dtype=torch.float64, device=A.device)),
        gradgrad=TENSOR,
    ),
    "sqrtm(rule='pade')": matrix(lambda A: la.sqrtm(A, rule="pade"), gradgrad=RULE),
    "sqrtm(eigenvalue_floor=2)": matrix(lambda A: la.sqrtm(A, eigenvalue_floor=2.0)),
    "sqrtm(keep_largest=2)": matrix(lambda A: la.sqrtm(A, keep_largest=2)),
    "newton_schulz": matrix(lambda A: la.newton_schulz(A).root),
    "newton_schulz(Minimax())": matrix(lambda A: la.newton_schulz(A, la.Minimax()).root),
    "eigvalsh": matrix(la.eigvalsh),
    "svdvals": general(la.svdvals, 4, 3),
    "eigh: eigenvalues": matrix(lambda A: la.eigh(A).eigenvalues),
    "eigh: projector": matrix(projector),
    "eigh(A, B=B): projector": Row(of_two(projector_of_pair), two_definite),
    "svd: singular values": Row(lambda A: la.svd(A).S, definite, symmetric=False),
    "svd: polar factor": Row(polar_by_svd, definite, symmetric=False),
    "orthogonalize, tall": general(la.orthogonalize, 4, 3),
    "orthogonalize, wide": general(la.orthogonalize, 2, 3),
    "orthogonalize, square": general(la.orthogonalize, 3, 3),
    "polar: H": general(lambda A: la.polar(A).H, 4, 3),
    "rotation": general(la.rotation, 3, 3, complex=REAL_ROTATION),
    "singular_value_function": general(lambda A: la.singular_value_function(A, "sqrt"), 4, 3),
    "low_rank": general(lambda A: la.low_rank(A, 2), 3, 4),
    "singular_value_threshold": general(lambda A: la.singular_value_threshold(A, 0.8), 4, 3),
    "clip_singular_values": general(lambda A: la.clip_singular_values(A, 1.2), 3, 3),
    "align": general(
        of_two(lambda X, Y: la.align(X, Y, scale=True).rotation), 2, 5, 3, complex=REAL_POINTS
    ),
    "null_vectors": general(null_space, 4, 4),
    "topk_eigh": matrix(top, **NO_MORE),
    "topk_svd": general(truncated, 4, 3, **NO_MORE),
    "leading_projector": matrix(lambda A: la.leading_projector(A, 2)),
    "principal_subspace": general(subspace, 5, 3),
    "principal_subspace, N < d": general(subspace, 4, 5),
    "bures_wasserstein": Row(of_two(la.bures_wasserstein), two_definite),
    "affine_invariant_distance": Row(of_two(la.affine_invariant_distance), two_definite),
    "frechet_distance": general(of_two(la.frechet_distance), 2, 5, 3),
    "frechet_distance, N < d": general(of_two(la.frechet_distance), 2, 3, 4),
    "canonical_correlations": general(of_two(la.canonical_correlations), 2, 6, 3),
    "canonical_correlations, N < d": general(
        of_two(lambda X, Y: la.canonical_correlations(X, Y, 0.1)), 2, 4, 5
    ),
    "covariance": of_maps(covariance),
    "covariance_pool('exact')": pooling("exact"),
    "covariance_pool('exact'), N < d": pooling("exact", 2, 4, 3),
    "covariance_pool('svd-pade')": pooling("svd-pade", gradgrad=ONCE),
    "covariance_pool('isqrt-cov')": pooling("isqrt-cov"),
    "covariance_pool('minimax')": pooling("minimax"),
    "covariance_pool('polar')": pooling("polar", gradgrad=POLAR),
    "covariance_pool('polar'), N < d": pooling("polar", 2, 4, 3, gradgrad=POLAR),
    "covariance_pool('log')": pooling("log"),
    "covariance_pool: features, weighted": of_maps(
        lambda X: covariance_pool(X, weights=attention(X))
    ),
    "covariance_pool: weights": of_maps(
        lambda w: covariance_pool(a_map(w), weights=w.square()), 2, 4
    ),
}


# --------------------------------------------------------------------------------------------------
# Transformations: each asserts against something that does not use it


def _loss(row: Row) -> Callable[[Tensor], Tensor]:
    def loss(A: Tensor) -> Tensor:
        F = row.call((A + A.mH) / 2 if row.symmetric else A)
        F = torch.view_as_real(F) if F.is_complex() else F
        return F.sin().sum() + F.square().sum()

    return loss


def _gradient(loss: Callable[[Tensor], Tensor], A: Tensor, **options: bool) -> Tensor:
    A = A.detach().requires_grad_()
    return torch.autograd.grad(loss(A), A, **options)[0]


def _numeric(f: Callable[[Tensor], Tensor], A: Tensor, V: Tensor, step: float = 1e-5) -> Tensor:
    return (f(A + step * V) - f(A - step * V)) / (2 * step)


def difference(f: Callable[[Tensor], Tensor], A: Tensor, V: Tensor, step: float) -> Tensor:
    """Of the sixth order, whose own error is near that of rounding."""
    parts = [(1.5, 1), (-0.6, 2), (0.1, 3)]
    return sum(weight * _numeric(f, A, V, k * step) for weight, k in parts)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    product = (a.conj() * b).sum()
    return product.real if product.is_complex() else product


def _close(got: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * (1 + expected.abs().max())


def _direction(A: Tensor) -> Tensor:
    V = random(*A.shape, seed=7).to(A.dtype)
    return V + 1j * random(*A.shape, seed=8).to(A.dtype) if A.is_complex() else V


def _twice(loss: Callable[[Tensor], Tensor], A: Tensor, V: Tensor) -> Tensor:
    """The derivative of the gradient along ``V``, by two backward passes."""
    B = A.clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(B), B, create_graph=True)
    return torch.autograd.grad((g * V).sum(), B)[0]


def check_grad(row: Row, dtype: torch.dtype = torch.float64) -> None:
    A, loss = row.sample(dtype), _loss(row)
    V = _direction(A)
    _close(_inner(_gradient(loss, A), V), _numeric(loss, A, V))


def check_gradgrad(row: Row, around: Callable = lambda loss: loss) -> None:
    A, loss = row.sample(), _loss(row)
    V = _direction(A)
    _close(_twice(around(loss), A, V), _numeric(lambda A: _gradient(loss, A), A, V))


def check_jvp(row: Row, dtype: torch.dtype = torch.float64) -> None:
    A, loss = row.sample(dtype), _loss(row)
    V = _direction(A)
    _close(torch.func.jvp(loss, (A,), (V,))[1], _numeric(loss, A, V))
    _close(tangent(loss, A, V), _numeric(loss, A, V))


def check_hessian(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    V = _direction(A)
    product = (torch.func.hessian(loss)(A) * V).sum(tuple(range(-A.dim(), 0)))
    _close(product, _numeric(lambda A: _gradient(loss, A), A, V))
    nested = torch.func.jvp(lambda A: torch.func.jvp(loss, (A,), (V,))[1], (A,), (V,))[1]
    _close(nested, (product * V).sum())


def _batch(row: Row) -> Tensor:
    A = row.sample()
    return torch.stack([A, 2 * A, A + 0.5 * (A + A.mH) if row.symmetric else A.flip(-1)])


def check_vmap(row: Row) -> None:
    A = _batch(row)
    _close(torch.vmap(row.call)(A), torch.stack([row.call(a) for a in A]), 1e-12)


def check_vmap_of_grad(row: Row) -> None:
    A, loss = _batch(row), _loss(row)
    alone = torch.stack([_gradient(loss, a) for a in A])
    _close(torch.vmap(torch.func.grad(loss))(A), alone, 1e-10)


def _compiled(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(call, fullgraph=True, backend="aot_eager")


def check_compile(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    _close(_gradient(_compiled(loss), A), _gradient(loss, A), 1e-10)


def check_export(row: Row) -> None:
    class Module(torch.nn.Module):
        def forward(self, A: Tensor) -> Tensor:
            return row.call(A)

    A = row.sample()
    _close(torch.export.export(Module(), (A,)).module()(A), row.call(A), 1e-12)


def inside(
    context: Callable,
    row: Row,
    dtype: torch.dtype,
    once: float | None = None,
    twice: float | None = None,
) -> None:
    """Value and gradient, and second derivative, inside a context and without it, to these tolerances."""
    A, loss = row.sample(dtype), _loss(row)
    V = _direction(A)
    calls = [(row.call, once), (lambda A: _gradient(loss, A), once)]
    calls.append((lambda A: _twice(loss, A, V), twice))
    for call, tolerance in (pair for pair in calls if pair[1] is not None):
        expected = call(A)
        with context():
            got = call(A)
        assert got.device == A.device
        _close(got.to(expected.dtype), expected, tolerance)


def _autocast() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16)  # which would be wrong by 1e-2


def check_autocast(row: Row) -> None:
    inside(_autocast, row, torch.float32, 1e-5)


def check_float32(row: Row) -> None:
    A = row.sample(torch.float64)
    assert row.call(A.float()).dtype == torch.float32
    _close(_gradient(_loss(row), A.float()).double(), _gradient(_loss(row), A), 1e-4)


def check_complex(row: Row) -> None:
    check_grad(row, torch.complex128)
    if row.refusal("jvp") is None:
        check_jvp(row, torch.complex128)


def check_float64(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    assert row.call(A).dtype == torch.float64
    V = _direction(A)
    _close(_inner(_gradient(loss, A), V), difference(loss, A, V, 5e-4), 1e-9)


# --------------------------------------------------------------------------------------------------
# Pairs of them


def check_jvp_and_vmap(row: Row) -> None:
    """Each of the other, along directions in which a symmetric matrix stays one."""
    A = _batch(row)
    V = _direction(A)
    V = (V + V.mH) / 2 if row.symmetric else V
    expected = _numeric(lambda A: torch.stack([row.call(a) for a in A]), A, V)
    _close(torch.func.jvp(torch.vmap(row.call), (A,), (V,))[1], expected)
    _close(torch.vmap(lambda a, v: torch.func.jvp(row.call, (a,), (v,))[1])(A, V), expected)


def check_hessian_of_vmap(row: Row) -> None:
    A, loss = _batch(row)[:2], _loss(row)
    V = _direction(A)
    hessian = torch.func.hessian(lambda A: torch.vmap(loss)(A).sum())(A)
    alone = [_numeric(lambda a: _gradient(loss, a), a, v) for a, v in zip(A, V, strict=True)]
    _close((hessian * V).sum(tuple(range(-A.dim(), 0))), torch.stack(alone))


def check_complex_gradgrad(row: Row) -> None:
    """In both modes of ``torch.func``, each inside and outside."""
    A, loss = row.sample(torch.complex128), _loss(row)
    V = _direction(A)
    W = V.flip(-1)
    grad, jvp = torch.func.grad, torch.func.jvp
    expected = _numeric(lambda A: _inner(_gradient(loss, A), V), A, W)
    _close(_inner(grad(lambda A: _inner(grad(loss)(A), V))(A), W), expected)
    _close(_inner(grad(lambda A: jvp(loss, (A,), (V,))[1])(A), W), expected)
    _close(_inner(jvp(grad(loss), (A,), (W,))[1], V), expected)


def check_checkpoint(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    for reentrant in (False, True):
        B = A.clone().requires_grad_()
        checkpoint(loss, B, use_reentrant=reentrant).backward()
        _close(B.grad, _gradient(loss, A), 1e-12)


def check_checkpoint_twice(row: Row) -> None:
    """In the one mode; in the other torch has no second derivative, and says so."""
    check_gradgrad(row, lambda loss: lambda A: checkpoint(loss, A, use_reentrant=False))
    A = row.sample()
    with pytest.raises(RuntimeError, match="use_reentrant=True"):
        _twice(lambda A: checkpoint(_loss(row), A, use_reentrant=True), A, A)


def check_autocast_twice(row: Row) -> None:
    """Around both backward passes."""
    inside(_autocast, row, torch.float32, twice=1e-3)


def check_half_in_autocast(row: Row) -> None:
    """Input in half precision, value and gradient, against the same input in float64."""
    for dtype in (torch.float16, torch.bfloat16):
        A, loss = row.sample().to(dtype), _loss(row)
        expected = row.call(A.double())
        with torch.autocast(A.device.type, dtype):
            got, gradient = row.call(A), _gradient(loss, A)
        tolerance = {torch.float32: 1e-4}.get(got.dtype, 2 * torch.finfo(dtype).eps)
        _close(got.double(), expected, tolerance)
        assert gradient.dtype == dtype
        _close(gradient.double(), _gradient(loss, A.double()), 4 * torch.finfo(dtype).eps)


def check_compile_of_complex(row: Row) -> None:
    """At the first call, when torch runs what it has just traced in another mode."""
    A = row.sample(torch.complex128)
    _close(_compiled(row.call)(A), row.call(A), 1e-12)


def check_compile_of_half(row: Row) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        A = row.sample().to(dtype)
        with torch.autocast(A.device.type, dtype):
            _close(_compiled(row.call)(A).double(), row.call(A).double(), 1e-6)


def check_compile_again(row: Row) -> None:
    """With another batch, and matrices of another size."""
    A, compiled = row.sample(), _compiled(row.call)
    two = A if A.dim() == 3 else torch.stack([A, 2 * A])
    smaller = two[..., :-1, :-1] if row.symmetric else two[..., :-1, :]
    for B in (two, torch.cat([two, two]), smaller):
        _close(compiled(B), row.call(B), 1e-12)


TRANSFORMATIONS: dict[str, Callable[[Row], None]] = {
    "grad": check_grad,
    "gradgrad": check_gradgrad,
    "jvp": check_jvp,
    "hessian": check_hessian,
    "vmap": check_vmap,
    "vmap of grad": check_vmap_of_grad,
    "compile": check_compile,
    "export": check_export,
    "autocast": check_autocast,
    "complex": check_complex,
    "float32": check_float32,
    "float64": check_float64,
}

PAIRS: dict[str, Callable[[Row], None]] = {
    "jvp and vmap": check_jvp_and_vmap,
    "hessian of vmap": check_hessian_of_vmap,
    "complex, gradgrad": check_complex_gradgrad,
    "checkpoint": check_checkpoint,
    "checkpoint, gradgrad": check_checkpoint_twice,
    "autocast, gradgrad": check_autocast_twice,
    "autocast of half": check_half_in_autocast,
}

# Compilation takes seconds: of these, what the rows below share with all others.
COMPILED_PAIRS: dict[str, Callable[[Row], None]] = {
    "compile of complex": check_compile_of_complex,
    "compile of half": check_compile_of_half,
    "compile, other sizes": check_compile_again,
}
COMPILED = (
    "sqrtm",
    "powm(A, tensor)",
    "eigh: projector",
    "eigvalsh",
    "orthogonalize, square",
    "singular_value_function",
    "covariance_pool('exact')",
)
CHECKS = {**TRANSFORMATIONS, **PAIRS, **COMPILED_PAIRS}

# What a row refuses is said once: by the transformation that needs it.
NEEDS = {
    "vmap of grad": ("vmap",),
    "jvp and vmap": ("jvp", "vmap"),
    "hessian": ("gradgrad",),
    "hessian of vmap": ("gradgrad",),
    "complex, gradgrad": ("complex", "gradgrad"),
    "checkpoint, gradgrad": ("gradgrad",),
    "autocast, gradgrad": ("gradgrad",),
    "compile of complex": ("complex",),
}


def outcome(row: Row, transformation: str) -> bool:
    """True if the transformation works, False if it is refused as the row says; else an error."""
    check, refusal = CHECKS[transformation], row.refusal(transformation)
    if refusal is None:
        check(row)
        return True
    error = refusal.error
    if transformation.startswith("compile"):
        error += "|Observed exception"  # which is all that the compiler of torch 2.8 says
    with pytest.raises((RuntimeError, TypeError), match=error):
        check(row)
    return False
