"""Every key of a configuration, without importing torch or Lightning.

Most keys are arguments of a class, and are read from its source here: a key that is spelled wrong is an
error of a tenth of a second, and a shell can complete them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.unknown import unknown_name

from .config import SettingsError

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["DECIDED", "check_keys", "known_keys"]

PLAIN = ("conditioning", "ema", "loggers", "patience", "save_every", "seed", "spectrum_every")
# Arguments of the classes that a training decides, not a configuration.
DECIDED = {
    "model": {"classes", "num_classes", "seed"},
    "data": {"seed"},
    "trainer": {
        "barebones",
        "callbacks",
        "default_root_dir",
        "enable_checkpointing",
        "enable_model_summary",
        "enable_progress_bar",
        "logger",
        "model_registry",
        "plugins",
        "use_distributed_sampler",
    },
}
# What does their work.
_INSTEAD = {
    "callbacks": "; see patience, ema and hybrid, or rootpool.train.prepare(callbacks=...)",
    "logger": "; see loggers",
    "enable_checkpointing": "; see save_every",
}
# Dictionaries with keys of their own.
_FREE = ("model.method_options.", "model.backbone_options.", "model.optimizer_options.")


@functools.cache
def known_keys() -> list[str]:
    """Every key of a configuration, with dots.

    >>> {"seed", "model.lr", "data.root", "hybrid.switch_epoch"} <= set(known_keys())
    True
    """
    ours = resources.files("rootpool") / "train"
    taken = {
        "model": _arguments(ours / "module.py", "PooledTraining"),
        "data": _arguments(ours / "datamodule.py", "ImageData"),
        "hybrid": _fields(ours / "hybrid.py", "HybridSchedule"),
        "trainer": _trainer_arguments(),
    }
    return sorted(
        [
            *PLAIN,
            *(
                f"{part}.{name}"
                for part, names in taken.items()
                for name in names
                if name not in DECIDED.get(part, ())
            ),
        ]
    )


def _class(file: Traversable, name: str) -> ast.ClassDef:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)


def _arguments(file: Traversable, name: str) -> list[str]:
    """Of the constructor of a class."""
    (init,) = (
        node
        for node in _class(file, name).body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    return [argument.arg for argument in (*init.args.args[1:], *init.args.kwonlyargs)]


def _fields(file: Traversable, name: str) -> list[str]:
    """Of a dataclass."""
    lines = _class(file, name).body
    names = (line.target for line in lines if isinstance(line, ast.AnnAssign))
    return [target.id for target in names if isinstance(target, ast.Name)]


def _trainer_arguments() -> list[str]:
    """Of Lightning's Trainer; none where Lightning is not installed, and nothing can be trained."""
    found = find_spec("lightning")
    if found is None or found.origin is None:
        return []
    return _arguments(Path(found.origin).parent / "pytorch" / "trainer" / "trainer.py", "Trainer")


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise a SettingsError for a key that is not known, with the nearest known ones."""
    known = known_keys()
    for key in _flatten(config):
        part, _, name = key.partition(".")
        first = name.split(".")[0]
        if part == "trainer" and first in DECIDED["trainer"]:
            raise SettingsError(
                f"unknown key {key!r}: rootpool train decides it{_INSTEAD.get(first, '')}"
            )
        if key in known or key.startswith(_FREE) or any(k.startswith(f"{key}.") for k in known):
            continue
        raise SettingsError(unknown_name("key", key, known, "rootpool train --show"))


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
