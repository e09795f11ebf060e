"""Trained networks: load them, measure their errors, predict classes of images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rootpool.models.files import load_weights_only
from rootpool.recipes import SettingsError

from .data import EMBEDDED, ImageSplits, decode_image
from .datamodule import ImageData
from .module import PooledTraining, rebuild
from .quiet import quiet_lightning
from .trainer import make_trainer

__all__ = ["TrainedRun", "evaluate", "load_run", "predict"]


@dataclass(frozen=True)
class TrainedRun:
    """A trained network, with its classes and the options of its data."""

    module: PooledTraining
    data_options: dict[str, Any]
    epoch: int

    @property
    def classes(self) -> list[str]:
        """Names of the outputs."""
        names: list[str] = self.module.hparams["classes"]
        return names


def load_run(checkpoint: str | Path) -> TrainedRun:
    """Load a checkpoint of `rootpool train`, with the method that was in use when it was saved.

    Nothing in the file is executed.
    """
    path = Path(checkpoint)
    if not path.is_file():
        raise SettingsError(
            f"there is no checkpoint {path}; rootpool train writes last.ckpt and best.ckpt"
        )
    try:
        state = load_weights_only(path)
        options = dict(state["datamodule_hyper_parameters"])
        return TrainedRun(rebuild(state).eval(), options, state["epoch"])
    except Exception as error:  # whatever a file that is not a checkpoint leads to
        raise SettingsError(
            f"{path} is not a checkpoint of rootpool train ({type(error).__name__}: {error}); for those of "
            "other repositories see rootpool.models.load_checkpoint"
        ) from error


def evaluate(run: TrainedRun, root: str | None = None, **trainer_options: Any) -> dict[str, float]:
    """Errors in per cent and the loss on the validation split, each sample counted once.

    Args:
        run: from `load_run`.
        root: the data; None for where the run was trained.
        trainer_options: of Lightning's Trainer, such as ``devices``.
    """
    options = run.data_options | ({} if root is None else {"root": root})
    data = ImageData(**options)
    _check_classes(run.classes, data.splits)
    trainer = make_trainer(logger=False, enable_checkpointing=False, **trainer_options)
    with quiet_lightning():
        (metrics,) = trainer.validate(run.module, datamodule=data, verbose=False)
    return {**metrics, "samples": len(data.splits.val)}


def _check_classes(trained: list[str], splits: ImageSplits) -> None:
    if len(trained) != len(splits.classes):
        raise SettingsError(
            f"the checkpoint knows {len(trained)} classes, the data has {len(splits.classes)}; "
            "evaluate on the data set that it was trained for, or fine-tune with rootpool train --weights"
        )
    differing = [(a, b) for a, b in zip(trained, splits.classes, strict=True) if a != b]
    if differing:
        raise SettingsError(
            f"{len(differing)} classes of the data have other names than those trained, the first "
            f"{differing[0][1]!r} instead of {differing[0][0]!r}; labels would not mean the same"
        )


@torch.inference_mode()
def predict(
    run: TrainedRun, images: Iterable[str | Path], count: int = 5
) -> list[list[tuple[str, float]]]:
    """For each image the most probable classes with their probabilities."""
    if run.data_options["root"] in EMBEDDED:
        raise SettingsError(
            f"this network was trained on {run.data_options['root']}, not on image files; "
            "train one on a folder of images: rootpool train --recipe NAME --data PATH"
        )
    _, transform = ImageData(**run.data_options).transforms()
    results = []
    for image in images:
        logits = run.module(transform(decode_image(image)).unsqueeze(0))[0]
        top = logits.softmax(-1).topk(min(count, len(run.classes)))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        results.append([(run.classes[index], probability) for index, probability in pairs])
    return results
