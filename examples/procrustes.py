"""Kabsch alignment in a loss: the rotation between two point clouds, and a gradient through it.

    python examples/procrustes.py

The best rotation from X to Y comes from the SVD of Y^T X. It is a smooth function of the points as long as
it is unique, but the gradients of U and V divide by differences of singular values. For a regular body,
here a cube, all three are 8, and what should cancel is infinite. The gradient of ``rotation`` divides
by sums of singular values instead.
"""

import itertools

import torch

from rootpool.linalg import rotation

torch.manual_seed(0)
cube = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
skew = torch.tensor([[0, -0.4, 0.1], [0.4, 0, -0.3], [-0.1, 0.3, 0]], dtype=torch.float64)
turn = torch.linalg.matrix_exp(skew)
probe = torch.randn(3, 3, dtype=torch.float64)
seen = cube @ turn.mT


def by_svd(A):
    U, _, Vh = torch.linalg.svd(A)
    return U @ Vh


def gradient(X, Y, nearest):
    X = X.clone().requires_grad_()
    return torch.autograd.grad((nearest(Y.mT @ X) * probe).sum(), X)[0]


print("rotation found to", f"{(rotation(seen.mT @ cube) - turn).abs().max().item():.0e}")
native, ours = gradient(cube, seen, by_svd), gradient(cube, seen, rotation)
print("torch.linalg.svd:        ", f"{native.isfinite().float().mean():.0%} of the gradient finite")
print("rootpool.linalg.rotation:", f"{ours.isfinite().float().mean():.0%} of the gradient finite")

# Used: the shape of a body from a picture that may be turned. Both are aligned before they are compared, so
# the loss does not know how the picture is turned; the corner that sticks out is found all the same.
corner = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
last = torch.zeros(8, 1, dtype=torch.float64).index_fill_(0, torch.tensor([7]), 1)
picture = (cube + last * corner) @ turn.mT
guess = cube.clone().requires_grad_()
optimizer = torch.optim.LBFGS([guess], max_iter=50, line_search_fn="strong_wolfe")


def mismatch():
    optimizer.zero_grad()
    body, seen = (X - X.mean(0) for X in (guess, picture))
    loss = (body @ rotation(seen.mT @ body).mT - seen).square().sum()
    loss.backward()
    return loss


print(f"mismatch at the start {mismatch().item():.1e}, after LBFGS", end=" ")
optimizer.step(mismatch)
print(f"{mismatch().item():.1e}")
