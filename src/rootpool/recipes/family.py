"""Families of recipes: what the experiments with one network on one data set share.

A family is a YAML file in the folder ``families``. It holds settings and, besides them,

- ``about``: one line;
- ``base``: another family, whose settings it changes;
- ``protocols``: for each way of training besides the plain one, the settings that it adds;
- ``methods``: for single methods, the settings that differ;
- ``needs``: what the user has to bring, as option and description;
- ``fine_tunes``: the family whose checkpoints it starts from, of the same method;
- ``stands_for``: the family of the paper in whose columns its results stand;
- ``chosen``: how its settings were chosen, if by results, for readers of what is measured with them;
- ``layout``: the layout of data for which ``rootpool paper`` trains it, which a ``base`` does not pass on.

What a ``base`` has and the family has not is ``null``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

from .config import merge, read_yaml

__all__ = ["Family", "families"]

_FOLDER = resources.files(__package__) / "families"


@dataclass(frozen=True)
class Family:
    """What the experiments with one network on one data set share.

    Args:
        name: the first part of the names of its recipes.
        about: one line.
        config: settings of every recipe.
        protocols: by protocol, the settings that it adds.
        methods: by method, the settings that differ.
        needs: what the user has to bring, as option: what it is.
        fine_tunes: the family whose checkpoints it starts from.
        stands_for: the family of the paper in whose columns its results stand; None for its own.
        chosen: how its settings were chosen, if by results.
        layout: the layout of data for which ``rootpool paper`` trains this family.
    """

    name: str
    about: str
    config: Mapping[str, Any]
    protocols: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    fine_tunes: str | None = None
    stands_for: str | None = None
    chosen: str = ""
    layout: str | None = None


@functools.cache
def families() -> dict[str, Family]:
    """All families by name.

    >>> families()["alexnet-imagenet"].about
    'AlexNet on ImageNet'
    >>> families()["dogs"].layout, families()["resnet101-imagenet"].layout
    ('stanford-dogs', None)
    """
    suffix = ".yaml"
    files = sorted(file.name for file in _FOLDER.iterdir() if file.name.endswith(suffix))
    return {name: _family(name) for name in (file.removesuffix(suffix) for file in files)}


def _family(name: str) -> Family:
    content = _content(name)
    parts = {part.name for part in fields(Family)} - {"name", "config"}
    given = {part: content.pop(part) for part in parts if part in content}
    return Family(name, config=content, **{part: x for part, x in given.items() if x is not None})


def _content(name: str) -> dict[str, Any]:
    content = read_yaml(_FOLDER / f"{name}.yaml")
    base = content.pop("base", None)
    if base is None:
        return content
    shared = {key: value for key, value in _content(base).items() if key != "layout"}
    return merge(shared, content)
