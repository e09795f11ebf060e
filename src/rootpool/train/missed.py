"""Which validation images a network did not recognise, so that runs can be compared image by image."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl

__all__ = ["MissedImages"]


class MissedImages(pl.Callback):
    """Notes which images of the last validation were taken for something else, by their place among all.

    ``taken_for`` has the class that each was taken for, and ``images`` is how many there were. All are in the
    checkpoints, because a run that was killed at its end does not validate again. With several devices each
    sees a part of the images, and nothing is noted.
    """

    def __init__(self) -> None:
        self.images = 0
        self.missed: list[int] = []
        self.taken_for: list[int] = []

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self.images, self.missed, self.taken_for = 0, [], []

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *_: int
    ) -> None:
        # A sanity check sees a few batches, before a run goes on.
        if trainer.sanity_checking or trainer.world_size > 1:
            return
        labels = batch[1]
        wrong = (pl_module.predicted != labels).nonzero().flatten()
        self.missed += (wrong + self.images).tolist()
        self.taken_for += pl_module.predicted[wrong].tolist()  # type: ignore[index]
        self.images += len(labels)

    def state_dict(self) -> dict[str, Any]:
        return {"images": self.images, "missed": self.missed, "taken_for": self.taken_for}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)
