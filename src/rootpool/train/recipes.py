"""The recipes: one YAML file an experiment, each on top of the base file that it names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from .settings import SettingsError, merge

__all__ = ["Recipe", "load_recipe", "recipe_names"]

_FOLDER = resources.files(__package__) / "recipes"


@dataclass(frozen=True)
class Recipe:
    """An experiment as data.

    Args:
        name: of its file.
        about: one line.
        config: what `rootpool.train.settings.resolve` takes.
        needs: what the user has to bring, as option: what it is.
    """

    name: str
    about: str
    config: dict[str, Any]
    needs: dict[str, str] = field(default_factory=dict)


def recipe_names() -> list[str]:
    """The names of all recipes.

    >>> "alexnet-imagenet-svd-pade-hybrid" in recipe_names()
    True
    """
    return sorted(
        f.name.removesuffix(".yaml") for f in _FOLDER.iterdir() if f.name.endswith(".yaml")
    )


def load_recipe(name: str) -> Recipe:
    """Read a recipe and its bases.

    >>> load_recipe("alexnet-imagenet-svd-pade-hybrid").config["hybrid"]
    {'switch_epoch': 19, 'warmup_epochs': 1}
    """
    names = recipe_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise SettingsError(
            f"unknown recipe {name!r}; {hint}(rootpool recipes lists all {len(names)})"
        )
    content = _read(f"{name}.yaml")
    about, needs = content.pop("about"), content.pop("needs", {})
    return Recipe(name, about, content, needs)


def _read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(_FOLDER.joinpath(path).read_text("utf-8"))
    base = content.pop("base", None)
    return content if base is None else merge(_read(f"base/{base}.yaml"), content)
