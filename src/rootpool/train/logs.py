"""Loggers by name: where the curves of a training go besides ``history.csv``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from rootpool.suggest import unknown_name
from rootpool.train.config import SettingsError

__all__ = ["LOGGERS", "make_loggers"]

PROJECT = "rootpool"


def _wandb(folder: Path) -> Logger:
    """A run of W&B; a training that is continued goes on in the run that its folder holds."""
    latest = folder / "wandb" / "latest-run"  # a link to a folder whose name ends with the run's id
    known = latest.resolve().name.rpartition("-")[2] if latest.exists() else None
    return WandbLogger(name=folder.name, save_dir=folder, project=PROJECT, id=known, resume="allow")


def _mlflow(folder: Path) -> Logger:
    """A run of MLflow, where MLflow itself keeps them: MLFLOW_TRACKING_URI, or a file that it chooses."""
    import mlflow  # type: ignore[import-not-found, unused-ignore]

    return MLFlowLogger(PROJECT, run_name=folder.name, tracking_uri=mlflow.get_tracking_uri())


# The package that a logger needs, and how it is made for the folder of a run.
LOGGERS: dict[str, tuple[str, Callable[[Path], Logger]]] = {
    "tensorboard": (
        "tensorboard",
        lambda folder: TensorBoardLogger(folder, name="", version="", default_hp_metric=False),
    ),
    "wandb": ("wandb", _wandb),
    "mlflow": ("mlflow", _mlflow),
}


def make_loggers(names: Sequence[str], folder: Path) -> list[Logger]:
    """The loggers of a run."""
    for name in names:
        if name not in LOGGERS:
            raise SettingsError(unknown_name("logger", name, LOGGERS))
        package, _ = LOGGERS[name]
        if importlib.util.find_spec(package) is None:
            raise SettingsError(
                f"loggers: {name} needs the package {package}; try pip install {package}"
            )
    return [LOGGERS[name][1](folder) for name in names]
