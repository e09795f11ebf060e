"""Lightning's Trainer as we use it: quiet, with errors that say what to do, and loggers by name."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from rootpool.suggest import unknown_name

from .config import SettingsError
from .data import BadImageError
from .strategies import make_strategy

__all__ = ["LOGGERS", "make_loggers", "make_trainer", "quiet_lightning", "translated_errors"]


def make_trainer(*, strategy: Any = "auto", **options: Any) -> pl.Trainer:
    """A Trainer that leaves sampling to our loaders and prints no advertisements."""
    with quiet_lightning(), translated_errors():
        trainer = pl.Trainer(
            **options,
            strategy=make_strategy(strategy),
            use_distributed_sampler=False,  # ours does not pad and does not depend on the number of processes
            enable_model_summary=False,
        )
    # With max_steps it would resume from the end of an epoch as if that epoch were not over.
    trainer.fit_loop._iteration_based_training = lambda: False  # type: ignore[method-assign]
    return trainer


# --------------------------------------------------------------------------------------------------
# Messages that a user cannot act on

_SILENCED = (
    "Checkpoint directory .* exists and is not empty",  # ours: configuration and records are there too
    "The dirpath has changed",  # a run that begins from another's checkpoint saves to its own folder
    r".*could not find the monitored key",  # an epoch without validation cannot be the best
    r"It is recommended to use .*sync_dist=True",  # ours are the same in all processes
    r"Found .* in eval mode at the start of training",  # what model.freeze asks for
    ".*does not have many workers",  # embedded data needs none
    r"The number of training batches .* is smaller than the logging interval",
    "You're using the WeightAveraging callback",  # sharded weights are refused before
    "You requested to overfit but enabled val",  # ours is in order already
    r"`torch\._prims_common\.check` is deprecated",  # torch's own, when it compiles
    r".*isinstance\(treespec, LeafSpec\).* is deprecated",  # Lightning's own use of torch
)


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence advertisements and the warnings above; let all others through, without a path."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level, shown = logger.level, warnings.formatwarning
    with warnings.catch_warnings():
        for message in _SILENCED:
            warnings.filterwarnings("ignore", message=message)
        warnings.formatwarning = lambda message, *_, **__: (
            f"rootpool: warning: {' '.join(str(message).split())}\n"
        )
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.setLevel(level)
            warnings.formatwarning = shown


# --------------------------------------------------------------------------------------------------
# Errors that are not ours

_WORKER = (
    "a process that loads images has died ({}), often because memory was full. Continue with --resume; "
    "if it happens again, with fewer data.workers"
)
_RANK = "another process of this training has ended ({}); its own message says why. Continue with --resume"
_PEER = (
    "Connection closed by peer|Connection reset by peer|Broken pipe|NCCL communicator was aborted"
)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Replace errors that are not ours by those that say what to do.

    Raises:
        BadImageError: an image cannot be decoded.
        ChildProcessError: a process that loads images died.
        ConnectionError: another process of the training died.
        SettingsError: Lightning cannot use the settings of its trainer.
    """
    try:
        yield
    except MisconfigurationException as error:
        text = " ".join(str(error).split())
        raise SettingsError(f"the settings of the trainer cannot be used here: {text}") from error
    except BadImageError as error:  # from a loading process, behind a traceback
        raise BadImageError(
            str(error).splitlines()[-1].partition("BadImageError: ")[2] or str(error)
        ) from error
    except Exception as error:
        if _lost_in_handing_over(error):
            raise ChildProcessError(_WORKER.format(f"DataLoader worker: {error}")) from error
        for reason in _reasons(error):
            first_line = (str(reason).splitlines() or [""])[0]
            if not isinstance(reason, RuntimeError):
                continue
            if "DataLoader worker (pid" in str(reason):
                raise ChildProcessError(_WORKER.format(first_line)) from error
            if re.search(_PEER, str(reason)):
                raise ConnectionError(_RANK.format(first_line)) from error
        raise


def _lost_in_handing_over(error: Exception) -> bool:
    """Whether a process died while a batch of its own was being taken over: no signal has come yet."""
    if not isinstance(error, ConnectionError | EOFError | FileNotFoundError):
        return False
    frames = (frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__))
    return "_try_get_data" in frames  # torch's DataLoader


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """Walk the chain of causes: a worker's death may surface inside an unrelated exception."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


# --------------------------------------------------------------------------------------------------
# Where the curves of a training go besides ``history.csv``

# Lightning's loggers for the folder of a run, by the name of the package that each needs.
LOGGERS: dict[str, Callable[[Path], Logger]] = {
    "tensorboard": lambda at: TensorBoardLogger(at, name="", version="", default_hp_metric=False),
    "wandb": lambda at: WandbLogger(at.name, at, project="rootpool"),
    "mlflow": lambda at: MLFlowLogger("rootpool", at.name, save_dir=str(at / "mlflow")),
}


def make_loggers(names: Sequence[str], folder: Path) -> list[Logger]:
    """The loggers of a run."""
    for name in names:
        if name not in LOGGERS:
            raise SettingsError(unknown_name("logger", name, LOGGERS))
        if importlib.util.find_spec(name) is None:
            raise SettingsError(f"loggers: {name} is not installed; try pip install {name}")
    return [LOGGERS[name](folder) for name in names]
