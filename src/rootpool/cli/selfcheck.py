r"""Small problems whose answers are known without this library.

Each check returns the largest error it met. The right answer comes from algebra
(:math:`Q^2 = P`, :math:`\log(\exp S) = S`), from a closed form, or from differences of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rootpool.linalg import RULES, eigh, inv_sqrtm, logm, resolve_rule, sqrtm
from rootpool.nn import METHODS, covariance_pool

__all__ = ["CHECKS", "Check", "Outcome", "check_numerics", "describe_bits"]


@dataclass(frozen=True)
class Check:
    """A problem, the error that its solution may have, and a function that measures that error."""

    about: str
    allowed: float
    error: Callable[[torch.device], float]


@dataclass(frozen=True)
class Outcome:
    """The error of a check on a device, or the problem that prevented it."""

    about: str
    device: str
    error: float | None
    allowed: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether there is an error and it is small enough."""
        return self.error is not None and self.error <= self.allowed


def check_numerics(devices: Iterable[torch.device]) -> list[Outcome]:
    """All checks on all devices; an exception is a failure like any other."""
    return [_outcome(check, device) for device in devices for check in CHECKS]


def _outcome(check: Check, device: torch.device) -> Outcome:
    try:
        error = check.error(device)
    except Exception as raised:
        return Outcome(check.about, str(device), None, check.allowed, _text(raised))
    if math.isfinite(error):
        return Outcome(check.about, str(device), error, check.allowed)
    return Outcome(check.about, str(device), None, check.allowed, f"the result is off by {error}")


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


# --------------------------------------------------------------------------------------------------


def _random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def _symmetric(A: Tensor) -> Tensor:
    return (A + A.mT) / 2


def _largest(*differences: Tensor) -> float:
    # torch's maximum, because Python's may lose a NaN.
    return float(torch.stack([difference.detach().abs().max() for difference in differences]).max())


def _root_at_a_tie(device: torch.device) -> float:
    """At A = I the derivative of the root is half of the identity."""
    A = torch.eye(3, dtype=torch.float64, device=device, requires_grad=True)
    Q = sqrtm(A)
    (gradient,) = torch.autograd.grad(Q.sum(), A)
    return _largest(Q - A, gradient - 0.5)


def _logarithm(device: torch.device) -> float:
    """log(exp S) = S, so the gradient of <G, log(exp S)> is the symmetric part of G; S has a tie."""
    V = torch.linalg.qr(_random(5, 5))[0]
    S = (V * torch.tensor([-1.0, 0.0, 0.0, 0.5, 2.0])) @ V.mT
    S, G = _symmetric(S).to(device).requires_grad_(), _random(5, 5, seed=1).to(device)
    L = logm(_symmetric(torch.linalg.matrix_exp(S)))
    (gradient,) = torch.autograd.grad((G * L).sum(), S)
    return _largest(L - S, _symmetric(gradient) - _symmetric(G))


def _inverse_root(device: torch.device) -> float:
    """Z A Z = I, and Z A^(1/2) = I, for a matrix of condition 1e4."""
    V = torch.linalg.qr(_random(5, 5))[0]
    A = _symmetric((V * torch.logspace(-4, 0, 5, dtype=torch.float64)) @ V.mT).to(device)
    Z, one = inv_sqrtm(A), torch.eye(5, dtype=torch.float64, device=device)
    return _largest(Z @ A @ Z - one, Z @ sqrtm(A) - one)


def _second_derivative(device: torch.device) -> float:
    """Differences of the gradient, at a tie; torch raises where they differ."""
    A = torch.eye(3, dtype=torch.float64, device=device, requires_grad=True)
    return 1.0 - torch.autograd.gradgradcheck(lambda A: sqrtm(_symmetric(A)), A)


def _eigenvectors(device: torch.device) -> float:
    """The first entry of an eigenvector in two dimensions has a closed form.

    A rule takes the place of 1 / (lam_1 - lam_0) in its gradient, and of nothing else.
    """
    A = torch.tensor([[4.0, 3.0], [3.0, 12.0]], dtype=torch.float64, device=device)
    A.requires_grad_()
    half_gap = (((A[1, 1] - A[0, 0]) / 2) ** 2 + ((A[0, 1] + A[1, 0]) / 2) ** 2).sqrt()
    closed = (1 + (A[1, 1] - A[0, 0]) / (2 * half_gap)) / 2
    (expected,) = torch.autograd.grad(closed, A)
    errors = []
    for name in RULES:
        lam, U = eigh(A, rule=name)
        (gradient,) = torch.autograd.grad(U[0, 0] ** 2, A)
        share = resolve_rule(name)(lam.detach())[1, 0] * (lam[1] - lam[0]).detach()
        errors += [U[0, 0] ** 2 - closed, _symmetric(gradient) - share * expected]
    return _largest(*errors)


