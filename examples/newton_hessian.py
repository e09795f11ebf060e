"""The Hessian of a spectral loss at the identity, and Newton's method with it.

    python examples/newton_hessian.py

Which matrix has a given square root, seen through a quartic loss? At the start, the identity, all
eigenvalues are equal: the textbook derivatives are 0/0, the first and even more so the second. Exact second
derivatives let Newton's method converge in a few steps, each with twice the digits of the one before.
"""

import torch
from torch.func import grad, jacrev

from rootpool.linalg import from_triangle, sqrtm, to_triangle

torch.manual_seed(0)
N = 3
S = torch.randn(N, N, dtype=torch.float64)
target = torch.eye(N, dtype=torch.float64) + 0.2 * (S + S.mT)


def loss(triangle, root=sqrtm):
    apart = root(from_triangle(triangle)) - target
    return apart.square().sum() + (apart @ apart).square().sum()


def root_by_eigh(A):
    lam, U = torch.linalg.eigh(A)
    return (U * lam.sqrt()) @ U.mT


x = to_triangle(torch.eye(N, dtype=torch.float64))
native = jacrev(grad(lambda x: loss(x, root_by_eigh)))(x)
ours = jacrev(grad(loss))(x)
print("torch.linalg.eigh:    ", f"{native.isfinite().float().mean():.0%} of the Hessian finite")
print("rootpool.linalg.sqrtm:", f"{ours.isfinite().float().mean():.0%} of the Hessian finite")

direction, step = torch.randn_like(x), 1e-5
measured = (grad(loss)(x + step * direction) - grad(loss)(x - step * direction)) / (2 * step)
print(f"differs from differences of gradients by {(ours @ direction - measured).norm():.0e}")
assert torch.allclose(ours, ours.mT)

for iteration in range(7):
    print(f"Newton step {iteration}: gradient {grad(loss)(x).norm():.1e}")
    x = x - torch.linalg.solve(jacrev(grad(loss))(x), grad(loss)(x))
print("found to", f"{(from_triangle(x) - target @ target).abs().max():.0e}")
