"""Configurations as nested dictionaries: merged, and changed by ``key=value``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["SettingsError", "apply_overrides", "merge"]


class SettingsError(ValueError):
    """A configuration that cannot be used: says which key, and what to try."""


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
    import yaml

    result = dict(config)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise SettingsError(f"an override is key=value, such as model.lr=0.1; got {override!r}")
        try:
            value = _number(yaml.safe_load(text))
        except (yaml.YAMLError, ValueError) as error:
            raise SettingsError(f"the value of {key!r} is not YAML: {text!r} ({error})") from error
        for part in reversed(key.split(".")):
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
