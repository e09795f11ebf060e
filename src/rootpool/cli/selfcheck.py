r"""Small problems whose answers are known without this library.

Each check returns the largest error it met. The right answer comes from algebra
(:math:`Q^2 = P`, :math:`\log(\exp S) = S`), from a closed form, or from differences of values.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rootpool.linalg import RULES, eigh, logm, resolve_rule, sqrtm
from rootpool.nn import covariance_pool

__all__ = ["CHECKS", "run_check"]


def run_check(about: str, device: torch.device) -> tuple[bool, str]:
    """Whether a check passes on a device, and its error; an exception is a failure like any other."""
    allowed, measure = CHECKS[about]
    try:
        error = measure(device)
    except Exception as raised:
        return False, f"{type(raised).__name__}: {' '.join(str(raised).split())}"
    passed = error <= allowed  # what is not a number is not
    return passed, f"{error:.1g} {'<=' if passed else 'not <='} {allowed:.1g}"


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
    """At A = I the derivative of the root is half of the identity; torch raises if the second is wrong."""
    A = torch.eye(3, dtype=torch.float64, device=device, requires_grad=True)
    Q = sqrtm(A)
    (gradient,) = torch.autograd.grad(Q.sum(), A)
    torch.autograd.gradgradcheck(lambda A: sqrtm(_symmetric(A)), A)
    return _largest(Q - A, gradient - 0.5)


def _logarithm(device: torch.device) -> float:
    """log(exp S) = S, so the gradient of <G, log(exp S)> is the symmetric part of G; S has a tie."""
    V = torch.linalg.qr(_random(5, 5))[0]
    S = (V * torch.tensor([-1.0, 0.0, 0.0, 0.5, 2.0])) @ V.mT
    S, G = _symmetric(S).to(device).requires_grad_(), _random(5, 5, seed=1).to(device)
    L = logm(_symmetric(torch.linalg.matrix_exp(S)))
    (gradient,) = torch.autograd.grad((G * L).sum(), S)
    return _largest(L - S, _symmetric(gradient) - _symmetric(G))


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


# What is checked, the error that is allowed, and the function that measures it.
CHECKS: dict[str, tuple[float, Callable[[torch.device], float]]] = {
    "root of the identity, and its derivatives": (1e-14, _root_at_a_tie),
    "logarithm of an exponential, and its gradient": (1e-12, _logarithm),
    "eigenvectors, and their gradient by every rule": (1e-10, _eigenvectors),
    "root of rank-deficient covariances, its gradient": (1e-9, _rank_deficient),
    "float32 covariances with dead channels": (2e-5, _dead_channels),
}
