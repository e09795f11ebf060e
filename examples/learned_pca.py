"""A PCA layer that is trained through: a linear map whose output has a given principal subspace.

    python examples/learned_pca.py

Eight samples of twelve channels have singular values 2, 2, 2, 1, 1, 1, 1: the three leading principal
directions span a well defined space, but single directions are arbitrary, and their textbook gradient is
0/0. The gradient of the subspace divides only by the gaps between the kept and the dropped ones.
"""

import torch

from rootpool.linalg import principal_subspace

torch.manual_seed(0)
SAMPLES, CHANNELS, KEPT = 8, 12, 3


def orthonormal(rows, columns):
    Q = torch.randn(rows, columns, dtype=torch.float64)
    return torch.linalg.qr(Q - Q.mean(0)).Q  # centred columns


strength = torch.tensor([2.0, 2, 2, 1, 1, 1, 1], dtype=torch.float64)
data = (orthonormal(SAMPLES, 7) * strength) @ orthonormal(CHANNELS, 7).mT
wanted = torch.diag((torch.arange(CHANNELS) < KEPT).double())  # the projector on three channels


def by_svd(X, k):
    return torch.linalg.svd(X - X.mean(0), full_matrices=False).Vh[:k].mT


def loss(mixing, subspace=principal_subspace):
    V = subspace(data @ mixing, KEPT)
    return (V @ V.mT - wanted).square().sum()


def gradient(mixing, subspace):
    mixing = mixing.clone().requires_grad_()
    return torch.autograd.grad(loss(mixing, subspace), mixing)[0]


mixing = torch.eye(CHANNELS, dtype=torch.float64)
native, ours = gradient(mixing, by_svd), gradient(mixing, principal_subspace)
direction, step = torch.randn_like(mixing), 1e-6
measured = (loss(mixing + step * direction) - loss(mixing - step * direction)) / (2 * step)
print(f"slope along a direction: {(ours * direction).sum():.6f} by the gradient,", end=" ")
print(f"{measured:.6f} by differences, {(native * direction).sum():.6f} by torch.linalg.svd")

mixing.requires_grad_()
optimizer = torch.optim.Adam([mixing], lr=0.02)
for step in range(201):
    value = loss(mixing)
    if step % 50 == 0:
        print(f"step {step:3}: distance of the subspaces {value.item():.1e}")
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
