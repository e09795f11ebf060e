"""Loggers by name: where the curves of a training go besides ``history.csv``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from rootpool.recipes import SettingsError
from rootpool.unknown import unknown_name

__all__ = ["LOGGERS", "make_loggers"]

PROJECT = "rootpool"

# The package that a logger needs, and how it is made for the folder of a run.
LOGGERS: dict[str, tuple[str, Callable[[Path], Logger]]] = {
    "tensorboard": (
        "tensorboard",
        lambda folder: TensorBoardLogger(folder, name="", version="", default_hp_metric=False),
    ),
    "wandb": (
        "wandb",
        lambda folder: WandbLogger(
            name=folder.name, save_dir=folder, project=PROJECT, id=folder.name, resume="allow"
        ),
    ),
    "mlflow": (
        "mlflow",
        lambda folder: MLFlowLogger(
            PROJECT, run_name=folder.name, save_dir=str(folder.parent / "mlruns")
        ),
    ),
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
