"""Folders that ``rootpool train`` wrote, read and grouped; only files are read, nothing is trained."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .records import Record, flatten, read_records, read_yaml

__all__ = ["Right", "RunFolder", "RunGroup", "best_epoch", "group_runs", "read_run"]

Right: TypeAlias = NDArray[np.bool_]  # for each image, whether it was recognised

CONFIG, HISTORY, SPECTRUM, TIMING = "config.yaml", "history.csv", "spectrum.csv", "timing.csv"
RESULT = "result.json"
LONGEST_LABEL = 60


@dataclass(frozen=True)
class RunFolder:
    """One training: its settings by dotted key, and the records that it wrote.

    ``right`` says for each validation image whether it was recognised; None if that is not known. What the
    end of a training writes is None before: ``seconds`` it took, ``classes``, validation ``images``. Only a
    training that diverged has ``diverged``: the epoch and step where its numbers stopped being finite.
    """

    folder: Path
    seed: int
    settings: Mapping[str, Any]  # without the seed
    history: Sequence[Record]
    spectrum: Sequence[Record]
    timing: Sequence[Record]
    right: Right | None = None
    seconds: float | None = None
    classes: int | None = None
    images: int | None = None
    diverged: Mapping[str, int] | None = None

    @property
    def hybrid(self) -> bool:
        """Whether the method changes during the training."""
        return any(key.startswith("hybrid.") for key in self.settings)


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed, under one label."""

    label: str
    runs: Sequence[RunFolder]

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.runs[0].settings

    @property
    def tags(self) -> Record:
        """What the plots need to know about the group."""
        return {
            "run": self.label,
            "method": str(self.settings.get("model.method", self.label)),
            "protocol": "hybrid" if self.runs[0].hybrid else "standalone",
        }

    @property
    def right(self) -> dict[int, Right]:
        """By seed, which images were recognised; without the runs that do not know."""
        return {run.seed: run.right for run in self.runs if run.right is not None}

    def records(self, file: str) -> list[Record]:
        """The rows of ``"history"``, ``"spectrum"`` or ``"timing"`` of all seeds, with their tags."""
        return [
            {**self.tags, "seed": run.seed, **row}
            for run in self.runs
            for row in getattr(run, file)
        ]


def read_run(folder: str | Path) -> RunFolder:
    """Read the folder of one training, finished or not.

    Raises:
        ValueError: the folder does not exist, is not a run, or has no finished epoch and has not diverged in
            its first; the message says which.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give folders that 'rootpool train' wrote")
    if not (folder / CONFIG).is_file():
        inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
        hint = f"; did you mean {folder}/{inside[0]}?" if inside else ""
        raise ValueError(f"{folder} is not a run: it has no {CONFIG}{hint}")
    settings = flatten(read_yaml(folder / CONFIG))
    seed = settings.pop("seed", 0)
    history, spectrum, timing = (
        read_records(folder / name) if (folder / name).is_file() else []
        for name in (HISTORY, SPECTRUM, TIMING)
    )
    result = _result(folder / RESULT)
    if not history and result.get("diverged") is None:
        raise ValueError(f"{folder} has no {HISTORY}: no epoch of this run is finished yet")
    return RunFolder(folder, seed, settings, history, spectrum, timing, **result)


def _result(path: Path) -> dict[str, Any]:
    """What the end of a training wrote; nothing while it goes on."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = {key: content[key] for key in ("seconds", "classes", "images", "diverged")}
        right = np.ones(found["images"], bool) if found["images"] else None
        if right is not None:
            right[content["missed"]] = False
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(
            f"{path} is corrupt ({error!r}); delete it and the run again, or train it anew"
        ) from error
    return {"right": right, **found}


def best_epoch(history: Sequence[Record]) -> Record | None:
    """The record with the lowest validation error, the first of several; None without a validation."""
    measured = [row for row in history if math.isfinite(row.get("val_error", math.nan))]
    return min(measured, key=lambda row: row["val_error"], default=None)


def group_runs(runs: Sequence[RunFolder], labels: Sequence[str] | None = None) -> list[RunGroup]:
    """Runs with equal settings and different seeds together, in order of appearance.

    Args:
        runs: as :func:`read_run` gives them.
        labels: of the runs; those with the same label are a group. Without them a group of several seeds
            is labelled by the settings that set it apart, and a run without repetitions by its folder.

    Returns:
        The groups, each with its label.
    """
    if labels is not None:
        named: dict[str, list[RunFolder]] = {}
        for label, run in zip(labels, runs, strict=True):
            named.setdefault(label, []).append(run)
        return [RunGroup(label, group) for label, group in named.items()]
    groups: list[list[RunFolder]] = []
    for run in runs:
        for group in groups:
            # The same seed again is not a repetition: it begins another group.
            if group[0].settings == run.settings and run.seed not in [r.seed for r in group]:
                group.append(run)
                break
        else:
            groups.append([run])
    settings = [group[0].settings for group in groups]
    keys = different_settings(settings) if len(groups) < len(runs) else []
    found: list[RunGroup] = []
    for group, values in zip(groups, settings, strict=True):
        label = ", ".join(_named(key, values.get(key)) for key in keys)
        if len(groups) == 1 < len(runs):
            label = str(values.get("model.method", ""))
        usable = 0 < len(label) <= LONGEST_LABEL and label not in [other.label for other in found]
        found.append(RunGroup(label if usable else str(group[0].folder), group))
    return found


def different_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same everywhere; one that is missing counts as None."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if any(one.get(key) != settings[0].get(key) for one in settings)]


def _named(key: str, value: Any) -> str:
    """A setting in a label; a method needs no name.

    >>> _named("model.method", "exact"), _named("model.lr", 0.1)
    ('exact', 'lr 0.1')
    """
    return str(value) if key == "model.method" else f"{key.rpartition('.')[2]} {value}"
