"""Feature maps of many images on disk, read batch by batch.

A cache is one ``.npy`` file for each stage: float16 ``(images, views, C, H, W)``. It is written image after
image, so the size of a file says how many of its images are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ..sampling import derive_seed

__all__ = ["CachedFeatures", "FeatureCache"]

Array = NDArray[np.float16]


class FeatureCache:
    """The feature maps of many images, as :func:`cache_features` writes them.

    Args:
        files: by stage.

    Attributes:
        arrays: by stage, ``(images, views, C, H, W)``; on disk, read where they are indexed.
        views: how many there are of each image.
        channels: of each stage.

    Raises:
        ValueError: a file is missing, damaged or not complete; ``cache_features`` completes it.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)
        self.arrays = {stage: _open(path) for stage, path in files.items()}
        self.views: int = next(iter(self.arrays.values())).shape[1]
        self.channels = {stage: array.shape[2] for stage, array in self.arrays.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureCache, (self.files,)  # another process opens the files itself

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def select(self, stages: Iterable[str]) -> FeatureCache:
        """The same images with some of the stages."""
        return FeatureCache({stage: self.files[stage] for stage in stages})

    def batch(self, images: Tensor, views: Tensor | int | slice = 0) -> dict[str, Tensor]:
        """The maps of some images in float32, ``(B, C, H, W)``: of one view for all, or one for each.

        With ``slice(None)``, of all views: ``(B, views, C, H, W)``.
        """
        chosen = views.numpy() if isinstance(views, Tensor) else views
        return {
            stage: torch.from_numpy(array[images.numpy(), chosen]).float()
            for stage, array in self.arrays.items()
        }


def _open(path: Path) -> Array:
    """A complete file of features, memory-mapped and read-only."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if array.ndim != 5 or array.dtype != np.float16:
        raise ValueError(f"{path} has {array.shape} {array.dtype}, not features in float16")
    return np.asarray(array)  # without the overhead that a memmap has for every view


class CachedFeatures(Dataset[Any]):
    """Cached features with labels, in batches that are read at once; instead of images, for a loader.

    A batch is a dictionary of maps ``(B, views, C, H, W)``, and labels.

    Args:
        cache: the features.
        labels: of the images that are used.
        images: which of those in the cache they are; None for all.
        seed: of the views, for training: indices are pairs of an epoch and an image, and one view of each
            is drawn by both. None for all views, and indices that are images.
    """

    def __init__(
        self,
        cache: FeatureCache,
        labels: Tensor,
        images: Tensor | None = None,
        seed: int | None = None,
    ) -> None:
        self.cache = cache
        self.labels = labels
        self.images = torch.arange(len(cache)) if images is None else images
        self.seed = seed
        if len(self.images) != len(labels):
            raise ValueError(f"expected labels of {len(self.images)} images, got {len(labels)}")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, keys: Sequence[Any]) -> tuple[dict[str, Tensor], Tensor]:
        if self.seed is None:
            chosen = torch.tensor(keys)
            return self.cache.batch(self.images[chosen], slice(None)), self.labels[chosen]
        chosen = torch.tensor([index for _, index in keys])
        views = torch.tensor([derive_seed(self.seed, *key) % self.cache.views for key in keys])
        maps = self.cache.batch(self.images[chosen], views)
        return {stage: map.unsqueeze(1) for stage, map in maps.items()}, self.labels[chosen]
