"""Covariance pooling as the head of a timm model, by hand: what rootpool.models does for you.

    python examples/timm_head.py

Is a picture made of one texture, or of two side by side? The average of a feature map cannot tell: two
halves average to something in between. Their covariance can: it has a large eigenvalue along the difference.
The backbone keeps random weights, so that this runs without a download, and only the heads are trained.
"""

import math

import timm
import torch
from torch import nn
from torch.nn import functional as F

from rootpool.nn import AveragePool, CovariancePool, Length

TEXTURES, SIZE = 2, 64


class Head(nn.Module):
    """A pooling and a linear layer, for the feature map of a backbone."""

    def __init__(self, pool, classes):
        super().__init__()
        self.pool, self.classifier = pool, nn.Linear(pool.out_features, classes)

    def forward(self, features):
        return self.classifier(self.pool(features))


def texture(kind):
    """White noise blurred along one of two directions: ``(count, 3, SIZE, SIZE)``."""
    angle = kind[:, None, None] * math.pi / TEXTURES
    frequency = torch.fft.fftfreq(SIZE)
    along = angle.cos() * frequency + angle.sin() * frequency[:, None]
    noise = torch.fft.fft2(torch.randn(len(kind), 3, SIZE, SIZE))
    noise = torch.fft.ifft2(noise * torch.exp(-((along / 0.1) ** 2)).unsqueeze(1)).real
    return noise / noise.std((2, 3), keepdim=True)


def pictures(count):
    """Half of them with one texture left and right (label 0), half with two (label 1)."""
    labels = torch.arange(count) % 2
    left = torch.randint(TEXTURES, (count,))
    right = (left + labels * torch.randint(1, TEXTURES, (count,))) % TEXTURES
    halves = texture(left)[..., : SIZE // 2], texture(right)[..., SIZE // 2 :]
    return torch.cat(halves, -1), labels


def fit(head, features, labels, steps=80):
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = F.cross_entropy(head(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
backbone = timm.create_model("resnet18", features_only=True, out_indices=[2]).eval()
(channels,) = backbone.feature_info.channels()
train, test = pictures(192), pictures(192)
with torch.no_grad():
    (seen,), (unseen,) = backbone(train[0]), backbone(test[0])
print(f"feature map: {channels} channels, {seen.shape[2]} x {seen.shape[3]} positions")

for name, pool in {
    "average": AveragePool(channels, scaling=Length(4)),
    "root of the covariance": CovariancePool(channels, reduction=16, scaling=Length(4)),
}.items():
    head = Head(pool, classes=2)
    fit(head, seen, train[1])
    with torch.no_grad():
        right = (head.eval()(unseen).argmax(1) == test[1]).float().mean().item()
    print(f"{name:22} {pool.out_features:3} features, {right:.0%} of unseen pictures right")
