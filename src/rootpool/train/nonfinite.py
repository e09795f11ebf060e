"""Stop at the first non-finite loss, gradient or weight, with a report and a file with the step."""

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

import rootpool
from rootpool.files import write_atomically
from rootpool.suggest import some_names

__all__ = ["NonFiniteError", "NonFiniteGuard"]


class NonFiniteError(FloatingPointError):
    """A loss, gradient or weight became NaN or infinite."""


class NonFiniteGuard(pl.Callback):
    """Stops a training at the first loss, gradient or saved weight that is not finite, before any change.

    Batch and weights of the step are written to ``nonfinite-*.pt`` in the folder, and weights that are not
    finite never replace a checkpoint. With a gradient scaler (``16-mixed``), whose
    gradients overflow now and then on purpose, gradients are not checked.

    Args:
        folder: for the file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: str | None = None
        self._batch: Any = None
        self._split = "train"
        self._within_step = False

    # Checks

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

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *args: Any
    ) -> None:
        _require_finite("the validation loss", outputs)
        self._within_step = False

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        for name, value in checkpoint["state_dict"].items():
            _require_finite(f"{name}, which was to be saved,", value)

    # The step that is being computed

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._batch, self._split, self._within_step = batch, "train", True

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        self._within_step = False

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, *args: Any
    ) -> None:
        self._batch, self._split, self._within_step = batch, "val", True

    # The report

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        # The spectral methods refuse features that are not finite before there is a loss.
        refused = isinstance(exception, LinAlgError) or (
            isinstance(exception, ValueError) and "NaN or infinite" in str(exception)
        )
        if not isinstance(exception, NonFiniteError) and not (self._within_step and refused):
            return
        state = self._state(trainer, pl_module)
        what = "the features or covariances are not finite" if refused else str(exception)
        where = "epoch {epoch}, step {global_step}, method {method}".format_map(state)
        saved = any(self.folder.glob("*.ckpt"))
        advice = (
            f"the checkpoints in {self.folder} were saved before this step; try --weights with one and "
            if saved
            else "try "
        ) + f"a lower model.lr than {pl_module.hparams['lr']:g}"
        parts = [
            f"{where}: {what}",
            _broken(state["state_dict"]),
            _write(self.folder, state),
            advice,
        ]
        self.report = "\n".join(parts)

    def _state(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """Everything that the step depends on, with the keys of a checkpoint."""
        return {
            "rootpool": rootpool.__version__,
            "torch": str(torch.__version__),
            "epoch": trainer.current_epoch,
            "global_step": trainer.global_step,
            "split": self._split,
            "rank": trainer.global_rank,
            "seed": pl_module.step_seed,
            "precision": trainer.precision,
            "method": pl_module.pooling,
            "hyper_parameters": dict(pl_module.hparams),
            "datamodule_hyper_parameters": dict(trainer.datamodule.hparams),  # type: ignore[attr-defined]
            "state_dict": {name: value.cpu() for name, value in pl_module.state_dict().items()},
            "batch": move_data_to_device(list(self._batch), torch.device("cpu")),
        }

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


def _broken(state: dict[str, Tensor]) -> str:
    """The weights and buffers with entries that are not finite."""
    counts = {name: int((~value.isfinite()).sum()) for name, value in state.items()}
    found = [
        f"{name} ({count} of {state[name].numel()})" for name, count in counts.items() if count
    ]
    return f"not finite: {some_names(found) if found else 'no weight and no buffer'}"


def _write(folder: Path, state: dict[str, Any]) -> str:
    name = f"nonfinite-epoch{state['epoch']}-step{state['global_step']}-rank{state['rank']}.pt"
    path = folder / name
    try:
        write_atomically(path, lambda file: torch.save(state, file))
    except (OSError, RuntimeError) as error:
        return f"{path} could not be written: {error}"
    return (
        f"{path} holds the batch, all weights and the settings: torch.load(path, weights_only=True)"
    )
