"""Feature maps in the place of images: what frozen stages make of them, read from a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data import LabelledImages
from .cache import FeatureCache

__all__ = ["KeptFeatures"]


class KeptFeatures(LabelledImages):
    """The maps of one stage; of the views of an image, one that torch's generator draws.

    Args:
        cache: with one stage.
        labels: of the images, in the order of the cache.
    """

    def __init__(self, cache: FeatureCache, labels: Tensor) -> None:
        super().__init__(labels)
        self.cache = cache

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        view = int(torch.randint(self.cache.views, ())) if self.cache.views > 1 else 0
        (maps,) = self.cache.batch(torch.tensor([index]), view).values()
        return maps[0], int(self.labels[index])
