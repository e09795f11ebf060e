"""The LightningDataModule: the same batches on one process and on many."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from rootpool.models import Stages, pretrained_input
from rootpool.suggest import unknown_name
from rootpool.train.config import SettingsError

from .data import (
    AUGMENTATIONS,
    EMBEDDED,
    TRANSFORMS,
    ImageSplits,
    Preprocessing,
    SomeImages,
    Transform,
    draw,
    hold_out,
    open_splits,
)
from .data.transforms import before_normalisation
from .features import CachedFeatures, FeatureCache, cache_features
from .sampling import EpochBatches, ResumableLoader, SeededDataset
from .settings import DataSettings

__all__ = ["ImageData"]


class ImageData(pl.LightningDataModule):
    """Batches of the images of a data set, for Lightning.

    Args:
        settings: which images, their transforms and batches.
        seed: of order and augmentation.
    """

    def __init__(self, settings: DataSettings, *, seed: int = 0) -> None:
        super().__init__()
        _check(settings)
        self.save_hyperparameters({**asdict(settings), "seed": seed})
        self.cached: tuple[CachedFeatures, CachedFeatures] | None = None
        """Features for training and for validation, that are delivered instead of images."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ImageData:
        """The data of a checkpoint, from the plain data in it."""
        settings = {name: value for name, value in options.items() if name != "seed"}
        return cls(DataSettings(**settings), seed=options["seed"])

    def adopt(self, backbone: str) -> None:
        """Take over what the pretrained weights of a backbone expect, where nothing else is given."""
        for key, value in pretrained_input(backbone).items():
            if self.hparams[key] is None:
                self.hparams[key] = value

    @functools.cached_property
    def splits(self) -> ImageSplits:
        """The datasets and class names; read once."""
        options = self.hparams
        if options["root"] in EMBEDDED:
            splits = EMBEDDED[options["root"]]()
        else:
            train, val = self.transforms()
            if options["as_bytes"]:
                train, val = (before_normalisation(each)[0] for each in (train, val))
            splits = open_splits(
                options["root"],
                train_transform=train,
                val_transform=val,
                on_bad_image=options["on_bad_image"],
                val_share=options["val_share"],
                seed=options["seed"],
            )
        if options["hold_out"]:
            splits = hold_out(splits, options["val_share"])
        if options["fraction"] == 1:
            return splits
        chosen = draw(splits.train.labels, options["fraction"], options["seed"])
        return replace(splits, train=SomeImages(splits.train, chosen))

    def transforms(self) -> tuple[Transform, Transform]:
        """The transforms for training and for validation."""
        given = {key: value for key, value in self.hparams.items() if value is not None}
        sizes = {key: given[key] for key in ("resize", "crop") if key in given}
        looks = ("mean", "std", "interpolation", "augment")
        look = Preprocessing(**{key: given[key] for key in looks if key in given})
        return TRANSFORMS[given["transform"]](**sizes, look=look)

    def normalised(self, images: Any) -> Any:
        """What the network takes, of the bytes of ``data.as_bytes``; anything else as it is."""
        if not isinstance(images, Tensor) or images.dtype != torch.uint8:
            return images
        return before_normalisation(self.transforms()[1])[1](images)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        images, labels = batch
        found = self.normalised(images)
        if found is images:
            return batch
        return self.trainer.precision_plugin.convert_input(found), labels  # type: ignore[union-attr]

    def use_cached_features(
        self, frozen: Stages, *, mirrored: bool = False, progress: bool = True
    ) -> None:
        """Deliver features of frozen stages from now on, instead of images; see ``data.cache``.

        Args:
            frozen: the stages.
            mirrored: whether features of mirror images follow, for validation.
            progress: whether to show progress.
        """
        splits, options = self.splits, self.hparams
        train, val = self.transforms()
        views = (val, v2.Compose([val, v2.RandomHorizontalFlip(p=1.0)])) if mirrored else (val,)
        # A part that is held out belongs to images whose features the chosen settings need anyway.
        whole = options["hold_out"] and options["fraction"] == 1
        part: Any = splits.train
        seed = options["seed"]

        def cached(images: Any, *views: Transform) -> FeatureCache:
            paths = [images.path(k) for k in range(len(images))]
            if "" in paths:
                raise SettingsError(
                    f"data.cache is for image files, which {options['root']} is not; leave it out"
                )
            title = "validation images" if images is splits.val else "training images"
            return cache_features(
                frozen, paths, views, options["cache"], progress=progress, title=title
            )

        learned = cached(part.images if whole else part, *[train] * options["views"])
        chosen = part.indices if whole else None
        self.cached = (
            CachedFeatures(learned, part.labels, chosen, seed),
            CachedFeatures(cached(splits.val, *views), splits.val.labels),
        )

    @property
    def crop(self) -> int:
        """Pixels of the side of what the network sees."""
        given: int | None = self.hparams["crop"]
        default = (
            inspect.signature(TRANSFORMS[self.hparams["transform"]]).parameters["crop"].default
        )
        return given or default

    def _options(self) -> dict[str, Any]:
        workers = self.hparams["workers"]
        on_gpu = self.trainer is not None and isinstance(self.trainer.accelerator, CUDAAccelerator)
        return {
            "num_workers": workers,
            "persistent_workers": workers > 0,
            "pin_memory": on_gpu,
            "collate_fn": _whole if self.cached else None,
        }

    def _place(self) -> dict[str, int]:
        if self.trainer is None:
            return {"rank": 0, "world_size": 1}
        return {"rank": self.trainer.global_rank, "world_size": self.trainer.world_size}

    def train_dataloader(self) -> ResumableLoader:
        images, seed = self.splits.train, self.hparams["seed"]
        batches = EpochBatches(
            len(images),
            self.hparams["batch_size"],
            seed,
            **self._place(),
            repeat=bool(self.trainer and self.trainer.overfit_batches),  # type: ignore[attr-defined]
        )
        dataset = self.cached[0] if self.cached else SeededDataset(images, seed)
        return ResumableLoader(dataset, batches, **self._options())

    def val_dataloader(self) -> DataLoader[Any]:
        images, place = self.splits.val, self._place()
        return DataLoader(
            self.cached[1] if self.cached else images,
            batch_size=max(self.hparams["batch_size"] // place["world_size"], 1),
            # Every image exactly once over all processes, without the padding of DistributedSampler.
            sampler=range(place["rank"], len(images), place["world_size"]),
            **self._options(),
        )


def _whole(batch: Any) -> Any:
    """Cached features are read as batches already."""
    return batch


def _check(settings: DataSettings) -> None:
    if settings.transform not in TRANSFORMS:
        raise SettingsError(unknown_name("data.transform", settings.transform, TRANSFORMS))
    if settings.augment is not None and settings.augment not in AUGMENTATIONS:
        raise SettingsError(unknown_name("data.augment", settings.augment, AUGMENTATIONS))
