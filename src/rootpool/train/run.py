"""A training from a configuration: its folder, its callbacks, its checkpoints."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.utilities import rank_zero_only

from rootpool.files import remove_parts
from rootpool.linalg import skip_checks
from rootpool.models.files import load_weights_only
from rootpool.nn import BranchPool, covariance_pools, resolve_pool
from rootpool.report.records import read_yaml

from .callbacks import (
    CONFIG,
    RESULT,
    Patience,
    RunCheckpoint,
    RunFiles,
    SpectrumMonitor,
    StepCheckpoint,
    weight_average,
)
from .checkpoints import AtomicCheckpointIO, check_classes
from .conditioning import OrthogonalGradient
from .config import SettingsError
from .datamodule import ImageData
from .hybrid import HybridProtocol
from .module import PooledTraining
from .nonfinite import NonFiniteError, NonFiniteGuard
from .settings import Settings, as_yaml, check_same
from .trainer import make_loggers, make_trainer, quiet_lightning, translated_errors

__all__ = ["LAST", "RESULT", "Run", "build", "fill_cache", "prepare"]

LAST = "last.ckpt"
FEW_POSITIONS = 12
MORE_POSITIONS = "Try a larger data.crop, a backbone with a smaller stride, or model.method=gap"


@dataclass(frozen=True)
class Run:
    """A prepared training: call `fit`."""

    trainer: pl.Trainer
    module: PooledTraining
    data: ImageData
    output: Path
    guard: NonFiniteGuard
    files: RunFiles
    map_shape: tuple[int, ...]
    settings: Settings

    @property
    def notes(self) -> list[str]:
        """What a user should know before the training, without having made a mistake."""
        notes = []
        positions = torch.Size(self.map_shape[1:]).numel()
        if positions < FEW_POSITIONS and covariance_pools(self.module):
            notes.append(f"{positions} positions are few for a covariance. {MORE_POSITIONS}")
        epochs, milestones = self.trainer.max_epochs or 0, self.module.milestones
        if milestones and 0 < epochs <= milestones[-1]:
            notes.append(
                f"the learning rate is not decayed at all of model.milestones={milestones}: the training "
                f"ends after {epochs} epochs"
            )
        return notes

    @property
    def stopped_early(self) -> bool:
        """Whether the training has ended because it ran out of ``patience``."""
        patience = self.trainer.early_stopping_callback
        return patience is not None and patience.wait_count >= patience.patience

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.output / LAST

    def fit(self, *, resume_from: str | Path | None = None) -> None:
        """Train to the end, from the beginning or from a checkpoint of any moment.

        Its end is noted in ``result.json``, also if it diverged. A training that fails before its first step
        leaves the folder as it was, for the corrected command.

        Raises:
            NonFiniteError: a loss, gradient or weight became NaN or infinite.
            SettingsError: Lightning cannot do what the settings ask for.
            ChildProcessError: a process that loads images died.
            ConnectionError: another process of a distributed training ended.
        """
        started = time.perf_counter()
        reporting = self.guard.reporting(self.trainer, self.module)
        if self.trainer.is_global_zero:
            remove_parts(self.output)
        try:
            checks = skip_checks(not self.settings.checks)
            with quiet_lightning(), translated_errors(), reporting, checks:
                self.trainer.fit(
                    self.module,
                    datamodule=self.data,
                    ckpt_path=None if resume_from is None else str(resume_from),
                    weights_only=True,
                )
        except NonFiniteError:
            where = {"epoch": self.trainer.current_epoch, "step": self.trainer.global_step}
            self._end(started, where)
            raise
        if not self.trainer.interrupted:
            self._end(started)

    def _end(self, started: float, diverged: dict[str, int] | None = None) -> None:
        if self.trainer.is_global_zero:
            classes = len(self.data.splits.classes)
            self.files.end(time.perf_counter() - started, classes, diverged)


def build(settings: Settings) -> tuple[PooledTraining, ImageData]:
    """Network and data of the effective configuration, without a trainer and without a folder.

    All random generators are seeded, so the network begins with the weights that its training begins with.
    """
    pl.seed_everything(settings.seed, workers=True, verbose=False)
    data = ImageData(settings.data, seed=settings.seed)
    if settings.data.statistics == "pretrained":
        data.adopt(settings.model.backbone)
    classes = list(data.splits.classes)
    if len(classes) < 2:
        raise SettingsError(
            f"{settings.data.root} has one class, {classes[0]}; a classifier needs two or more, each with a "
            "folder of its own"
        )
    module = PooledTraining(
        settings.model, num_classes=len(classes), classes=classes, seed=settings.seed
    )
    return module, data


def prepare(
    settings: Settings,
    output: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Build data, network and trainer from the effective configuration.

    The folder ``output`` gets ``config.yaml``, ``history.csv`` and ``timing.csv`` (one row per epoch),
    ``spectrum.csv`` when that is measured, TensorBoard's events, ``last.ckpt`` and ``best.ckpt``. When the
    training has ended, ``result.json`` follows: seconds, number of classes and of validation images, which
    of these were not recognised last, and where the training diverged, or null.

    Raises:
        SettingsError: when the folder holds another run, and neither ``resume`` nor a new name is given;
            when a run would be continued with other settings; when images are too small for the network.
    """
    output = Path(output)
    # Before the images are listed, which may take a minute.
    resolve_pool(settings.model.method, **(settings.model.method_options or {}))
    module, data = build(settings)
    guard = NonFiniteGuard(output, every_step=settings.checks)
    # Lines are kept by the logs of nohup and of a cluster; a bar is for somebody who watches.
    files = RunFiles(output, as_yaml(settings), lines=progress)
    bar = [_Bar()] if progress and sys.stdout.isatty() else []
    trainer = make_trainer(
        **asdict(settings.trainer),
        callbacks=[guard, *_callbacks(settings, output), files, *bar, *callbacks],
        logger=make_loggers(settings.loggers, output),
        plugins=[AtomicCheckpointIO()],
        default_root_dir=output,
        enable_progress_bar=bool(bar),
    )
    map_shape = _map_shape(module, data)
    module.configure_optimizers()  # refuses an unknown optimizer
    _check_output(output, resume, settings)  # mistakes in the settings are said first
    if resume and (output / LAST).is_file():
        known = load_weights_only(output / LAST).get("hyper_parameters", {}).get("classes")
        check_classes(output / LAST, known or data.splits.classes, data.splits.classes)
    if settings.data.cache is not None:
        data.use_cached_features(module.skip_frozen(), mirrored=module.mirrored, progress=progress)
    if settings.trainer.precision in (64, "64-true"):
        module.double()  # Lightning would do it after the weights of a checkpoint were loaded, and rounded
    if settings.model.compile is not None:  # in place: names of weights stay as they are
        for part in (module.model.backbone, module.model.pool, module.model.classifier):
            part.compile(mode=settings.model.compile)
    return Run(trainer, module, data, output, guard, files, map_shape, settings)


