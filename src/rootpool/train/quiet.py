"""What Lightning says that nobody can act upon."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

__all__ = ["quiet_lightning"]

_NOT_NEWS = (
    "Checkpoint directory .* exists and is not empty",  # ours: configuration and records are there too
    "The dirpath has changed",  # a run that begins from another's checkpoint saves to its own folder
    ".*does not have many workers",  # embedded data needs none
    r"The number of training batches .* is smaller than the logging interval",
    r".*isinstance\(treespec, LeafSpec\).* is deprecated",  # Lightning's own use of torch
)


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Let Lightning warn of what matters, and advertise nothing."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    with warnings.catch_warnings():
        for message in _NOT_NEWS:
            warnings.filterwarnings("ignore", message=message)
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.setLevel(level)
