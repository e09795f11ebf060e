"""Recipes: a family, a method and a protocol composed, or a user's own YAML file."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rootpool.unknown import unknown_name

from .config import SettingsError, merge, read_yaml
from .family import Family, families
from .methods import GAP, method_sources, pooling_names

__all__ = [
    "HYBRID",
    "STANDALONE",
    "Recipe",
    "load_recipe",
    "protocols_of",
    "recipe",
    "recipe_names",
]

STANDALONE, HYBRID = "standalone", "hybrid"
START = "isqrt-cov"  # what a hybrid training begins with


@dataclass(frozen=True)
class Recipe:
    """An experiment as data.

    Args:
        name: what it is called, as is its folder of results.
        about: one line.
        config: what `rootpool.train.resolve` takes.
        needs: what the user has to bring, as option: what it is.
        family: name of its family; None for a user's own.
        method: the pooling of the network, after the last switch; None where a user's own leaves it open.
        protocol: ``standalone``, or one of the protocols of its family.
    """

    name: str
    about: str
    config: dict[str, Any]
    needs: dict[str, str] = field(default_factory=dict)
    family: str | None = None
    method: str | None = None
    protocol: str = STANDALONE


def recipe(family: str, method: str, protocol: str = STANDALONE) -> Recipe:
    """Compose a recipe.

    >>> recipe("alexnet-imagenet", "svd-pade", "hybrid").config["hybrid"]
    {'switch_epoch': 19, 'warmup_epochs': 1}
    """
    if protocol not in protocols_of(family, method):
        raise SettingsError(
            f"{family} has no recipe {protocol!r} for {method}; it has "
            f"{', '.join(protocols_of(family, method))}"
        )
    shared = families()[family]
    needs = dict(shared.needs)
    if shared.fine_tunes is not None:
        needs["--weights"] = f"a checkpoint of {_best(families()[shared.fine_tunes], method)}"
    config = merge(
        shared.config,
        {"model": {"method": method}},
        shared.methods.get(method, {}),
        shared.protocols.get(protocol, {}),
    )
    about = f"{shared.about}: {method}" + (f", {protocol}" if protocol != STANDALONE else "")
    name = _name(family, method, protocol)
    # A copy, because the family is kept for the next recipe.
    return Recipe(name, about, copy.deepcopy(config), needs, family, method, protocol)


def protocols_of(family: str, method: str) -> list[str]:
    """The ways in which a family trains a method.

    >>> protocols_of("alexnet-imagenet", "svd-pade"), protocols_of("alexnet-imagenet", "gap")
    (['standalone', 'hybrid'], ['standalone'])
    """
    if family not in families():
        raise SettingsError(unknown_name("family of recipes", family, families()))
    known = {*method_sources(), *pooling_names()}
    if method not in known:
        raise SettingsError(unknown_name("method", method, sorted(known)))
    return _protocols(families()[family], method)


def recipe_names() -> list[str]:
    """The names of all recipes.

    >>> "alexnet-imagenet-svd-pade-hybrid" in recipe_names()
    True
    """
    return sorted(_composed())


def load_recipe(name: str) -> Recipe:
    """A recipe by its name, or your own by the path of its file.

    Your file has the keys of a configuration, and may have ``about``, ``needs`` and a ``base``: the name of a
    recipe or of a family.

    >>> load_recipe("resnet50-imagenet-exact").config["model"]["milestones"]
    [30, 45]
    """
    if name.endswith((".yaml", ".yml")):
        return _own(Path(name))
    return _by_name(name)


def _by_name(name: str) -> Recipe:
    composed = _composed()
    if name not in composed:
        raise SettingsError(unknown_name("recipe", name, composed, "rootpool recipes"))
    return recipe(*composed[name])


def _composed() -> dict[str, tuple[str, str, str]]:
    """Family, method and protocol by the name of the recipe."""
    methods = pooling_names()
    return {
        _name(family.name, method, protocol): (family.name, method, protocol)
        for family in families().values()
        for method in methods
        for protocol in _protocols(family, method)
    }


def _protocols(family: Family, method: str) -> list[str]:
    """Those that a method can be trained by: a hybrid changes from one covariance method to another."""
    fixed = method in (GAP, START)
    return [STANDALONE, *(p for p in family.protocols if not (fixed and p == HYBRID))]


def _name(family: str, method: str, protocol: str) -> str:
    return f"{family}-{method}" + (f"-{protocol}" if protocol != STANDALONE else "")


def _best(family: Family, method: str) -> str:
    """The recipe to fine-tune from: the hybrid one where there is one."""
    return _name(family.name, method, _protocols(family, method)[-1])


def _own(path: Path) -> Recipe:
    if not path.is_file():
        raise SettingsError(f"there is no recipe {path}; for those by name see rootpool recipes")
    content = read_yaml(path)
    for key, kind in (("base", str), ("about", str), ("needs", dict)):
        if not isinstance(content.get(key, kind()), kind):
            raise SettingsError(f"{path}: {key} must be a {kind.__name__}, got {content[key]!r}")
    needs, base = content.pop("needs", {}), content.pop("base", None)
    about = content.pop("about", path.stem)
    if base in families():
        family = families()[base]
        needs, content = {**family.needs, **needs}, merge(family.config, content)
    elif base is not None:
        shared = _by_name(base)
        needs, content = {**shared.needs, **needs}, merge(shared.config, content)
    return Recipe(path.stem, about, content, needs, method=content.get("model", {}).get("method"))
