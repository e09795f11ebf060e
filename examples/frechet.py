"""The Frechet distance of two feature sets (as in FID) as a value and as a loss, at low rank.

    python examples/frechet.py

With fewer samples than dimensions the covariances are singular, and both formulas in use, the root of a
product of covariances and its eigenvalues, lose half of the digits. From the features themselves it is one
nuclear norm: exact, never negative, and with a gradient that divides by nothing.
"""

import torch

from rootpool.linalg import frechet_distance

torch.manual_seed(0)
SAMPLES, DIMENSIONS = 20, 64
X = torch.randn(SAMPLES, DIMENSIONS, dtype=torch.float64)


def by_eigenvalues(X, Y):
    """The usual way: the trace of the root of the product of both covariances, by its eigenvalues."""
    product = torch.cov(X.mT) @ torch.cov(Y.mT)
    trace = torch.linalg.eigvals(product).sqrt().real.sum()
    means = (X.mean(0) - Y.mean(0)).square().sum()
    return means + torch.cov(X.mT).trace() + torch.cov(Y.mT).trace() - 2 * trace


# A known answer: stretching centred features by 1 + e moves them by e, and the distance is e^2 tr(cov).
centred = X - X.mean(0)
for stretch in (1e-1, 1e-3, 1e-5):
    moved = (1 + stretch) * centred
    exact = stretch**2 * torch.cov(X.mT).trace()
    errors = [
        (f(centred, moved) / exact - 1).abs().item() for f in (frechet_distance, by_eigenvalues)
    ]
    print(f"stretched by {stretch:.0e}: error {errors[0]:.0e}, by eigenvalues {errors[1]:.0e}")

# As a loss: move one set of features onto the statistics of another.
target = torch.randn(30, DIMENSIONS, dtype=torch.float64) * 2 + 1
features = X.clone().requires_grad_()
optimizer = torch.optim.SGD([features], lr=4.0)
print(f"distance at the start {frechet_distance(features, target).item():.1f},", end=" ")
for _ in range(100):
    optimizer.zero_grad()
    frechet_distance(features, target).backward()
    optimizer.step()
print(f"after 100 steps {frechet_distance(features, target).item():.1f}")
apart = (features.mean(0) - target.mean(0)).norm().item()
print(f"means differ by {apart:.0e}; the rest is what {SAMPLES} samples cannot have")
