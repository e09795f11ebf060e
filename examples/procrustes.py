"""Differentiable Procrustes: the rotation between two point clouds, and a gradient through it.

    python examples/procrustes.py

The best rotation from X to Y is U V^T of the SVD of Y^T X. It is a smooth function of the points as long
as that matrix is invertible, but the gradients of U and V divide by differences of singular values. For a
regular body, here a cube, all three are equal, and what should cancel is infinite.
"""

import itertools

import torch

from rootpool.linalg import svd

torch.manual_seed(0)
cube = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
turn = torch.linalg.matrix_exp(
    torch.tensor([[0, -0.4, 0.1], [0.4, 0, -0.3], [-0.1, 0.3, 0]], dtype=torch.float64)
)


def rotation(X, Y, svd):
    U, _, Vh = svd(Y.mT @ X, full_matrices=False)
    return U @ Vh


def stable_svd(A, full_matrices):
    # U V^T does not depend on the basis that a repeated singular value leaves open: what it would divide by
    # a gap is zero up to rounding, and this rule drops it where the gap is rounding, too.
    return svd(A, rule="degenerate", full_matrices=full_matrices)


def gradient(X, Y, svd):
    X = X.clone().requires_grad_()
    return torch.autograd.grad((rotation(X, Y, svd) * probe).sum(), X)[0]


probe = torch.randn(3, 3, dtype=torch.float64)
seen = cube @ turn.mT
print("singular values:", [round(s, 3) for s in torch.linalg.svdvals(seen.mT @ cube).tolist()])
print("rotation found to", f"{(rotation(cube, seen, stable_svd) - turn).abs().max().item():.0e}")

native, ours = gradient(cube, seen, torch.linalg.svd), gradient(cube, seen, stable_svd)
print("torch.linalg.svd:   ", f"{native.isfinite().float().mean():.0%} of the gradient finite")
print("rootpool.linalg.svd:", f"{ours.isfinite().float().mean():.0%} of the gradient finite")

direction, step = torch.randn_like(cube), 1e-6
up, down = (rotation(cube + s * direction, seen, torch.linalg.svd) for s in (step, -step))
measured, predicted = ((up - down) * probe).sum() / (2 * step), (ours * direction).sum()
print(f"slope along a direction: {predicted:.6f} by the gradient, {measured:.6f} by differences")
assert torch.isclose(predicted, measured, rtol=1e-6)

# Used: find the offset of one corner from nothing but the rotation that the whole cloud seems to make.
offset = torch.zeros(3, dtype=torch.float64, requires_grad=True)
true_offset = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
corner = torch.zeros(8, 1, dtype=torch.float64).index_fill_(0, torch.tensor([7]), 1)
wanted = rotation(cube + corner * true_offset, seen, torch.linalg.svd)
optimizer = torch.optim.LBFGS([offset], max_iter=50, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = (rotation(cube + corner * offset, seen, stable_svd) - wanted).square().sum()
    loss.backward()
    return loss


print(f"mismatch at the start {closure().item():.1e}, after LBFGS", end=" ")
optimizer.step(closure)
print(f"{closure().item():.1e}")
