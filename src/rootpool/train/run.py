"""A training from a configuration: its folder, its callbacks, its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from jsonargparse import Namespace
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from rootpool.analysis.callbacks import EpochTimer, SpectrumMonitor
from rootpool.analysis.records import write_records
from rootpool.files import remove_parts, write_atomically
from rootpool.recipes import SettingsError

from .checkpoints import AtomicCheckpointIO
from .datamodule import ImageData
from .failures import explained_deaths
from .hybrid import HybridProtocol
from .module import PooledTraining
from .nonfinite import NonFiniteGuard
from .quiet import quiet_lightning
from .settings import as_yaml, hybrid_schedule
from .trainer import make_trainer

__all__ = ["Run", "build", "prepare"]

LAST = "last.ckpt"


@dataclass(frozen=True)
class Run:
    """A prepared training: call `fit`."""

    trainer: pl.Trainer
    module: PooledTraining
    data: ImageData
    output: Path
    guard: NonFiniteGuard

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.output / LAST

    def fit(self, *, resume_from: str | Path | None = None) -> None:
        """Train to the end, from the beginning or from a checkpoint of any moment.

        Raises:
            NonFiniteError: a loss, gradient or weight became NaN or infinite.
            ChildProcessError: a process that loads images died.
            ConnectionError: another process of a distributed training ended.
        """
        with quiet_lightning(), explained_deaths(), self.guard.reporting():
            self.trainer.fit(
                self.module,
                datamodule=self.data,
                ckpt_path=None if resume_from is None else str(resume_from),
                weights_only=True,
            )


def build(settings: Namespace) -> tuple[PooledTraining, ImageData]:
    """Network and data of the effective configuration, without a trainer and without a folder.

    All random generators are seeded, so the network begins with the weights that its training begins with.
    """
    pl.seed_everything(settings.seed, workers=True, verbose=False)
    data = ImageData(**settings.data.as_dict(), seed=settings.seed)
    classes = list(data.splits.classes)
    module = PooledTraining(
        **settings.model.as_dict(), num_classes=len(classes), classes=classes, seed=settings.seed
    )
    return module, data


def prepare(
    settings: Namespace,
    output: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Build data, network and trainer from the effective configuration.

    The folder ``output`` gets ``config.yaml``, ``history.csv`` and ``timing.csv`` (one row per epoch),
    ``spectrum.csv`` when that is measured, TensorBoard's events, ``last.ckpt`` and ``best.ckpt``.

    Raises:
        SettingsError: when the folder holds another run, and neither ``resume`` nor a new name is given.
    """
    output = Path(output)
    _check_output(output, resume)
    module, data = build(settings)
    guard = NonFiniteGuard(output)
    trainer = make_trainer(
        **settings.trainer.as_dict(),
        callbacks=[guard, *_callbacks(settings, output, progress), *callbacks],
        logger=TensorBoardLogger(output, name="", version="", default_hp_metric=False),
        plugins=[AtomicCheckpointIO()],
        default_root_dir=output,
        enable_progress_bar=progress,
    )
    if trainer.is_global_zero:
        remove_parts(output)
        write_atomically(output / "config.yaml", as_yaml(settings))
    return Run(trainer, module, data, output, guard)


class RecordFiles(Checkpoint):
    """Writes the records of all epochs so far, those before a resume included, as CSV.

    (Lightning's CSVLogger begins a resumed run by deleting the file.)
    """

    def __init__(self, output: Path) -> None:
        self.output = output

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        write_records(pl_module.history, self.output / "history.csv")  # type: ignore[arg-type]
        for monitor in monitors(trainer):
            write_records(monitor.records, self.output / "spectrum.csv")


def monitors(trainer: pl.Trainer) -> list[SpectrumMonitor]:
    """The spectrum monitors of a trainer."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, SpectrumMonitor)]


class StepCheckpoint(ModelCheckpoint):
    """Saves within an epoch, but not after its last batch.

    The checkpoint of the epoch follows at once. A run resumed from between the last batch and the end of
    the epoch would skip the validation and the step of the learning rate.
    """

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        if not trainer.is_last_batch:
            super().on_train_batch_end(trainer, *args, **kwargs)


def _callbacks(settings: Namespace, output: Path, progress: bool) -> list[Callback]:
    def save(kind: type[ModelCheckpoint], name: str, **when: Any) -> ModelCheckpoint:
        return kind(output, filename=name, enable_version_counter=False, **when)

    name = LAST.removesuffix(".ckpt")
    callbacks: list[Callback] = [
        save(ModelCheckpoint, "best", monitor="val_error", save_on_train_epoch_end=True),
        save(ModelCheckpoint, name, every_n_epochs=1, save_on_train_epoch_end=True),
        RecordFiles(output),
        EpochTimer(output / "timing.csv"),
    ]
    if settings.save_every:
        callbacks.append(save(StepCheckpoint, name, every_n_train_steps=settings.save_every))
    schedule = hybrid_schedule(settings)
    if schedule is not None:
        callbacks.append(HybridProtocol(schedule))
    if settings.spectrum_every:
        callbacks.append(SpectrumMonitor(every_n_steps=settings.spectrum_every))
    if progress:
        callbacks.append(RichProgressBar())
    return callbacks


def _check_output(output: Path, resume: bool) -> None:
    # Other ranks would meet what rank zero has written a moment ago.
    if getattr(rank_zero_only, "rank", 0):
        return
    if (output / "config.yaml").exists() and not resume:
        raise SettingsError(
            f"{output} already contains a run; continue it with --resume or choose another --output"
        )
