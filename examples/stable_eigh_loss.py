"""A loss on eigenvectors: torch's gradient is NaN at the first step, this one trains.

    python examples/stable_eigh_loss.py

Which plane do the two leading eigenvectors of a matrix span? The matrix is learned until they span a
given plane. It starts with eigenvalues (1, 1, 1, 2, 2), as things that are initialised neatly do: the
leading *plane* is well defined, a basis of it is not, and the textbook gradient divides zero by zero.
"""

import torch

from rootpool.linalg import eigh

torch.manual_seed(0)
start = torch.diag(torch.tensor([1.0, 1.0, 1.0, 2.0, 2.0], dtype=torch.float64))
target = torch.linalg.qr(torch.randn(5, 2, dtype=torch.float64)).Q
target = target @ target.mT  # a plane is its projector


def loss(A, eigh):
    leading = eigh(A).eigenvectors[:, -2:]
    return (leading @ leading.mT - target).square().sum()


def gradient(A, eigh):
    A = A.clone().requires_grad_()
    return torch.autograd.grad(loss(A, eigh), A)[0]


# Its default rule is right for every loss that sees an eigenspace and not its basis; others get a warning.
stable = eigh


def by_differences(A, step=1e-5):
    """The gradient from values of the loss alone, to compare with."""
    result = torch.zeros_like(A)
    for i in range(len(A)):
        for j in range(i + 1):
            E = torch.zeros_like(A)
            E[i, j] = E[j, i] = step if i == j else step / 2
            up, down = loss(A + E, torch.linalg.eigh), loss(A - E, torch.linalg.eigh)
            result[i, j] = result[j, i] = (up - down) / (2 * step)
    return result


print("at the start, eigenvalues 1, 1, 1, 2, 2:")
native, ours = gradient(start, torch.linalg.eigh), gradient(start, stable)
expected = by_differences(start)
print("  torch.linalg.eigh   ", native[0].tolist())
print("  rootpool.linalg.eigh", [round(x, 4) for x in ours[0].tolist()])
print("  finite differences  ", [round(x, 4) for x in expected[0].tolist()])
assert native.isnan().any()
assert torch.allclose(ours, expected, atol=1e-8)

A = start.clone().requires_grad_()
optimizer = torch.optim.SGD([A], lr=0.1)
for step in range(101):
    value = loss(A, stable)
    if step % 25 == 0:
        print(f"step {step:3}: distance of the planes {value.item():.2e}")
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
