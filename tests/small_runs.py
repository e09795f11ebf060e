"""A training of some seconds, and whether two of them ended in the same state."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from rootpool.train import Run, apply_overrides, prepare, resolve
from rootpool.train.data import EMBEDDED, ImageSplits, TensorImages

PARTS = ("state_dict", "optimizer_states", "lr_schedulers", "history", "method", "global_step")


def _itself(image: torch.Tensor) -> torch.Tensor:
    return image


def _numbered() -> ImageSplits:
    """26 samples for training, whose first pixel is their number, and 8 for validation."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(34, 1, 16, 16, generator=generator)
    pixels[:, 0, 0, 0] = torch.arange(34)
    parts = [(pixels[:26], torch.arange(26) % 3), (pixels[26:], torch.arange(8) % 3)]
    train, val = (TensorImages(images, labels, _itself) for images, labels in parts)
    return ImageSplits(train, val, ("a", "b", "c"), "numbered")


EMBEDDED["numbered"] = _numbered
# The smallest training: three epochs of six steps.
NUMBERED = {
    "model": {"method": "gap", "lr": 0.02, "drop_rate": 0.1},
    "data": {"root": "numbered", "batch_size": 4, "workers": 0},
    "trainer": {"max_epochs": 3, "accelerator": "cpu", "num_sanity_val_steps": 0},
    "loggers": [],
}


def typed(text: str, config=NUMBERED) -> dict:
    """A configuration with changes as a person types them behind a command."""
    return apply_overrides(config, text.split(" ; ") if text else [])


class Seen(pl.Callback):
    """Notes the samples and the learning rate of every batch, by its epoch and place."""

    def __init__(self) -> None:
        self.samples: dict[tuple[int, int], list[int]] = {}
        self.rates: dict[tuple[int, int], float] = {}

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        step = (trainer.current_epoch, batch_idx)
        self.samples[step] = batch[0][:, 0, 0, 0].int().tolist()
        self.rates[step] = trainer.optimizers[0].param_groups[-1]["lr"]


def run(folder: Path, *, resume: bool = False, config=NUMBERED, callbacks=()) -> Run:
    """Train in a folder, from its last checkpoint or from the beginning."""
    prepared = prepare(resolve(config), folder, resume=resume, progress=False, callbacks=callbacks)
    prepared.fit(resume_from=prepared.last if resume and prepared.last.is_file() else None)
    return prepared


class StoppedError(Exception):
    pass


class StopAt(pl.Callback):
    """Ends the process's work after a step, as a kill would: nothing is saved on the way out."""

    def __init__(self, step: int, error: type[BaseException] = StoppedError) -> None:
        self.step, self.error = step, error

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step == self.step:
            raise self.error


def stopped_run(folder: Path, step: int, **options) -> None:
    """Train, and be killed after a step."""
    with pytest.raises(StoppedError):
        run(folder, callbacks=[StopAt(step)], **options)


def final(folder: Path) -> dict:
    return torch.load(folder / "last.ckpt", weights_only=True)


def flatten(value, path="") -> dict[str, object]:
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for key, part in value.items() for k, v in flatten(part, f"{path}/{key}").items()}


def assert_same_state(got: dict, expected: dict) -> None:
    """The same bits."""
    for part in PARTS:
        ours, theirs = flatten(got[part]), flatten(expected[part])
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            tensor = isinstance(value, torch.Tensor)
            same = torch.equal(ours[key], value) if tensor else ours[key] == value
            assert same, f"{part}{key}: {ours[key]} instead of {value}"
