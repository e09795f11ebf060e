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
from torch.distributed.tensor import DTensor
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
        every_step: False checks only what is saved and validated: each look makes the host wait for a GPU.
    """

    def __init__(self, folder: Path, every_step: bool = True) -> None:
        self.folder = folder
        self.every_step = every_step
        self._batch: Any = None  # of the step that is being computed

    def on_train_batch_start(self, *args: Any) -> None:
        self._batch = args[2]

    def on_validation_batch_start(self, *args: Any) -> None:
        self._batch = args[2]

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Tensor) -> None:
        if self.every_step:
            _require_finite("the loss", loss)

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        if scaled or not self.every_step:
            return
        gradients = {n: p.grad for n, p in pl_module.named_parameters() if p.grad is not None}
        # Unlike a sum of squares, the largest magnitude does not overflow.
        largest = torch.nn.utils.get_total_norm(gradients.values(), norm_type=torch.inf)
        if not largest.isfinite():
            raise NonFiniteError(f"the gradient of {_not_finite(gradients)} is {largest.item():g}")

    def on_train_batch_end(self, *_: Any) -> None:
        self._batch = None

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        _require_finite("the validation loss", outputs)
        self._batch = None

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        for name, value in checkpoint["state_dict"].items():
            _require_finite(f"{name}, which was to be saved,", value)

    @contextmanager
    def reporting(self, trainer: pl.Trainer, module: Any) -> Iterator[None]:
        """Write the file, and raise a report instead of the short error."""
        try:
            yield
        except (NonFiniteError, ValueError, LinAlgError) as error:
            # The spectral methods refuse features that are not finite before there is a loss.
            refused = isinstance(error, LinAlgError) or "NaN or infinite" in str(error)
            if isinstance(error, NonFiniteError):
                raise NonFiniteError(self._report(trainer, module, str(error))) from error
            if not refused or self._batch is None:
                raise
            what = "the features or covariances are not finite"
            raise NonFiniteError(self._report(trainer, module, what)) from error

    def _report(self, trainer: pl.Trainer, module: Any, what: str) -> str:
        path, weights = self.folder / "nonfinite.pt", module.state_dict()
        # Of weights that are shared out, this process's part: the others may not be asking.
        shares = {n: w.to_local() for n, w in weights.items() if isinstance(w, DTensor)}
        weights |= shares
        batch = list(self._batch or ())
        state = move_data_to_device({"state_dict": weights, "batch": batch}, torch.device("cpu"))
        part = "its share of the weights" if shares else "all weights"
        kept = f"{path} holds the batch and {part}: torch.load(path, weights_only=True)"
        try:
            if trainer.is_global_zero:
                write_atomically(path, lambda file: torch.save(state, file))
        except OSError as error:
            kept = f"{path} could not be written: {error}"
        saved = any(self.folder.glob("*.ckpt"))
        where = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step}"
        return (
            f"{where}, method {module.pooling}: {what}\n"
            f"not finite: {_not_finite(weights) or 'no weight and no buffer'}\n"
            f"{kept}\n"
            + f"the checkpoints in {self.folder} are from before this step; " * saved
            + f"try {'--weights with one and ' * saved}a lower model.lr than {module.settings.lr:g}"
        )


def _not_finite(tensors: dict[str, Tensor]) -> str:
    names = [name for name, value in tensors.items() if not value.isfinite().all()]
    return some_names(names) if names else ""


def _require_finite(what: str, value: Tensor) -> None:
    if not value.isfinite().all():
        found = f" {value.item():g}" if value.numel() == 1 else " not finite"
        raise NonFiniteError(f"{what} is{found}")
