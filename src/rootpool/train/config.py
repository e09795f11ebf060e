"""Configurations as nested dictionaries: merged, changed by ``key=value``, and read into dataclasses."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rootpool.report.records import parse_yaml
from rootpool.suggest import unknown_name

__all__ = ["SettingsError", "apply_overrides", "from_dictionary", "merge"]

T = TypeVar("T")


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

    >>> apply_overrides({"model": {"lr": 0.1}}, ["model.lr=5e-1", "trainer.max_epochs=3"])
    {'model': {'lr': 0.5}, 'trainer': {'max_epochs': 3}}
    """
    result = dict(config)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise SettingsError(f"an override is key=value, such as model.lr=0.1; got {override!r}")
        try:
            value = parse_yaml(text)
        except ValueError as error:
            raise SettingsError(f"the value of {key!r} is not YAML: {text!r} ({error})") from error
        for part in reversed(key.split(".")):
            value = {part: value}
        result = merge(result, value)
    return result


# --------------------------------------------------------------------------------------------------
# Nested dictionaries to nested dataclasses, by their type hints


def from_dictionary(kind: type[T], config: Any, key: str = "", root: Any = None) -> T:
    """A dataclass from a dictionary whose keys are among its fields; the others have their defaults.

    Numbers may be written as integers, and lists stand for tuples. What a number must be is written in words
    and as a test: ``Annotated[float, "positive", lambda x: x > 0]``.

    Args:
        kind: the dataclass.
        config: the dictionary.
        key: of the dictionary, within that of ``root``.
        root: the dataclass of all keys; None for ``kind``.

    Raises:
        SettingsError: for an unknown key, a missing one, or a value of a wrong type or beyond its range.
    """
    hints, inside = get_type_hints(kind, include_extras=True), f"{key}." if key else ""
    if not isinstance(config, Mapping):
        raise SettingsError(
            f"{key or 'a configuration'} must be settings such as {inside}{next(_keys(kind))}=..., got "
            f"{config!r}"
        )
    for name in config:
        if name not in hints:
            known = _keys(root or kind)
            raise SettingsError(
                unknown_name("key", f"{inside}{name}", known, "rootpool train --show")
            )
    for part in fields(kind):  # type: ignore[arg-type]
        if part.name not in config and part.default is part.default_factory is MISSING:
            raise SettingsError(f"{key} needs {inside}{part.name}")
    values = {n: _read(hints[n], x, f"{inside}{n}", root or kind) for n, x in config.items()}
    return kind(**values)


def _read(hint: Any, value: Any, key: str, root: Any) -> Any:
    # As it is written, if that is possible: 1 is one batch, and 1.0 all of them.
    part = max(_parts(hint), key=lambda part: _fit(part, value))
    if not _fit(part, value):
        words = " or ".join(map(_in_words, _parts(hint)))
        raise SettingsError(f"{key} must be {words}, got {value!r}")
    if get_origin(part) is Annotated:
        part, words, fits = get_args(part)
        if not fits(value):
            raise SettingsError(f"{key} must be {words}, got {value}")
    kind, members = get_origin(part), get_args(part)
    if is_dataclass(part):
        return from_dictionary(part, value, key, root)  # type: ignore[arg-type]
    if kind in (list, tuple):
        hints = members if kind is tuple else members * len(value)
        return kind(_read(h, x, key, root) for h, x in zip(hints, value, strict=True))
    return float(value) if part is float else copy.deepcopy(value)


def _keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a dataclass and of those within it, with dots."""
    for name, hint in get_type_hints(kind).items():
        within = [part for part in _parts(hint) if is_dataclass(part)]
        if within:
            yield from _keys(within[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union; other types are their own."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fit(hint: Any, value: Any) -> int:
    """Whether a value has a type (2), can be read as it (1), or neither (0)."""
    kind, members = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _fit(members[0], value)
    if kind is Literal:  # True == 1, but it is another value
        return 2 * any(value == each and type(value) is type(each) for each in members)
    if kind in (list, tuple) and isinstance(value, list | tuple):
        hints = members if kind is tuple else members * len(value)
        return len(hints) == len(value) and all(map(_fit, hints, value))
    if hint is Any or type(value) is hint:
        return 2
    if kind is dict or is_dataclass(hint):  # which says itself what is wrong
        return kind is None or isinstance(value, Mapping)
    return hint is float and type(value) is int


def _in_words(hint: Any) -> str:
    """A type in words: its values where they can be counted."""
    if get_origin(hint) is Annotated:
        return _in_words(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    return _WORDS.get(hint, "a list of settings")


_WORDS = {
    bool: "true or false",
    dict[str, Any]: "settings such as {name: value}",
    float: "a number",
    int: "an integer",
    list[float]: "a list such as [0.1, 0.2]",
    list[int]: "a list such as [5, 10]",
    list[str]: "a list such as [a, b]",
    str: "text",
    tuple[int, int]: "a pair such as [256, 256]",
    type(None): "null",
}
