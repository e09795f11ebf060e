"""Nested dictionaries to nested dataclasses, by their type hints; errors name key, type and value."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rootpool.suggest import unknown_name

from .config import SettingsError

__all__ = ["Numbers", "from_dictionary", "known_keys"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Which numbers a key takes, in ``Annotated[float, Numbers(...)]``: in words, and as a test."""

    words: str
    include: Callable[[Any], bool]


def from_dictionary(kind: type[T], config: Any) -> T:
    """A dataclass from a dictionary whose keys are among its fields; the others have their defaults.

    Numbers may be written as integers or, as YAML reads 1e-3, as text. Lists stand for tuples.

    Raises:
        SettingsError: for an unknown key, a missing one, or a value of a wrong type.
    """
    made: T = _nested(kind, config, "", kind)
    return made


def known_keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a dataclass and of those within it, with dots."""
    for name, hint in get_type_hints(kind).items():
        within = [part for part in _parts(hint) if dataclasses.is_dataclass(part)]
        if within:
            yield from known_keys(within[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _nested(kind: Any, config: Any, key: str, root: Any) -> Any:
    hints, inside = get_type_hints(kind), f"{key}." if key else ""
    if not isinstance(config, Mapping):
        example = next(known_keys(kind))
        raise SettingsError(
            f"{key or 'a configuration'} must be settings such as {inside}{example}=..., got {config!r}"
        )
    for name in config:
        if name not in hints:
            raise SettingsError(
                unknown_name("key", f"{inside}{name}", known_keys(root), "rootpool train --show")
            )
    values = {
        name: _converted(hints[name], value, f"{inside}{name}", root)
        for name, value in config.items()
    }
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for part in _parts(hint):
            numbers = part.__metadata__[0] if get_origin(part) is Annotated else None
            value = values.get(name)
            if numbers and value is not None and not numbers.include(value):
                raise SettingsError(f"{inside}{name} must be {numbers.words}, got {value}")
    try:
        return kind(**values)
    except TypeError as error:  # names the fields that are missing
        missing = [part.name for part in dataclasses.fields(kind) if part.name not in values]
        raise SettingsError(f"{key} needs {inside}{missing[0]}") from error


def _converted(hint: Any, value: Any, key: str, root: Any) -> Any:
    parts = _parts(hint)
    # As it is written, if that is possible: 1 is one batch, and 1.0 all of them.
    if any(_is_exactly(part, value) for part in parts):
        return value
    for part in parts:
        kind, inside = get_origin(part) or part, get_args(part)
        if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                return float(value)
        if dataclasses.is_dataclass(kind):
            return _nested(kind, value, key, root)
        if kind is dict and isinstance(value, Mapping):
            return copy.deepcopy(dict(value))
        if kind in (list, tuple) and isinstance(value, list | tuple):
            hints = inside if kind is tuple else inside * len(value)
            if len(hints) == len(value):
                # A member with keys of its own is named itself; below, the whole is.
                own = any(map(dataclasses.is_dataclass, hints))
                with contextlib.suppress(*() if own else (SettingsError,)):
                    return kind(map(_converted, hints, value, repeat(key), repeat(root)))
    described = " or ".join(map(_in_words, parts))
    raise SettingsError(f"{key} must be {described}, got {value!r}")


def _is_exactly(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        # True == 1, but it is another value.
        return any(value == each and type(value) is type(each) for each in get_args(hint))
    return hint is Any or type(value) is hint


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union; other types are their own."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _in_words(hint: Any) -> str:
    """A type in words: its values where they can be counted."""
    literal = get_origin(hint) is Literal
    return (
        ", ".join(map(str, get_args(hint))) if literal else _WORDS.get(hint, "a list of settings")
    )


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
