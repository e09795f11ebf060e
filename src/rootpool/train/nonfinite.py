"""Stop at the first non-finite loss, gradient or weight, and keep the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.files import write_atomically
from rootpool.suggest import some_names

__all__ = ["NonFiniteError", "NonFiniteGuard"]


class NonFiniteError(FloatingPointError):
    """A loss, gradient or weight became NaN or infinite."""


class NonFiniteGuard(pl.Callback):
    """Stops a training at the first loss, gradient or saved weight that is not finite, before any change.

    The batch and the weights are written to ``nonfinite.pt`` in the folder, and weights that are not finite
    never replace a checkpoint. With a gradient scaler (``16-mixed``), whose gradients overflow now and then
    on purpose, gradients are not checked.

    Args:
        folder: for the file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: str | None = None
        self._batch: Any = None  # of the step that is being computed

    def on_train_batch_start(self, *args: Any) -> None:
        self._batch = args[2]

    def on_validation_batch_start(self, *args: Any) -> None:
        self._batch = args[2]

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor
    ) -> None:
        _require_finite("the loss", loss)

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if getattr(trainer.precision_plugin, "scaler", None) is None:
            gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
            # Unlike a sum of squares, the largest magnitude does not overflow.
            largest = torch.nn.utils.get_total_norm(gradients, norm_type=torch.inf)
            _require_finite("the gradient", largest)

    def on_train_batch_end(self, *_: Any) -> None:
        self._batch = None

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any
    ) -> None:
        _require_finite("the validation loss", outputs)
        self._batch = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        for name, value in checkpoint["state_dict"].items():
            _require_finite(f"{name}, which was to be saved,", value)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        # The spectral methods refuse features that are not finite before there is a loss.
        refused = isinstance(exception, LinAlgError) or (
            isinstance(exception, ValueError) and "NaN or infinite" in str(exception)
        )
        if not isinstance(exception, NonFiniteError) and not (refused and self._batch is not None):
            return
        what = "the features or covariances are not finite" if refused else str(exception)
        weights = {name: value.cpu() for name, value in pl_module.state_dict().items()}
        broken = [name for name, value in weights.items() if not value.isfinite().all()]
        path = self.folder / "nonfinite.pt"
        state = {
            "epoch": trainer.current_epoch,
            "global_step": trainer.global_step,
            "method": pl_module.pooling,
            "state_dict": weights,
            "batch": move_data_to_device(list(self._batch or ()), torch.device("cpu")),
        }
        kept = f"{path} holds the batch and all weights: torch.load(path, weights_only=True)"
        try:
            if trainer.is_global_zero:
                write_atomically(path, lambda file: torch.save(state, file))
        except OSError as error:
            kept = f"{path} could not be written: {error}"
        saved = any(self.folder.glob("*.ckpt"))
        self.report = (
            f"epoch {state['epoch']}, step {state['global_step']}, method {state['method']}: {what}\n"
            f"not finite: {some_names(broken) if broken else 'no weight and no buffer'}\n"
            f"{kept}\n"
            + f"the checkpoints in {self.folder} are from before this step; " * saved
            + f"try {'--weights with one and ' * saved}a lower model.lr than {pl_module.hparams['lr']:g}"
        )

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Raise the report instead of the short error that led to it."""
        try:
            yield
        except (NonFiniteError, ValueError, LinAlgError) as error:
            if self.report is None:
                raise
            raise NonFiniteError(self.report) from error


def _require_finite(what: str, value: Tensor) -> None:
    if not value.isfinite().all():
        found = f" {value.item():g}" if value.numel() == 1 else " not finite"
        raise NonFiniteError(f"{what} is{found}")
