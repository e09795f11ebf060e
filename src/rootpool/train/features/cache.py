"""Feature maps of many images on disk, read as they are needed.

A cache is a folder with one file for each stage and block of images:

    about.json             what the features are of, and their shapes
    <stage>.<first>.npy    float16 ``(images, views, C, H, W)``, from the image with that number on

Every file appears only when it is whole, so a file that is there is finished.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rootpool.files import write_atomically

__all__ = ["FeatureCache", "open_cache"]

ABOUT = "about.json"

Array = NDArray[np.float16]


@dataclass(frozen=True)
class FeatureCache:
    """The feature maps of many images.

    Args:
        blocks: arrays ``(images, views, C, H, W)`` by stage. The images of the second array follow those of
            the first, and so on; all arrays but the last have equally many.
        folder: where the arrays are; None for arrays in memory. To another process, a cache with a folder is
            sent as the name of the folder.
    """

    blocks: Mapping[str, Sequence[Array]]
    folder: Path | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder is None:
            return FeatureCache, (dict(self.blocks),)
        return open_cache, (self.folder, list(self.blocks))

    def __len__(self) -> int:
        return sum(len(block) for block in self._first_stage)

    @property
    def _first_stage(self) -> Sequence[Array]:
        return next(iter(self.blocks.values()))

    @property
    def views(self) -> int:
        """How many views of each image there are."""
        return self._first_stage[0].shape[1]

    @property
    def channels(self) -> dict[str, int]:
        """Channels of each stage."""
        return {stage: blocks[0].shape[2] for stage, blocks in self.blocks.items()}

    @property
    def key(self) -> str:
        """A hash of what the features are of: the name of the folder; for arrays in memory, their content."""
        if self.folder is not None:
            return self.folder.name
        digest = hashlib.sha256()
        for stage, blocks in self.blocks.items():
            digest.update(f"{stage} {[block.shape for block in blocks]}".encode())
            for block in blocks:
                digest.update(block.tobytes())
        return digest.hexdigest()[:16]

    def select(self, stages: Iterable[str]) -> FeatureCache:
        """The same images with some of the stages."""
        try:
            return FeatureCache({stage: self.blocks[stage] for stage in stages}, self.folder)
        except KeyError as error:
            raise KeyError(
                f"the cache has no stage {error}; it has {', '.join(self.blocks)}"
            ) from None

    def batch(self, images: Tensor, views: Tensor | int = 0) -> dict[str, Tensor]:
        """The maps ``(B, C, H, W)`` of some images in float32, one view of each."""
        which, rows = np.divmod(images.numpy(), len(self._first_stage[0]))
        columns = np.broadcast_to(
            views.numpy() if isinstance(views, Tensor) else views, which.shape
        )
        return {
            stage: torch.from_numpy(
                np.stack([blocks[k][i, j] for k, i, j in zip(which, rows, columns, strict=True)])
            ).float()
            for stage, blocks in self.blocks.items()
        }


def open_cache(folder: str | Path, stages: Iterable[str] | None = None) -> FeatureCache:
    """A cache that is complete, with all of its stages or some.

    Raises:
        ValueError: a file is missing or damaged; :func:`rootpool.train.features.cache_features` computes it
            again.
    """
    folder = Path(folder).absolute()
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    starts = range(0, about["images"], about["block_size"])
    shapes = about["stages"]
    return FeatureCache(
        {
            stage: tuple(
                open_block(
                    block_file(folder, stage, start),
                    (min(about["block_size"], about["images"] - start), *shapes[stage]),
                )
                for start in starts
            )
            for stage in (shapes if stages is None else stages)
        },
        folder,
    )


def block_file(folder: Path, stage: str, start: int) -> Path:
    """The file of a block, by the number of its first image."""
    return folder / f"{stage}.{start:07d}.npy"


def open_block(path: Path, shape: Sequence[int]) -> Array:
    """A block, memory-mapped and read-only.

    Raises:
        ValueError: the file is missing, or is not a whole array of this shape.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if array.shape != tuple(shape) or array.dtype != np.float16:
        raise ValueError(f"{path} has {array.shape} {array.dtype}, not {tuple(shape)} float16")
    return np.asarray(array)  # without the overhead that a memmap has for every view


def save_block(path: Path, array: Array) -> None:
    """Write a block; the error of a full disk names the file and the space."""
    content = io.BytesIO()  # given a file, numpy does not say that the disk is full
    np.save(content, array)
    write_atomically(path, content.getvalue())
