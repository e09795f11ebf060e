"""The LightningDataModule: the same batches on one process and on many."""

from __future__ import annotations

import functools
from typing import Any, Literal

import lightning.pytorch as pl
from lightning.pytorch.accelerators import CUDAAccelerator
from torch import Tensor
from torch.utils.data import DataLoader

from rootpool.recipes import SettingsError
from rootpool.unknown import unknown_name

from .data import (
    EMBEDDED,
    PHOTO_PATCHES,
    TRANSFORMS,
    ImageSplits,
    Transform,
    open_splits,
)
from .sampling import EpochBatches, ResumableLoader, ShardedIndices

__all__ = ["ImageData"]


class ImageData(pl.LightningDataModule):
    """Images in a folder, or an embedded data set.

    Args:
        root: a folder that `open_splits` recognises, or a name in ``EMBEDDED``, such as ``photo-patches``.
        transform: a name in ``TRANSFORMS``; not used for embedded data, which have their own.
        resize: pixels of the shorter side, or height and width, before the crop; None for the
            transform's own.
        crop: pixels that the network sees; None for the transform's own.
        batch_size: samples of a training step, over *all* processes.
        workers: loading processes for each training process.
        on_bad_image: ``raise`` at the first unreadable image, or ``skip`` those.
        seed: of order and augmentation.
    """

    def __init__(
        self,
        root: str = PHOTO_PATCHES,
        transform: str = "imagenet",
        resize: int | tuple[int, int] | None = None,
        crop: int | None = None,
        batch_size: int = 256,
        workers: int = 4,
        on_bad_image: Literal["raise", "skip"] = "raise",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if transform not in TRANSFORMS:
            raise SettingsError(unknown_name("data.transform", transform, TRANSFORMS))
        self.save_hyperparameters()

    @functools.cached_property
    def splits(self) -> ImageSplits:
        """The datasets and class names; read once."""
        options = self.hparams
        if options["root"] in EMBEDDED:
            return EMBEDDED[options["root"]]()
        train, val = self.transforms()
        return open_splits(
            options["root"],
            train_transform=train,
            val_transform=val,
            on_bad_image=options["on_bad_image"],
        )

    def transforms(self) -> tuple[Transform, Transform]:
        """The transforms for training and for validation."""
        sizes = {k: self.hparams[k] for k in ("resize", "crop") if self.hparams[k] is not None}
        return TRANSFORMS[self.hparams["transform"]](**sizes)

    def _options(self) -> dict[str, Any]:
        workers = self.hparams["workers"]
        on_gpu = self.trainer is not None and isinstance(self.trainer.accelerator, CUDAAccelerator)
        return {"num_workers": workers, "persistent_workers": workers > 0, "pin_memory": on_gpu}

    def _place(self) -> dict[str, int]:
        if self.trainer is None:
            return {"rank": 0, "world_size": 1}
        return {"rank": self.trainer.global_rank, "world_size": self.trainer.world_size}

    def train_dataloader(self) -> ResumableLoader:
        dataset = self.splits.train
        batches = EpochBatches(
            len(dataset), self.hparams["batch_size"], self.hparams["seed"], **self._place()
        )
        return ResumableLoader(dataset, batches, **self._options())

    def val_dataloader(self) -> DataLoader[tuple[Tensor, int]]:
        dataset, place = self.splits.val, self._place()
        return DataLoader(
            dataset,
            batch_size=max(self.hparams["batch_size"] // place["world_size"], 1),
            sampler=ShardedIndices(len(dataset), **place),
            **self._options(),
        )
