"""Features of a frozen network, computed once and kept on disk in half precision.

A cache is a directory named by a hash of weights, transform and files, so that a change of any of them
makes a new one; what is in it is checked by checksums (:mod:`rootpool.heads.store`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from PIL import Image
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from rootpool.linalg.parallel import run_pieces
from rootpool.models.folding import fold_norms
from rootpool.models.stages import Stages
from rootpool.train.data import decode_image

from .fingerprint import fingerprint
from .store import BlockStore

__all__ = ["FeatureCache", "Views", "cache_features"]

BATCHES_PER_BLOCK = 16  # a few seconds of work on a CPU


@dataclass(frozen=True)
class Views:
    """Several views of an image, one a transform; ``(views, 3, H, W)``."""

    transforms: tuple[Callable[[Image.Image], Tensor], ...]

    def __call__(self, image: Image.Image) -> Tensor:
        return torch.stack([transform(image) for transform in self.transforms])


@dataclass(frozen=True)
class FeatureCache:
    """The feature maps of many images, ``maps[stage]`` of shape ``(images, views, C, H, W)``.

    To another process it travels as the names of its files.
    """

    maps: Mapping[str, np.memmap[Any, Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, ({stage: str(array.filename) for stage, array in self.maps.items()},)

    def __len__(self) -> int:
        return len(next(iter(self.maps.values())))

    @property
    def views(self) -> int:
        """How many views of each image there are."""
        return int(next(iter(self.maps.values())).shape[1])

    @property
    def channels(self) -> dict[str, int]:
        """Channels of each stage."""
        return {stage: features.shape[2] for stage, features in self.maps.items()}

    def select(self, stages: Iterable[str]) -> FeatureCache:
        """The same images with some of the stages."""
        try:
            return FeatureCache({stage: self.maps[stage] for stage in stages})
        except KeyError as error:
            raise KeyError(
                f"the cache has no stage {error}; it has {', '.join(self.maps)}"
            ) from None

    def batch(self, images: Tensor, views: Tensor | int = 0) -> dict[str, Tensor]:
        """The maps ``(B, C, H, W)`` of some images in float32, one view of each."""
        rows = images.numpy()
        columns = views.numpy() if isinstance(views, Tensor) else views
        return {
            stage: torch.from_numpy(features[rows, columns]).float()
            for stage, features in self.maps.items()
        }


def _reopen(files: Mapping[str, str]) -> FeatureCache:
    return FeatureCache({stage: open_memmap(file, "r") for stage, file in files.items()})


def cache_features(
    backbone: nn.Module,
    files: Sequence[str | os.PathLike[str]],
    transform: Callable[[Image.Image], Tensor],
    directory: str | os.PathLike[str],
    *,
    batch_size: int = 8,
    progress: bool = True,
    title: str = "features",
) -> FeatureCache:
    """The features of images: read from ``directory`` where they are, computed where they are not.

    Args:
        backbone: images to a dictionary of feature maps, as :class:`rootpool.models.stages.Stages`;
            it is put into evaluation mode and runs where its parameters are. On a CPU each thread
            takes batches of its own.
        files: of the images.
        transform: an image to ``(3, H, W)``, or to ``(views, 3, H, W)`` for several views of each. It
            must do the same each time, and its ``repr`` must say what it does.
        directory: for any number of caches; may be deleted at any time.
        batch_size: images a forward pass. On CPUs small batches are faster: they stay in the cache.
        progress: whether to show a progress bar.
        title: of the progress bar.
    """
    if not files:
        raise ValueError("cache_features needs at least one image file, got none")
    paths = [Path(file) for file in files]
    backbone.eval()
    faster = fold_norms(backbone) if isinstance(backbone, Stages) else backbone
    extract = _Extraction(faster, paths, transform)
    key, description = fingerprint(backbone, transform, paths)
    store = BlockStore.open(Path(directory) / key, description, extract.shapes)
    missing = store.missing(batch_size * BATCHES_PER_BLOCK)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        disable=not (progress and missing),
    )
    with bar:
        done = len(paths) - sum(rows.stop - rows.start for rows in missing)
        task = bar.add_task(title, total=len(paths), completed=done)
        for rows in missing:
            cuts = [*range(rows.start, rows.stop, batch_size), rows.stop]
            run_pieces(lambda piece: extract.into(store.arrays, piece), cuts)
            store.finish(rows)
            bar.advance(task, rows.stop - rows.start)
    return FeatureCache(store.read_only())


@dataclass(frozen=True)
class _Extraction:
    """Files to features, a few at a time; may run in several threads at once."""

    backbone: nn.Module
    paths: list[Path]
    transform: Callable[[Image.Image], Tensor]

    def shapes(self) -> dict[str, list[int]]:
        """Of the features of all images, by those of the first."""
        first = self.features(slice(0, 1))
        return {stage: [len(self.paths), *maps.shape[1:]] for stage, maps in first.items()}

    def features(self, piece: slice) -> dict[str, Tensor]:
        """``(images, views, C, H, W)`` of each stage."""
        like = next(self.backbone.parameters(), torch.empty(0))
        images = torch.stack([self._views(path) for path in self.paths[piece]])
        flat = images.flatten(0, 1).to(like.device, like.dtype)
        with torch.inference_mode():
            maps = self.backbone(flat.contiguous(memory_format=torch.channels_last))
        if not isinstance(maps, Mapping):
            raise TypeError(
                f"the backbone must return a dictionary of feature maps, got {type(maps).__name__}; "
                "wrap it in rootpool.models.stages.Stages"
            )
        return {
            stage: features.unflatten(0, images.shape[:2]).contiguous().cpu()
            for stage, features in maps.items()
        }

    def _views(self, path: Path) -> Tensor:
        views = self.transform(decode_image(path))
        return views if views.dim() == 4 else views.unsqueeze(0)

    def into(self, arrays: Mapping[str, np.memmap[Any, Any]], piece: slice) -> None:
        """Write the features of some images to their rows."""
        where = f"{self.paths[piece.start]} or one of the next {piece.stop - piece.start - 1}"
        for stage, features in self.features(piece).items():
            expected = arrays[stage].shape[1:]
            if features.shape[1:] != expected:
                raise ValueError(
                    f"stage {stage!r} of {where} has features {tuple(features.shape[1:])}, those of "
                    f"the first image are {expected}; let the transform crop to one size"
                )
            half = features.half()
            if not half.isfinite().all():
                raise ValueError(
                    f"features of stage {stage!r} of {where} do not fit into half precision, "
                    f"largest {features.abs().max():g}; choose a stage after a normalisation"
                )
            arrays[stage][piece] = half.numpy()
