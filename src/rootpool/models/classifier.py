"""The form of all networks here: a backbone, a pooling and a classifier."""

from __future__ import annotations

from torch import Tensor, nn

from .spec import ModelSpec

__all__ = ["PooledClassifier"]


class PooledClassifier(nn.Module):
    """``classifier(pool(backbone(images)))``.

    Nothing in the ``state_dict`` depends on the method of the pooling, except for the parameters of
    learned filters. It can be changed on a live network: ``model.pool.method = "svd-pade"``.

    Args:
        backbone: images to one feature map, ``(B, C, H, W)`` or ``(B, C, N)``.
        pool: a feature map to ``(B, out_features)``, such as :class:`rootpool.nn.CovariancePool`.
        classifier: ``(B, out_features)`` to ``(B, num_classes)``.
        spec: how ``create_model`` made the network; a saved file carries it.

    >>> import torch
    >>> from rootpool.nn import CovariancePool
    >>> pool = CovariancePool(8)
    >>> model = PooledClassifier(nn.Conv2d(3, 8, 3), pool, nn.Linear(pool.out_features, 10))
    >>> model(torch.randn(2, 3, 9, 9)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        backbone: nn.Module,
        pool: nn.Module,
        classifier: nn.Module,
        spec: ModelSpec | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = pool
        self.classifier = classifier
        self.spec = spec

    @property
    def num_classes(self) -> int:
        """Outputs of the last linear layer."""
        return [m for m in self.classifier.modules() if isinstance(m, nn.Linear)][-1].out_features

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature map, before pooling and reduction."""
        return self.backbone(images)

    def forward_head(self, features: Tensor) -> Tensor:
        """Logits of a feature map."""
        return self.classifier(self.pool(features).flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))
