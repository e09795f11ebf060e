"""Every function under every transformation: one table, which the tests run and the documentation shows.

A row is a function of one tensor, its input, and what it refuses with the reason. ``docs/transformations.md``
is written by ``python scripts/transformations.py``, which runs the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from matrices import random
from rootpool.linalg import eigh, inv_sqrtm, logm, newton_schulz, powm, sqrtm, svd
from rootpool.nn import covariance, covariance_pool

REAL = "covariances are those of real features"
ONCE = "its gradient is not the derivative of the root"


@dataclass(frozen=True)
class Row:
    """``call`` maps an input of the shape of ``sample`` to a tensor; dashes are documented refusals."""

    call: Callable[[Tensor], Tensor]
    sample: Callable[..., Tensor]
    symmetric: bool = True
    refuses: dict[str, str] = field(default_factory=dict)


def definite(dtype: torch.dtype = torch.float64) -> Tensor:
    A = (
        random(3, 3, dtype=dtype)
        if not dtype.is_complex
        else torch.complex(
            random(3, 3, dtype=dtype.to_real()), random(3, 3, dtype=dtype.to_real(), seed=1)
        )
    )
    return A @ A.mH + torch.eye(3, dtype=dtype, device=A.device)


def features(dtype: torch.dtype = torch.float64) -> Tensor:
    return random(2, 3, 4, dtype=dtype)


def projector(A: Tensor) -> Tensor:
    U = eigh(A).eigenvectors[..., 1:]
    return _product(U, U)


def polar(A: Tensor) -> Tensor:
    U, _, Vh = svd(A)
    return _product(U, Vh.mH)


def _product(A: Tensor, B: Tensor) -> Tensor:
    """``A B^H``, which autocast leaves alone."""
    return (A.unsqueeze(-2) * B.conj().unsqueeze(-3)).sum(-1)


def matrix(call: Callable[[Tensor], Tensor], **refuses: str) -> Row:
    return Row(call, definite, refuses=refuses)


def pooling(method: str, **refuses: str) -> Row:
    call = lambda X: covariance_pool(X, method)  # noqa: E731
    return Row(call, features, symmetric=False, refuses={"complex": REAL, **refuses})


FUNCTIONS: dict[str, Row] = {
    "sqrtm": matrix(sqrtm),
    "inv_sqrtm": matrix(inv_sqrtm),
    "logm": matrix(logm),
    "powm(A, 0.3)": matrix(lambda A: powm(A, 0.3)),
    "powm(A, tensor)": matrix(
        lambda A: powm(A, torch.full((), 0.3, dtype=torch.float64, device=A.device)),
        gradgrad="not implemented for a tensor",
        hessian="not implemented for a tensor",
    ),
    "sqrtm(rule='pade')": matrix(
        lambda A: sqrtm(A, rule="pade"),
        gradgrad="a rule is not a derivative",
        hessian="a rule is not a derivative",
    ),
    "sqrtm(eigenvalue_floor=2)": matrix(lambda A: sqrtm(A, eigenvalue_floor=2.0)),
    "newton_schulz": matrix(lambda A: newton_schulz(A).root),
    "eigh: eigenvalues": matrix(lambda A: eigh(A).eigenvalues),
    "eigh: projector": matrix(projector),
    "svd: singular values": Row(lambda A: svd(A).S, definite, symmetric=False),
    "svd: polar factor": Row(polar, definite, symmetric=False),
    "covariance": Row(covariance, features, symmetric=False, refuses={"complex": REAL}),
    "covariance_pool('exact')": pooling("exact"),
    "covariance_pool('svd-pade')": pooling("svd-pade", gradgrad=ONCE, hessian=ONCE),
    "covariance_pool('isqrt-cov')": pooling("isqrt-cov"),
    "covariance_pool('log')": pooling("log"),
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


def _inner(a: Tensor, b: Tensor) -> Tensor:
    product = (a.conj() * b).sum()
    return product.real if product.is_complex() else product


def _close(got: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * (1 + expected.abs().max())


def _direction(A: Tensor) -> Tensor:
    V = random(*A.shape, seed=7).to(A.dtype)
    return V + 1j * random(*A.shape, seed=8).to(A.dtype) if A.is_complex() else V


def check_grad(row: Row, dtype: torch.dtype = torch.float64) -> None:
    A, loss = row.sample(dtype), _loss(row)
    V = _direction(A)
    _close(_inner(_gradient(loss, A), V), _numeric(loss, A, V))


def check_gradgrad(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    V = _direction(A)
    B = A.clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(B), B, create_graph=True)
    (got,) = torch.autograd.grad((g * V).sum(), B)
    _close(got, _numeric(lambda A: _gradient(loss, A), A, V))


def check_jvp(row: Row) -> None:
    A, loss = row.sample(), _loss(row)
    V = _direction(A)
    _close(torch.func.jvp(loss, (A,), (V,))[1], _numeric(loss, A, V))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A, V)
        tangent = torch.autograd.forward_ad.unpack_dual(loss(dual)).tangent
    _close(tangent, _numeric(loss, A, V))


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


def check_compile(row: Row) -> None:
    torch._dynamo.reset()
    A, loss = row.sample(), _loss(row)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    _close(_gradient(compiled, A), _gradient(loss, A), 1e-10)


def check_export(row: Row) -> None:
    class Module(torch.nn.Module):
        def forward(self, A: Tensor) -> Tensor:
            return row.call(A)

    A = row.sample()
    _close(torch.export.export(Module(), (A,)).module()(A), row.call(A), 1e-12)


def check_autocast(row: Row) -> None:
    A = row.sample(torch.float32)
    expected = row.call(A)
    with torch.autocast(A.device.type, torch.bfloat16):
        got = row.call(A)
    _close(got.to(expected.dtype), expected, 1e-5)  # bfloat16 would be wrong by 1e-2


def check_complex(row: Row) -> None:
    check_grad(row, torch.complex128)


def check_float32(row: Row) -> None:
    A = row.sample(torch.float64)
    _close(_gradient(_loss(row), A.float()).double(), _gradient(_loss(row), A), 1e-4)


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
}
REFUSALS = (RuntimeError, TypeError)
