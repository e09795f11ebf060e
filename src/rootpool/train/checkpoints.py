"""Checkpoints that are written completely or not at all, and that load without executing anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from rootpool.files import write_atomically
from rootpool.models.files import load_weights_only

from .config import SettingsError

__all__ = ["AtomicCheckpointIO", "check_classes", "checkpoint_of"]

# What a run needs to continue.
RESUMED = {
    *("state_dict", "optimizer_states", "lr_schedulers"),
    *("loops", "callbacks", "history", "method", "sums"),
}


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoints, written through a temporary file *in the same folder* and a rename.

    (Lightning's own goes through the system's temporary folder, and moving a file from there to another
    disk copies it: a kill in that moment leaves half a checkpoint.)
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        try:
            write_atomically(path, lambda file: torch.save(checkpoint, file))
        except OSError as error:
            raise OSError(
                f"could not write the checkpoint {path}: {error.strerror or error}; the one before it is "
                "still good. Free some space, then continue with --resume"
            ) from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        state = load_weights_only(path)
        missing = RESUMED - state.keys() if isinstance(state, dict) else RESUMED
        if missing:
            raise ValueError(
                f"{path} is not a checkpoint to continue from: it has no {', '.join(sorted(missing))}; "
                "rootpool train writes last.ckpt and best.ckpt"
            )
        return state


def checkpoint_of(path: Path) -> Path:
    """The file itself, or the best checkpoint in the folder of a run."""
    files = [path / "best.ckpt", path / "last.ckpt"] if path.is_dir() else [path]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        where = f"in {path}" if path.is_dir() else str(path)
        raise SettingsError(
            f"there is no checkpoint {where}; rootpool train writes last.ckpt and best.ckpt"
        )
    return found


def check_classes(checkpoint: Path, known: Sequence[str], found: Sequence[str]) -> None:
    """Raise unless data has the classes that a checkpoint knows."""
    if list(known) != list(found):
        pairs = zip_longest(known, found)
        ours, theirs = next(pair for pair in pairs if pair[0] != pair[1])
        raise SettingsError(
            f"{checkpoint} knows {len(known)} classes, the data has {len(found)}, the first other one is "
            f"{theirs!r} instead of {ours!r}; use the data set that it was trained for, or fine-tune with "
            "rootpool train --weights and another --output"
        )
