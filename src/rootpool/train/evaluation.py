"""Trained networks: load them, measure their errors, predict classes of images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torchmetrics.classification import MulticlassConfusionMatrix

from rootpool.models.files import load_weights_only

from .checkpoints import check_classes, checkpoint_of
from .config import SettingsError
from .data import EMBEDDED, BadImageError, ImageFiles, ImageSplits, decode_image
from .data.files import without_bad_images
from .data.readers import EXTENSIONS, class_folders, is_flat, read_classes
from .datamodule import ImageData
from .module import PooledTraining, rebuild
from .trainer import make_trainer, quiet_lightning, translated_errors

__all__ = [
    "Evaluation",
    "TrainedRun",
    "data_of",
    "evaluate",
    "find_images",
    "load_run",
    "predict",
    "predictions",
]

Guess = list[tuple[str, float]]  # classes and their probabilities, the most probable first


@dataclass(frozen=True)
class TrainedRun:
    """A trained network, with its classes and the options of its data."""

    module: PooledTraining
    data_options: dict[str, Any]
    epoch: int
    checkpoint: Path = Path()

    @property
    def classes(self) -> list[str]:
        """Names of the outputs."""
        names: list[str] = self.module.hparams["classes"]
        return names


def load_run(checkpoint: str | Path) -> TrainedRun:
    """Load a checkpoint of `rootpool train`, with the method that was in use when it was saved.

    Nothing in the file is executed.

    Args:
        checkpoint: the file, or the folder of a run: then its ``best.ckpt``, or ``last.ckpt``.

    Returns:
        The network as ``module.model``, in evaluation mode, and what it was trained with.
    """
    path = checkpoint_of(Path(checkpoint))
    try:
        state = load_weights_only(path)
        options = dict(state["datamodule_hyper_parameters"])
        module = rebuild(state).eval()
        if options["root"] not in EMBEDDED:
            # What it was trained with, which may differ from pretraining.
            backbone: Any = module.model.backbone
            crop = ImageData.from_options(options).crop
            backbone.input_size = (backbone.input_size[0], crop, crop)
        return TrainedRun(module, options, state["epoch"], path)
    except Exception as error:  # whatever a file that is not a checkpoint leads to
        raise SettingsError(
            f"{path} is not a checkpoint of rootpool train ({type(error).__name__}: {error}); for those of "
            "other repositories see rootpool.models.load_checkpoint"
        ) from error


# --------------------------------------------------------------------------------------------------
# Errors


@dataclass(frozen=True)
class Evaluation:
    """The errors of a network on labelled images.

    Args:
        metrics: ``val_error`` and ``val_error5`` in per cent, ``val_loss``, ``samples``.
        confusion: images by true class and predicted class.
        classes: names of both.
    """

    metrics: dict[str, float]
    confusion: list[list[int]]
    classes: list[str]

    @property
    def errors(self) -> dict[str, float]:
        """Top-1 and, of more than five classes, top-5 errors in per cent."""
        top5 = {"top-5 error": self.metrics["val_error5"]} if len(self.classes) > 5 else {}
        return {"top-1 error": self.metrics["val_error"], **top5}

    def by_class(self) -> list[dict[str, Any]]:
        """For each class that has images, the worst first: images, error, what they are mostly taken for."""
        rows = []
        for k, (name, counts) in enumerate(zip(self.classes, self.confusion, strict=True)):
            total = sum(counts)
            wrong = [(count, j) for j, count in enumerate(counts) if j != k and count]
            if total:
                rows.append(
                    {
                        "class": name,
                        "images": total,
                        "error": 100 * (total - counts[k]) / total,
                        "confused_with": self.classes[max(wrong)[1]] if wrong else "",
                    }
                )
        return sorted(rows, key=lambda row: -row["error"])


def evaluate(
    run: TrainedRun,
    root: str | None = None,
    *,
    mirrored: bool = False,
    on_bad_image: str | None = None,
    **trainer_options: Any,
) -> Evaluation:
    """Errors in per cent, the loss and the confusion of classes, each sample counted once.

    Args:
        run: from `load_run`.
        root: a data set, whose validation split counts, or a folder with images in folders of classes,
            all of which count; None for the validation split that the run was trained with.
        mirrored: predict from the mean of the logits of each image and of its mirror image.
        on_bad_image: ``raise`` or ``skip``; None for what the run was trained with.
        trainer_options: of Lightning's Trainer, such as ``devices``.

    Returns:
        An ``Evaluation``: its ``metrics``, its ``errors``, and ``by_class()`` for a table.
    """
    data = data_of(run, root, on_bad_image)
    counter = _Confusion(len(run.classes))
    trainer = make_trainer(
        logger=False, enable_checkpointing=False, callbacks=[counter], **trainer_options
    )
    module = run.module
    before, module.mirrored = module.mirrored, module.mirrored or mirrored
    try:
        with quiet_lightning(), translated_errors():
            (metrics,) = trainer.validate(module, datamodule=data, verbose=False)
    finally:
        module.mirrored = before
    confusion: list[list[int]] = counter.metric.compute().tolist()
    return Evaluation({**metrics, "samples": len(data.splits.val)}, confusion, run.classes)


class _Confusion(pl.Callback):
    """Counts images by true class and predicted class."""

    def __init__(self, classes: int) -> None:
        self.metric = MulticlassConfusionMatrix(classes)

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, *args: Any
    ) -> None:
        self.metric.to(pl_module.device).update(pl_module.predicted, batch[1])


def data_of(run: TrainedRun, root: str | None = None, on_bad_image: str | None = None) -> ImageData:
    """The data that a run is measured on; see `evaluate`."""
    options = dict(run.data_options)
    options["on_bad_image"] = on_bad_image or options["on_bad_image"]
    own = options["root"]
    if root is None or (own not in EMBEDDED and Path(root).resolve() == Path(own).resolve()):
        return ImageData.from_options(options)
    data = ImageData.from_options({**options, "root": root, "hold_out": False})
    folder = Path(root).expanduser()
    if is_flat(folder):
        _, transform = data.transforms()
        samples = _labelled(folder, run.classes)
        if options["on_bad_image"] == "skip":
            samples, _ = without_bad_images(samples, [], run.classes)
        images = ImageFiles(samples, transform)
        data.splits = ImageSplits(images, images, tuple(run.classes), folder.name)
    else:
        check_classes(run.checkpoint, run.classes, data.splits.classes)
    return data


def _labelled(folder: Path, classes: Sequence[str]) -> list[tuple[str, int]]:
    """All images in class folders, some of the classes of a run, with its labels."""
    found = class_folders(folder)
    unknown = [name for name in found if name not in classes]
    if unknown:
        raise SettingsError(
            f"{folder} has folders that are not classes of the run: {', '.join(unknown[:5])}; it knows "
            f"{', '.join(classes[:5])}{', ...' if len(classes) > 5 else ''}"
        )
    return [(path, classes.index(found[label])) for path, label in read_classes(folder, found)]


# --------------------------------------------------------------------------------------------------
# Predictions


def find_images(paths: Iterable[str | Path]) -> list[Path]:
    """Files as they are, and all images in folders and the folders inside them, in order."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise SettingsError(f"there is no image or folder {path}")
        files = (
            Path(at, name) for at, _, names in os.walk(path, followlinks=True) for name in names
        )
        inside = sorted(file for file in files if file.suffix.lower() in EXTENSIONS)
        if path.is_dir() and not inside:
            raise SettingsError(f"there are no images in {path}; known are {', '.join(EXTENSIONS)}")
        found += inside if path.is_dir() else [path]
    return found


