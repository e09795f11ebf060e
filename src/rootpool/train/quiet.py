"""Silence the messages of Lightning that a user cannot act on."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["quiet_lightning"]

_SILENCED = (
    "Checkpoint directory .* exists and is not empty",  # ours: configuration and records are there too
    "The dirpath has changed",  # a run that begins from another's checkpoint saves to its own folder
    r".*could not find the monitored key",  # an epoch without validation cannot be the best
    r"It is recommended to use .*sync_dist=True",  # ours are the same in all processes
    r"Found .* in eval mode at the start of training",  # what model.freeze asks for
    ".*does not have many workers",  # embedded data needs none
    r"The number of training batches .* is smaller than the logging interval",
    r".*isinstance\(treespec, LeafSpec\).* is deprecated",  # Lightning's own use of torch
)


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence advertisements and the warnings above; let all others through."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    with warnings.catch_warnings():
        for message in _SILENCED:
            warnings.filterwarnings("ignore", message=message)
        shown = warnings.formatwarning
        warnings.formatwarning = _plain  # type: ignore[assignment]
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.setLevel(level)
            warnings.formatwarning = shown


def _plain(message: Warning | str, *args: Any) -> str:
    """A warning without the path of the file that gave it."""
    return f"rootpool: warning: {' '.join(str(message).split())}\n"