def fill_cache(settings: Settings) -> None:
    """Compute the features that runs of these settings keep, if they do and have not yet."""
    if settings.data.cache is not None:
        module, data = build(settings)
        data.use_cached_features(module.skip_frozen(), mirrored=module.mirrored)


class _Bar(RichProgressBar):
    """Lightning's bar, which counts epochs from zero."""

    def _get_train_description(self, current_epoch: int) -> str:
        epochs = self.trainer.max_epochs
        of = f"/{epochs}" if epochs is not None and epochs > 0 else ""
        return f"Epoch {current_epoch + 1}{of}"


def _callbacks(settings: Settings, output: Path) -> list[Callback]:
    name = LAST.removesuffix(".ckpt")
    callbacks: list[Callback] = [
        RunCheckpoint(output, "best", monitor="val_error", save_on_train_epoch_end=True),
        RunCheckpoint(output, name, every_n_epochs=1, save_on_train_epoch_end=True),
    ]
    if settings.save_every:
        callbacks.append(StepCheckpoint(output, name, every_n_train_steps=settings.save_every))
    if settings.save_minutes:
        interval = timedelta(minutes=settings.save_minutes)
        callbacks.append(StepCheckpoint(output, name, train_time_interval=interval))
    if settings.hybrid is not None:
        callbacks.append(HybridProtocol(settings.hybrid))
    if settings.ema is not None:
        callbacks.append(weight_average(settings.ema))
    if settings.patience:
        callbacks.append(Patience(settings.patience))
    if settings.conditioning is not None:
        callbacks.append(OrthogonalGradient(settings.conditioning))
    if settings.spectrum_every:
        callbacks.append(SpectrumMonitor(every_n_steps=settings.spectrum_every))
    return callbacks


# --------------------------------------------------------------------------------------------------
# Mistakes that would cost an epoch, or all of them


def _check_output(output: Path, resume: bool, settings: Settings) -> None:
    there = next(path for path in (output, *output.absolute().parents) if path.exists())
    if not there.is_dir():
        raise SettingsError(f"{there} is a file, not a folder; choose another --output")
    # Other ranks would meet what rank zero has written a moment ago.
    if getattr(rank_zero_only, "rank", 0) or not (output / CONFIG).exists():
        return
    if not resume:
        raise SettingsError(
            f"{output} already contains a run; continue it with --resume or choose another --output"
        )
    check_same(read_yaml(output / CONFIG), settings)


def _map_shape(module: PooledTraining, data: ImageData) -> tuple[int, ...]:
    """Channels and positions of the smallest map with a covariance; a single position is an error."""
    image, _ = data.splits.val[0]
    backbone, training = module.model.backbone, module.training
    name, size = module.hparams["backbone"], " x ".join(map(str, image.shape))
    module.eval()
    try:
        with torch.no_grad():
            features = backbone(data.normalised(image).unsqueeze(0))
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        wanted = " x ".join(map(str, getattr(backbone, "input_size", ("?",))))
        raise SettingsError(
            f"{name} does not take images of {size} ({error}); it was made for {wanted}: try "
            "data.crop, or backbone_options such as img_size or in_chans"
        ) from error
    finally:
        module.train(training)
    pool, maps = module.model.pool, [features]
    if isinstance(pool, BranchPool):
        pairs = list(zip(pool.stages, pool.pools, strict=True))
        covariances = [pair for pair in pairs if covariance_pools(pair[1])]
        maps = [features[stage] for stage, _ in covariances or pairs]
    shape = min((tuple(map.shape[1:]) for map in maps), key=lambda shape: math.prod(shape[1:]))
    if covariance_pools(module) and torch.Size(shape[1:]).numel() == 1:
        raise SettingsError(
            f"images of {size} leave one position of the map of {name}, which has no covariance: nothing "
            f"would be learned. {MORE_POSITIONS}"
        )
    return shape
