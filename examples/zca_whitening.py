"""ZCA whitening as a layer: decorrelated channels, and a gradient where torch's own is NaN.

    python examples/zca_whitening.py

Y = (covariance + eps I)^(-1/2) (X - mean). Two channels that are always zero (dead units) give the
covariance a repeated eigenvalue, and the gradient through torch.linalg.eigh divides by its gap.
"""

import torch

from rootpool.nn import Whitening

torch.manual_seed(0)
mixing = torch.randn(6, 6, dtype=torch.float64)
features = (mixing @ torch.randn(6, 512, dtype=torch.float64)).T  # (samples, channels), correlated
features[:, 4:] = 0  # two dead channels
eps = 1e-5


def whiten_by_torch(X):
    X = X - X.mean(0)
    eigenvalues, U = torch.linalg.eigh(X.T @ X / len(X) + eps * torch.eye(X.shape[1]))
    return X @ (U * eigenvalues.rsqrt()) @ U.T


def off_diagonal(X):
    """The largest correlation between two of the living channels."""
    correlation = torch.corrcoef(X[:, :4].T.detach())
    return (correlation - torch.eye(4)).abs().max().item()


layer = Whitening(6, eps=eps)
weight = torch.randn_like(features)
gradients = {}
for name, whiten in {"torch.linalg.eigh": whiten_by_torch, "Whitening": layer}.items():
    X = features.clone().requires_grad_()
    Y = whiten(X)
    (gradients[name],) = torch.autograd.grad((Y * weight).sum(), X)
    finite = gradients[name].isfinite().float().mean().item()
    print(
        f"{name:18} largest correlation {off_diagonal(features):.2f} -> {off_diagonal(Y):.0e}, "
        f"{finite:.0%} of the gradient finite"
    )
assert gradients["torch.linalg.eigh"].isnan().any()
assert gradients["Whitening"].isfinite().all()

# The gradient of the layer is right: it predicts the change along a random direction.
direction, step = torch.randn_like(features), 1e-6
up, down = layer(features + step * direction), layer(features - step * direction)
measured = ((up - down) * weight).sum() / (2 * step)
predicted = (gradients["Whitening"] * direction).sum()
print(f"slope along a direction: {predicted:.4f} by the gradient, {measured:.4f} by differences")

# In evaluation the statistics are running averages, as those of batch norm: one sample is enough.
for _ in range(100):
    layer(features)
layer.eval()
print("one sample in evaluation:", [round(x, 2) for x in layer(features[:1])[0].tolist()])
