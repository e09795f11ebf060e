"""The effective configuration of a run: checked and completed, from recipes, command line and studies.

A configuration is a nested dictionary with the keys ``seed``, ``hybrid`` (a `HybridSchedule`),
``save_every``, ``spectrum_every``, ``model`` (arguments of `PooledTraining`), ``data`` (of `ImageData`) and
``trainer`` (of Lightning's Trainer). `resolve` checks it, fills in the defaults and returns the effective
configuration.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from rootpool.recipes import SettingsError
from rootpool.unknown import unknown_name

from .datamodule import ImageData
from .hybrid import HybridSchedule
from .module import PooledTraining

__all__ = ["as_yaml", "hybrid_schedule", "known_keys", "resolve"]

# Decided by `run.prepare`, not by a configuration.
_TRAINER_SKIP = {
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
}
# Trainer also takes objects here, and jsonargparse would import the class that a text names.
_BY_NAME = {"accelerator": "auto", "profiler": None, "strategy": "auto"}


@functools.cache
def parser() -> ArgumentParser:
    """The parser of a configuration; made once, because reading Trainer's signature takes a second."""
    made = ArgumentParser(exit_on_error=False)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--hybrid", type=HybridSchedule | None, default=None)
    # Steps between checkpoints within an epoch, and between records of the spectra; 0 for none.
    made.add_argument("--save_every", type=int, default=0)
    made.add_argument("--spectrum_every", type=int, default=0)
    made.add_class_arguments(PooledTraining, "model", skip={"num_classes", "classes", "seed"})
    made.add_class_arguments(ImageData, "data", skip={"seed"})
    made.add_class_arguments(pl.Trainer, "trainer", skip=_TRAINER_SKIP | _BY_NAME.keys())
    for name, default in _BY_NAME.items():
        made.add_argument(f"--trainer.{name}", type=str | None, default=default)
    return made


def resolve(config: Mapping[str, Any]) -> Namespace:
    """The effective configuration: checked, typed, with all defaults.

    Raises:
        SettingsError: for unknown keys (with the nearest known one) and values of a wrong type.
    """
    _check_keys(config)
    try:
        settings = parser().parse_object(dict(config))
        hybrid_schedule(settings)
        return settings
    except (ArgumentError, TypeError, ValueError) as error:
        raise SettingsError(f"the configuration cannot be used: {error}") from error


def hybrid_schedule(settings: Namespace) -> HybridSchedule | None:
    """The schedule of a hybrid run; None for a standalone one."""
    return None if settings.hybrid is None else HybridSchedule(**settings.hybrid.as_dict())


def known_keys() -> list[str]:
    """Every key of a configuration, with dots."""
    flat = Namespace(parser().get_defaults()).keys()
    keys = [*flat, *(f"hybrid.{name}" for name in HybridSchedule.__dataclass_fields__)]
    return sorted(key for key in keys if key != "hybrid")


def _check_keys(config: Mapping[str, Any]) -> None:
    known = known_keys()
    for key in _flatten(config):
        # Dictionaries with keys of their own.
        free = ("model.method_options.", "model.backbone_options.")
        if key in known or key.startswith(free) or any(k.startswith(f"{key}.") for k in known):
            continue
        raise SettingsError(unknown_name("key", key, known, "rootpool train --show"))


def _flatten(config: Mapping[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            keys += _flatten(value, f"{prefix}{name}.")
        else:
            keys.append(f"{prefix}{name}")
    return keys


def as_yaml(settings: Namespace) -> str:
    """The effective configuration as YAML that `resolve` reads back to the same."""
    text: str = parser().dump(settings)
    return text
