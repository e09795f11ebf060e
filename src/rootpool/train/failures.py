"""Explain the death of a process that a training depends on, and what Lightning and loggers refuse."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from lightning.fabric.utilities.exceptions import MisconfigurationException

from rootpool.train.config import SettingsError

__all__ = ["explained_deaths"]

_DEATHS: tuple[tuple[str, type[OSError], str], ...] = (
    (
        r"DataLoader worker \(pid",
        ChildProcessError,
        "a process that loads images has died ({}), often because memory was full. Continue with --resume; "
        "if it happens again, with fewer data.workers",
    ),
    (
        r"Connection closed by peer|Connection reset by peer|Broken pipe|NCCL communicator was aborted",
        ConnectionError,
        "another process of this training has ended ({}); its own message says why. Continue with --resume",
    ),
)


@contextmanager
def explained_deaths() -> Iterator[None]:
    """Replace errors that are not ours by those that say what to do.

    Raises:
        ChildProcessError: a process that loads images died.
        ConnectionError: another process of the training died.
        SettingsError: Lightning cannot use the settings of its trainer, or a logger cannot log.
    """
    try:
        yield
    except MisconfigurationException as error:
        text = " ".join(str(error).split())
        raise SettingsError(f"the settings of the trainer cannot be used here: {text}") from error
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package in ("wandb", "mlflow"):
            text = " ".join(str(error).split())
            raise SettingsError(f"{package} cannot log this training: {text}") from error
        if _lost_in_handing_over(error):
            raise ChildProcessError(_DEATHS[0][2].format(f"DataLoader worker: {error}")) from error
        for reason in _reasons(error):
            first_line = (str(reason).splitlines() or [""])[0]
            for pattern, kind, text in _DEATHS:
                if isinstance(reason, RuntimeError) and re.search(pattern, str(reason)):
                    raise kind(text.format(first_line)) from error
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
