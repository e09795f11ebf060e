"""The verdicts of our own record, kept with the package: what ``python -m studies paper --list`` shows.

``recorded.json`` has one study per family of recipes, written by ``python -m studies paper --record``.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rootpool.files import write_atomically

from .result import Result

__all__ = ["add_record", "load_recorded", "recorded_verdicts"]

# What a reader calls the networks of the families that were recorded.
NETWORKS = {
    "patches": "without batch norm",
    "patches-norm": "with batch norm",
    "cifar10": "CIFAR-10",
    "birds-lite": "birds, fine-tuned",
}
NOT_MEASURED = "not measured"


@functools.cache
def load_recorded() -> dict[str, Any]:
    """The studies by family, each with ``seeds`` and the ``verdicts`` by name of the entry."""
    file = importlib.resources.files(__package__) / "recorded.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def recorded_verdicts(entry: str) -> dict[str, str]:
    """The recorded verdicts on an entry, by network."""
    return {
        NETWORKS.get(family, family): study["verdicts"][entry]
        for family, study in load_recorded().items()
        if entry in study["verdicts"]
    }


def add_record(path: Path, family: str, seeds: int, results: Mapping[str, Result | None]) -> None:
    """Put the verdicts of a study into a file, in the place of earlier ones of the same family."""
    studies = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    verdicts = {
        name: NOT_MEASURED if result is None else result.verdict for name, result in results.items()
    }
    studies[family] = {"seeds": seeds, "verdicts": verdicts}
    write_atomically(path, json.dumps(studies, indent=1) + "\n")
