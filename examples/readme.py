"""The example of the README: where torch gives NaN, and what to write instead."""

import torch

from rootpool.linalg import eigh, sqrtm

torch.manual_seed(0)
X = torch.randn(8, 3)  # 8 channels, 3 positions: the covariance has 5 eigenvalues that are 0
P = (X @ X.mT / 3).requires_grad_()
identity = torch.eye(3, requires_grad=True)


def root(A, eigh):
    eigenvalues, eigenvectors = eigh(A)
    return (eigenvectors * eigenvalues.sqrt()) @ eigenvectors.mT


(native,) = torch.autograd.grad(root(identity, torch.linalg.eigh).sum(), identity)
print("torch.linalg.eigh at the identity:  ", native[0])

(finite,) = torch.autograd.grad(root(identity, eigh).sum(), identity)
print("rootpool.eigh, one import changed:  ", finite[0], "finite")

(exact,) = torch.autograd.grad(sqrtm(identity).sum(), identity)
print("rootpool.sqrtm:                     ", exact[0], "exact")

(gradient,) = torch.autograd.grad(sqrtm(P).sum(), P)
print("rootpool.sqrtm of a singular matrix:", gradient[0, :3], "...")
assert gradient.isfinite().all()