def _rules(device: torch.device) -> float:
    """The contract of rules: antisymmetric, finite at ties, and 1 / gap between distant eigenvalues."""
    ties = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64, device=device)
    far = torch.tensor([1.0, 1e3, 1e6], dtype=torch.float64, device=device)
    gaps = far.unsqueeze(-1) - far
    errors = []
    for name in RULES:
        K, limit = resolve_rule(name)(ties), resolve_rule(name)(far)
        errors += [K + K.mT, limit * gaps - (gaps != 0).double()]
    return _largest(*errors)


def _rank_deficient(device: torch.device) -> float:
    """Covariances of 4 positions in 6 channels: Q Q = P, and the gradient as a difference of values."""
    X, G, D = (_random(2, 6, n, seed=n).to(device) for n in (4, 6, 4))
    D = D.flip(0)

    def loss(X: Tensor) -> Tensor:
        return (_symmetric(G) * covariance_pool(X, output="matrix")).sum()

    Q, A = covariance_pool(X, output="matrix"), X - X.mean(-1, keepdim=True)
    (gradient,) = torch.autograd.grad(loss(X.requires_grad_()), X)
    step = 3e-4  # the difference is right to step^4, and round-off to 1e-16 / step
    with torch.no_grad():
        near, far = (loss(X + h * D) - loss(X - h * D) for h in (step, 2 * step))
    slope = (8 * near - far) / (12 * step)
    return _largest(Q @ Q - A @ A.mT / X.shape[-1], (gradient * D).sum() - slope)


def _dead_channels(device: torch.device) -> float:
    """Float32 covariances of rank 2 or 3, most channels dead: LAPACK may give up on some of them."""
    covariances = []
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        live, positions, rank = 20 + seed % 12, (49, 100, 25, 16)[seed % 4], 2 + seed % 3
        left = torch.randn(live, rank, generator=generator)
        right = torch.randn(rank, positions, generator=generator)
        X = torch.zeros(64, positions)
        X[torch.randperm(64, generator=generator)[:live]] = (left @ right).relu()
        X = X - X.mean(1, keepdim=True)
        covariances.append(X @ X.mT / positions)
    A = torch.stack(covariances).to(device)
    lam, U = eigh(A)
    scale = A.abs().amax((-2, -1), keepdim=True)
    one = torch.eye(64, device=device)
    return _largest((A @ U - U * lam.unsqueeze(-2)) / scale, U.mT @ U - one)


def _methods(device: torch.device) -> float:
    """How many methods give NaN or infinity, forward or backward, with more channels than positions."""
    broken = 0
    for method in METHODS:
        X = _random(2, 12, 5).float().relu().to(device).requires_grad_()
        pooled = covariance_pool(X, method)
        (gradient,) = torch.autograd.grad(pooled.square().sum(), X)
        broken += not (pooled.isfinite().all() and gradient.isfinite().all())
    return float(broken)


def _root_and_gradient(A: Tensor) -> Tensor:
    A = A.detach().requires_grad_()
    Q = sqrtm(A)
    return torch.cat([Q, *torch.autograd.grad(Q.sin().sum(), A)]).detach()


def _well_conditioned(device: torch.device) -> Tensor:
    X = _random(9, 69, 69)  # an odd size, so that matrices start at odd addresses
    return (X @ X.mT / 69 + torch.eye(69, dtype=torch.float64)).to(device)


def _by_threads(A: Tensor) -> Iterator[Tensor]:
    """A root and its gradient with one thread, two, and as many as are set."""
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, before):
            torch.set_num_threads(threads)
            yield _root_and_gradient(A)
    finally:
        torch.set_num_threads(before)


def _threads(device: torch.device) -> float:
    """How far a root and its gradient depend on the number of threads: by rounding alone."""
    first, *others = _by_threads(_well_conditioned(device))
    return _largest(*(other - first for other in others))


def describe_bits() -> list[str]:
    """On what the last bits of a result depend here: a property of the CPU and its BLAS, not a fault."""
    A = _well_conditioned(torch.device("cpu"))
    try:
        first, *others = _by_threads(A)
        moved = _root_and_gradient(A.roll(1, 0)).reshape(2, *A.shape).roll(-1, 1)
    except Exception as raised:  # the checks will say more
        return [_text(raised)]
    same = {
        "the number of threads": all(torch.equal(other, first) for other in others),
        "the place in a batch": torch.equal(moved.flatten(0, 1), first),
    }
    return [f"{'do not depend' if same[what] else 'depend'} on {what}" for what in same]


CHECKS = (
    Check("root of the identity, and its gradient", 1e-14, _root_at_a_tie),
    Check("second derivative of the root at a tie", 0.0, _second_derivative),
    Check("inverse root", 1e-11, _inverse_root),
    Check("logarithm of an exponential, and its gradient", 1e-12, _logarithm),
    Check("eigenvectors, and their gradient by every rule", 1e-10, _eigenvectors),
    Check("kernels of the gradient rules", 1e-5, _rules),
    Check("root of rank-deficient covariances, its gradient", 1e-9, _rank_deficient),
    Check("float32 covariances with dead channels", 2e-5, _dead_channels),
    Check("methods that give NaN for such covariances", 0.0, _methods),
    Check("root and its gradient with one thread and more", 1e-12, _threads),
)
