"""What a run is made from: one parser for recipes, command line and studies.

A configuration is a nested dictionary with the keys ``seed``, ``hybrid`` (a `HybridSchedule`),
``save_every``, ``spectrum_every``, ``model`` (arguments of `PooledTraining`), ``data`` (of `ImageData`) and
``trainer`` (of Lightning's Trainer). `resolve` checks it, fills in the defaults and returns the effective
configuration.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import lightning.pytorch as pl
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from rootpool.unknown import unknown_name

from .bounded_yaml import parse_yaml
from .datamodule import ImageData
from .hybrid import HybridSchedule
from .module import PooledTraining

__all__ = ["SettingsError", "apply_overrides", "as_yaml", "hybrid_schedule", "merge", "resolve"]

# What `run.prepare` decides by itself: not for a configuration.
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
# Trainer takes objects here too, and jsonargparse would import what a text names as their class.
_BY_NAME = {"accelerator": "auto", "profiler": None, "strategy": "auto"}

DEEPEST_KEY = 10  # parts
LONGEST_MESSAGE = 2000  # characters
# jsonargparse reads texts as YAML where a number could be. More aliases than these can swell.
MOST_STARS = 20


class SettingsError(ValueError):
    """A configuration that cannot be used: says which key, and what to try."""


@functools.cache
def parser() -> ArgumentParser:
    """The parser of a configuration; made once, because reading Trainer's signature takes a second."""
    made = ArgumentParser(exit_on_error=False)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--hybrid", type=HybridSchedule | None, default=None)
    # Steps between two checkpoints within an epoch, and between two looks at the spectra; 0 for none.
    made.add_argument("--save_every", type=int, default=0)
    made.add_argument("--spectrum_every", type=int, default=0)
    made.add_class_arguments(PooledTraining, "model", skip={"num_classes", "classes", "seed"})
    made.add_class_arguments(ImageData, "data", skip={"seed"})
    made.add_class_arguments(pl.Trainer, "trainer", skip=_TRAINER_SKIP | _BY_NAME.keys())
    for name, default in _BY_NAME.items():
        made.add_argument(f"--trainer.{name}", type=str | None, default=default)
    return made


def merge(base: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries one over the other; what is not a dictionary is replaced.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    merged = dict(base)
    for other in others:
        for key, value in other.items():
            old = merged.get(key)
            nested = isinstance(old, Mapping) and isinstance(value, Mapping)
            merged[key] = merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def apply_overrides(config: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A configuration with ``key.sub=value`` replaced; values are read as YAML.

    >>> apply_overrides({"model": {"lr": 0.1}}, ["model.lr=0.5", "trainer.max_epochs=3"])
    {'model': {'lr': 0.5}, 'trainer': {'max_epochs': 3}}
    """
    result = dict(config)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise SettingsError(f"an override is key=value, such as model.lr=0.1; got {override!r}")
        try:
            value = _number(parse_yaml(text))
        except ValueError as error:
            shown = f"the value of {key[:80]!r} is not YAML: {text[:80]!r} ({error})"
            raise SettingsError(shown) from error
        parts = key.split(".")
        if len(parts) > DEEPEST_KEY:
            raise SettingsError(
                f"a key has at most {DEEPEST_KEY} parts, such as model.lr; got {len(parts)}: {key[:80]}..."
            )
        for part in reversed(parts):
            value = {part: value}
        result = merge(result, value)
    return result


def _number(value: Any) -> Any:
    # YAML 1.1 reads 1e-3 as a string: it wants 1.0e-3.
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def resolve(config: Mapping[str, Any]) -> Namespace:
    """The effective configuration: checked, typed, with all defaults.

    Raises:
        SettingsError: for unknown keys (with the nearest known one) and values of a wrong type.
    """
    _check_keys(config)
    _check_texts(config)
    try:
        settings = parser().parse_object(dict(config))
        hybrid_schedule(settings)
        return settings
    except (ArgumentError, TypeError, ValueError) as error:
        text = str(error)[:LONGEST_MESSAGE]
        raise SettingsError(f"the configuration cannot be used: {text}") from error


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


def _check_texts(config: Mapping[str, Any]) -> None:
    if not isinstance(config.get("hybrid"), Mapping | None):
        raise SettingsError(f"hybrid has keys, such as switch_epoch; got {config['hybrid']!r:.80}")
    values = [config]
    for value in values:  # which grows meanwhile
        if isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
        elif isinstance(value, str) and value.count("*") > MOST_STARS:
            raise SettingsError(f"no value has more than {MOST_STARS} stars; got {value[:80]!r}")


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