def predict(run: TrainedRun, images: Iterable[str | Path], count: int = 5) -> list[Guess]:
    """For each image the most probable classes with their probabilities; a bad image raises."""
    return [guess for _, guess in predictions(run, images, count)]  # type: ignore[misc]


def predictions(
    run: TrainedRun,
    images: Iterable[str | Path],
    count: int = 5,
    *,
    batch_size: int = 32,
    on_bad_image: str = "raise",
) -> Iterator[tuple[str | Path, Guess | BadImageError]]:
    """The same one by one, computed in batches.

    Args:
        run: from `load_run`.
        images: their files.
        count: of classes for each.
        batch_size: images at a time.
        on_bad_image: ``raise``, or ``skip`` to give the error instead of the classes.
    """
    if run.data_options["root"] in EMBEDDED:
        raise SettingsError(
            f"this network was trained on {run.data_options['root']}, not on image files; "
            "train one on a folder of images: rootpool train photos --data PATH"
        )
    _, transform = ImageData.from_options(run.data_options).transforms()
    count = min(count, len(run.classes))
    files = list(images)
    for start in range(0, len(files), batch_size):
        batch = files[start : start + batch_size]
        inputs, bad = [], {}
        for file in batch:
            try:
                inputs.append(transform(decode_image(file)))
            except BadImageError as error:
                if on_bad_image == "raise":
                    raise
                bad[file] = error
        guesses = iter(_guesses(run, torch.stack(inputs), count) if inputs else [])
        for file in batch:
            yield file, bad[file] if file in bad else next(guesses)


@torch.inference_mode()
def _guesses(run: TrainedRun, images: torch.Tensor, count: int) -> list[Guess]:
    top = run.module(images.to(run.module.device)).softmax(-1).topk(count)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return [[(run.classes[k], p) for k, p in zip(*row, strict=True)] for row in pairs]
