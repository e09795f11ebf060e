"""Features of a frozen network, computed once and kept on disk in half precision.

The file of a stage is named by a hash of everything that its features depend on: the layers up to there,
transforms and images. A change of any of them makes a new file, and networks that share their first layers
share the files. Interrupted work continues where it was.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from rootpool.files import named_errors
from rootpool.models.stages import AVERAGE, LAST, Stages, fold_norms
from rootpool.progress import Display
from rootpool.train.keys import stable_key

from ..data import Transform, decode_image
from ..sampling import derive_seed
from .cache import Array, FeatureCache

__all__ = ["cache_features"]

_GENERATOR = threading.Lock()  # torch has one, and several threads transform images


def cache_features(
    backbone: Stages,
    files: Sequence[str | os.PathLike[str]],
    transform: Transform | Sequence[Transform],
    directory: str | os.PathLike[str],
    *,
    batch_size: int = 8,
    progress: bool = True,
    title: str = "features",
) -> FeatureCache:
    """The features of images: read from ``directory`` where they are, computed where they are not.

    Args:
        backbone: which stages of which network. It is put into evaluation mode and runs where its parameters
            are. On a CPU each core takes batches of its own.
        files: of the images. They count by their names below their common folder, their sizes and their
            times of change; so a data set that is moved as a whole keeps its cache.
        transform: maps an image to ``(3, H, W)``; several of them for several views of each image. Its
            ``repr`` must say what it does. What is random in it must come from torch's generator, which is
            seeded by the number of the image: the views are the same each time.
        directory: for any number of caches; may be deleted at any time.
        batch_size: images per forward pass. On CPUs small batches are faster: they stay in the cache.
        progress: whether to show a progress bar.
        title: of the progress bar.
    """
    if not files:
        raise ValueError("cache_features needs at least one image file, got none")
    paths = [Path(file) for file in files]
    views = [transform] if callable(transform) else list(transform)
    backbone.eval()
    shared = [_described(views), _hash_files(paths)]
    cached = {
        stage: Path(directory)
        / f"{stage}-{stable_key([*shared, fingerprint(backbone, stage)])}.npy"
        for stage in backbone.stages
    }
    try:
        return FeatureCache(cached)
    except ValueError:  # not there, or not complete
        display = Display(title, len(paths), quiet=not progress)
    extraction = Extraction(fold_norms(backbone), paths, views)
    arrays = {
        stage: GrowingArray(path, (len(paths), *extraction.shapes[stage]))
        for stage, path in cached.items()
    }
    start = min(array.done() for array in arrays.values())
    pieces = [
        slice(k, min(k + batch_size, len(paths))) for k in range(start, len(paths), batch_size)
    ]
    with display, _cores(backbone) as side_by_side:
        for piece, features in zip(pieces, side_by_side(extraction.features, pieces), strict=True):
            for stage, array in arrays.items():
                array.write(piece.start, features[stage])
            display.update(piece.stop)
    return FeatureCache(cached)


class GrowingArray:
    """A ``.npy`` file that is written image after image; its size says how many are done."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path = path
        self.row = np.dtype(np.float16).itemsize * math.prod(shape[1:])
        header = io.BytesIO()
        about = {"descr": "<f2", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, about)
        self.header = header.getvalue()

    def done(self) -> int:
        """How many images are in the file."""
        size = self.path.stat().st_size if self.path.exists() else 0
        return max(size - len(self.header), 0) // self.row

    def write(self, start: int, images: Array) -> None:
        """Write some images; the error of a full disk names the file and the space."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()  # not emptied: another process may have written the same, and more
        with named_errors(self.path), open(self.path, "r+b") as file:
            file.write(self.header)
            file.seek(len(self.header) + start * self.row)
            file.write(images.tobytes())


# --------------------------------------------------------------------------------------------------


class Extraction:
    """Files to features, a few at a time; may run in several threads at once."""

    def __init__(self, backbone: Stages, paths: list[Path], views: Sequence[Transform]) -> None:
        self.backbone = backbone
        self.paths = paths
        self.views = views
        self.shapes: dict[str, tuple[int, ...]] = {}
        """``(views, C, H, W)`` of each stage, found by the first image."""
        first = self.features(slice(0, 1))
        self.shapes = {stage: features.shape[1:] for stage, features in first.items()}

    def features(self, piece: slice) -> dict[str, Array]:
        """``(images, views, C, H, W)`` of each stage in half precision, checked."""
        like = next(self.backbone.parameters(), torch.empty(0))
        images = torch.stack([self._views(k) for k in range(piece.start, piece.stop)])
        flat = images.flatten(0, 1).to(like.device, like.dtype)
        with torch.inference_mode():
            maps = self.backbone(flat.contiguous(memory_format=torch.channels_last))
        more = piece.stop - piece.start - 1
        where = str(self.paths[piece.start]) + (f" or one of the next {more}" if more else "")
        return {
            stage: self._half(stage, features.unflatten(0, images.shape[:2]), where)
            for stage, features in maps.items()
        }

    def _views(self, index: int) -> Tensor:
        image = decode_image(self.paths[index])
        with _GENERATOR, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(index))
            return torch.stack([transform(image) for transform in self.views])

    def _half(self, stage: str, features: Tensor, where: str) -> Array:
        shape = tuple(features.shape[1:])
        expected = self.shapes.get(stage, shape)
        if shape != expected:
            raise ValueError(
                f"stage {stage!r} of {where} has features {shape}, the first image has "
                f"{expected}; let the transform crop to one size"
            )
        half = features.half()
        if not half.isfinite().all():
            raise ValueError(
                f"features of stage {stage!r} of {where} do not fit into half precision, "
                f"largest {features.abs().max():g}; choose a stage after a normalisation"
            )
        return half.contiguous().cpu().numpy()


@contextmanager
def _cores(backbone: Stages) -> Iterator[Callable[..., Iterable[Any]]]:
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


# --------------------------------------------------------------------------------------------------
# What features depend on


def fingerprint(stages: Stages, stage: str) -> str:
    """A hash of the layers that a stage depends on, of their weights and of how they are connected.

    Other stages do not change it.
    """
    network: Any = stages.network
    graph = fx.Graph()
    maps: Any = graph.graph_copy(network.graph, {})
    graph.output(maps[LAST if stage == AVERAGE else stage])
    fx.GraphModule(network, graph).graph.eliminate_dead_code()
    needed = fx.GraphModule(network, graph)  # with the layers of this graph only
    digest = hashlib.sha256(f"{stages.layout} {stage == AVERAGE} {needed}".encode())
    for tensor in needed.state_dict().values():
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _described(views: Sequence[Transform]) -> str:
    text = repr(views)
    if re.search(r"\bat 0x[0-9a-f]+", text):
        raise ValueError(
            f"the transform {text} does not say what it does, only where it is; use torchvision's "
            "transforms, or a dataclass, whose repr holds all settings"
        )
    return text


def _hash_files(files: Sequence[Path]) -> str:
    common = os.path.commonpath([file.absolute().parent for file in files])
    digest = hashlib.sha256()
    for file in files:
        state = file.stat()
        name = os.path.relpath(file.absolute(), common)
        digest.update(f"{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
