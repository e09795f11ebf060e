"""Features of a frozen network, computed once and kept on disk in half precision.

The folder of a cache is named by a hash of weights, transform and files, so a change of any of them makes a
new one. Interrupted work continues with the first block that is missing.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from rootpool.files import remove_parts, write_atomically
from rootpool.models.folding import fold_norms
from rootpool.models.stages import Stages
from rootpool.progress import Display
from rootpool.train.keys import stable_key

from ..data import decode_image
from ..sampling import derive_seed
from .cache import ABOUT, FeatureCache, block_file, open_block, open_cache, save_block
from .fingerprint import fingerprint

__all__ = ["Views", "cache_features"]

log = logging.getLogger(__name__)

Shapes = Mapping[str, Sequence[int]]

_GENERATOR = threading.Lock()  # torch has one, and several threads transform images


@dataclass(frozen=True)
class Views:
    """Several views of an image, one per transform; ``(views, 3, H, W)``."""

    transforms: tuple[Callable[[Image.Image], Tensor], ...]

    def __call__(self, image: Image.Image) -> Tensor:
        return torch.stack([transform(image) for transform in self.transforms])


def cache_features(
    backbone: nn.Module,
    files: Sequence[str | os.PathLike[str]],
    transform: Callable[[Image.Image], Tensor],
    directory: str | os.PathLike[str],
    *,
    batch_size: int = 8,
    block_size: int = 256,
    progress: bool = True,
    title: str = "features",
) -> FeatureCache:
    """The features of images: read from ``directory`` where they are, computed where they are not.

    Args:
        backbone: maps images to a dictionary of feature maps, as :class:`rootpool.models.stages.Stages` does.
            It is put into evaluation mode and runs where its parameters are. On a CPU each core takes
            batches of its own.
        files: of the images.
        transform: maps an image to ``(3, H, W)``, or to ``(views, 3, H, W)`` for several views of each. Its
            ``repr`` must say what it does. What is random in it must come from torch's generator, which is
            seeded by the number of the image: the views are the same each time.
        directory: for any number of caches; may be deleted at any time.
        batch_size: images per forward pass. On CPUs small batches are faster: they stay in the cache.
        block_size: images per file, and so the most that is lost when the work is killed.
        progress: whether to show a progress bar.
        title: of the progress bar.
    """
    if not files:
        raise ValueError("cache_features needs at least one image file, got none")
    paths = [Path(file) for file in files]
    backbone.eval()
    about = {**fingerprint(backbone, transform, paths), "block_size": block_size}
    folder = Path(directory) / stable_key(about)
    remove_parts(folder)
    extraction = Extraction(
        fold_norms(backbone) if isinstance(backbone, Stages) else backbone, paths, transform
    )
    shapes = _shapes(folder, about, extraction)
    blocks = [slice(k, min(k + block_size, len(paths))) for k in range(0, len(paths), block_size)]
    missing = [rows for rows in blocks if not _is_there(folder, rows, shapes)]
    done = len(paths) - sum(rows.stop - rows.start for rows in missing)
    quiet = not (progress and missing)
    with Display(title, len(paths), quiet=quiet) as display, _cores(backbone) as side_by_side:
        for rows in missing:
            arrays = {
                stage: np.empty((rows.stop - rows.start, *shape), np.float16)
                for stage, shape in shapes.items()
            }
            starts = range(rows.start, rows.stop, batch_size)
            pieces = [slice(k, min(k + batch_size, rows.stop)) for k in starts]
            found = side_by_side(lambda piece: extraction.halves(piece, shapes), pieces)
            for piece, features in zip(pieces, found, strict=True):
                for stage, half in features.items():
                    arrays[stage][piece.start - rows.start : piece.stop - rows.start] = half
                done += piece.stop - piece.start
                display.update(done)
            for stage, array in arrays.items():
                save_block(block_file(folder, stage, rows.start), array)
    return open_cache(folder)


def _shapes(folder: Path, about: Mapping[str, Any], extraction: Extraction) -> Shapes:
    """The shapes ``(views, C, H, W)`` of the stages, found by the first image and then noted."""
    try:
        shapes: Shapes = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["stages"]
    except FileNotFoundError:
        pass
    except (ValueError, LookupError, TypeError) as error:
        log.warning("%s is damaged (%s) and is made again", folder / ABOUT, error)
    else:
        return shapes
    first = extraction.features(slice(0, 1))
    shapes = {stage: list(maps.shape[1:]) for stage, maps in first.items()}
    write_atomically(folder / ABOUT, json.dumps({**about, "stages": shapes}, indent=1))
    return shapes


def _is_there(folder: Path, rows: slice, shapes: Shapes) -> bool:
    for stage, shape in shapes.items():
        path = block_file(folder, stage, rows.start)
        if not path.exists():
            return False
        try:
            open_block(path, (rows.stop - rows.start, *shape))
        except ValueError as error:
            log.warning("%s; it is computed again", error)
            return False
    return True


@contextmanager
def _cores(backbone: nn.Module) -> Iterator[Callable[..., Iterable[Any]]]:
    """A ``map`` that keeps all cores busy, with a batch for each of them.

    A batch for each core is several times as fast as all cores on one small batch after another. On an
    accelerator it is the plain ``map``, in the thread and the stream of the caller.
    """
    threads = torch.get_num_threads()
    device = next((p.device.type for p in backbone.parameters()), "cpu")
    if threads == 1 or device != "cpu":
        yield map
        return
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # part of that setting belongs to the whole process


@dataclass(frozen=True)
class Extraction:
    """Files to features, a few at a time; may run in several threads at once."""

    backbone: nn.Module
    paths: list[Path]
    transform: Callable[[Image.Image], Tensor]

    def features(self, piece: slice) -> dict[str, Tensor]:
        """``(images, views, C, H, W)`` of each stage."""
        like = next(self.backbone.parameters(), torch.empty(0))
        images = torch.stack([self._views(k) for k in range(piece.start, piece.stop)])
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

    def _views(self, index: int) -> Tensor:
        image = decode_image(self.paths[index])
        with _GENERATOR, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(index))
            views = self.transform(image)
        return views if views.dim() == 4 else views.unsqueeze(0)

    def halves(self, piece: slice, shapes: Shapes) -> dict[str, np.ndarray[Any, Any]]:
        """The same in half precision, checked."""
        where = f"{self.paths[piece.start]} or one of the next {piece.stop - piece.start - 1}"
        halves = {}
        for stage, features in self.features(piece).items():
            expected = tuple(shapes[stage])
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
            halves[stage] = half.numpy()
        return halves
