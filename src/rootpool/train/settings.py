"""The effective configuration of a run: checked and completed, from recipes, command line and studies.

A configuration is a nested dictionary with the keys ``seed``, ``hybrid`` (a `HybridSchedule`),
``save_every``, ``spectrum_every``, ``patience``, ``ema``, ``conditioning``, ``loggers``, ``model``
(arguments of `PooledTraining`), ``data`` (of `ImageData`) and ``trainer`` (of Lightning's Trainer).
`resolve` checks it, fills in the defaults and returns the effective configuration.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import lightning.pytorch as pl
import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from rootpool.recipes import SettingsError, check_keys, merge
from rootpool.recipes.keys import DECIDED

from .conditioning import Conditioning
from .datamodule import ImageData
from .hybrid import HybridSchedule
from .module import PooledTraining

__all__ = ["as_yaml", "check_same", "hybrid_schedule", "resolve"]

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
    # Epochs without a lower validation error after which a training ends; 0 for never.
    made.add_argument("--patience", type=int, default=0)
    # How much of the averaged weights is kept at a step, such as 0.999; null for no average.
    made.add_argument("--ema", type=float | None, default=None)
    # Of the layer before the covariance: its gradient made orthogonal (nog), its rate the optimal one (olr).
    made.add_argument("--conditioning", type=Conditioning | None, default=None)
    made.add_argument("--loggers", type=list[str], default=["tensorboard"])
    made.add_class_arguments(PooledTraining, "model", skip=DECIDED["model"])
    made.add_class_arguments(ImageData, "data", skip=DECIDED["data"])
    made.add_class_arguments(pl.Trainer, "trainer", skip=DECIDED["trainer"] | _BY_NAME.keys())
    for name, default in _BY_NAME.items():
        made.add_argument(f"--trainer.{name}", type=str | None, default=default)
    return made


def resolve(config: Mapping[str, Any]) -> Namespace:
    """The effective configuration: checked, typed, with all defaults.

    Raises:
        SettingsError: for unknown keys (with the nearest known one) and values of a wrong type.
    """
    check_keys(config)
    try:
        settings = parser().parse_object(dict(config))
        hybrid_schedule(settings)
        return settings
    except (ArgumentError, TypeError, ValueError) as error:
        raise SettingsError(
            f"the configuration cannot be used: {_in_short(error, config)}"
        ) from error


def _in_short(error: Exception, config: Mapping[str, Any]) -> str:
    """What jsonargparse says in many lines: key, type and value."""
    found = re.search(r'Parser key "([\w.]+)"', str(error))
    key = found.group(1) if found else ""
    action = next((action for action in parser()._actions if action.dest == key), None)
    wanted = getattr(action, "_typehint", None)
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if key == "hybrid" and not isinstance(value, Mapping):
        return f"hybrid must be settings such as hybrid.switch_epoch=5, or null, got {value!r}"
    if action is None or wanted is None or key == "hybrid":
        return str(error)
    return f"{key} must be {_described(wanted)}, got {value!r}"


def _described(wanted: Any) -> str:
    """A type in words: its values where they can be counted."""
    if get_origin(wanted) in (Union, types.UnionType):
        parts = get_args(wanted)
        words = [word for p in parts if get_origin(p) is Literal for word in get_args(p)]
        others = [_described(part) for part in parts if get_origin(part) is not Literal]
        listed = [", ".join(dict.fromkeys(map(str, words)))] if words else []
        return " or ".join(dict.fromkeys([*listed, *others]))
    if get_origin(wanted) is Literal:
        return ", ".join(map(str, get_args(wanted)))
    if wanted is type(None):
        return "null"
    if get_origin(wanted) is list:
        return f"a list such as [{_EXAMPLES.get(get_args(wanted)[0], '...')}]"
    if get_origin(wanted) is tuple:
        return "a pair such as [256, 256]"
    return _TYPES.get(wanted, getattr(wanted, "__name__", str(wanted)))


_TYPES = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
_EXAMPLES = {int: "5, 10", float: "0.1, 0.2", str: "a, b"}


def hybrid_schedule(settings: Namespace) -> HybridSchedule | None:
    """The schedule of a hybrid run; None for a standalone one."""
    return None if settings.hybrid is None else HybridSchedule(**settings.hybrid.as_dict())


def as_yaml(settings: Namespace) -> str:
    """The effective configuration as YAML that `resolve` reads back to the same."""
    # jsonargparse leaves out what is None or, by another name in each version, does not.
    plain = yaml.safe_load(parser().dump(settings))
    everything = merge(settings.as_dict(), plain)
    text: str = yaml.safe_dump(everything, sort_keys=False, allow_unicode=True)
    return text


# What may change when a run is continued: where and how fast it computes, how long, what it writes.
_FREE = (
    "data.root",
    "data.workers",
    "loggers",
    "model.weights",
    "patience",
    "save_every",
    "spectrum_every",
    "trainer.",
)
_FIXED = (
    "trainer.accumulate_grad_batches",
    "trainer.gradient_clip_",
)


def check_same(before: Mapping[str, Any], settings: Namespace) -> None:
    """Raise if a run that is continued would be another one than that of its ``config.yaml``.

    Args:
        before: what the file holds.
        settings: what was asked for now.
    """
    old, new = flat_values(resolve(before)), flat_values(settings)
    for values in (old, new):  # the default was called so once
        if values.get("model.compute_dtype") == "float64":
            values["model.compute_dtype"] = None
    changed = [
        f"{key} was {old.get(key)} and is {new.get(key)}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key) and (key.startswith(_FIXED) or not key.startswith(_FREE))
    ]
    if changed:
        raise SettingsError(
            f"the run that is to be continued had other settings: {'; '.join(changed)}. Leave them out, or "
            "begin a new run with another --output (and --weights to start from this one)"
        )


def flat_values(settings: Namespace) -> dict[str, Any]:
    """Values by dotted key; options that are dictionaries are one value."""
    return dict(Namespace(settings).items())
