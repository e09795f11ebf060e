"""What a person reads of a training: a line per epoch.

Records and Lightning count epochs from zero; all that a person reads counts them from one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

__all__ = ["epoch_line"]


def epoch_line(record: dict[str, Any], epochs: int | None, rate: float, each: float) -> str:
    """An epoch in words.

    Args:
        record: of the history.
        epochs: of the whole training; None or -1 where that is not known.
        rate: images per second.
        each: seconds of an epoch.

    >>> record = {"epoch": 0, "lr": 0.1, "train_loss": 2.5, "train_error": 61.0, "val_error": 50.0}
    >>> epoch_line(record, 10, 512.3, 400.0)
    'epoch 1 of 10: train loss 2.500, error 61.00 %; val error 50.00 %; lr 0.1; 512 images/s; 1:00:00 left'
    """
    parts = []
    for split in ("train", "val"):
        texts = [
            f"{name} {record[f'{split}_{name}']:{form}}"
            for name, form in (("loss", ".3f"), ("error", ".2f"))
            if f"{split}_{name}" in record
        ]
        if texts:
            parts.append(f"{split} {', '.join(texts)}" + " %" * texts[-1].startswith("error"))
    parts += [f"lr {record['lr']:.3g}", f"{rate:.0f} images/s"]
    known = epochs is not None and epochs > 0
    left = (epochs or 0) - record["epoch"] - 1
    if known and left > 0:
        parts.append(f"{timedelta(seconds=max(round(each * left), 1))} left")
    return f"epoch {record['epoch'] + 1}{f' of {epochs}' * known}: " + "; ".join(parts)
