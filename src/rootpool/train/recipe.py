"""Recipes: experiments as data, composed of a family, a method and a protocol. Without torch.

A family is what the experiments with one network on one data set share: a YAML file in the folder
``recipes``. It holds settings and, besides them, the keys that `Family` lists, and may have a ``base``:
another family, whose settings it changes. What a ``base`` has and the family has not is ``null``.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from rootpool.report.records import read_yaml
from rootpool.suggest import unknown_name

from .config import SettingsError, merge

__all__ = ["Family", "Recipe", "families", "load_recipe", "recipe"]

_FOLDER = resources.files(__package__) / "recipes"
_START = "isqrt-cov"  # what a hybrid training begins with
# Methods that also exist as the paper's authors released them, by the name with -released.
RELEASED = ("mpn-cov", "svd-topn", "svd-trunc", "svd-pi", "svd-newton", "svd-taylor", "svd-pade")
_SWITCHLESS = ("gap", _START)  # a hybrid training switches from one covariance method to another


@dataclass(frozen=True)
class Family:
    """What the experiments with one network on one data set share.

    Args:
        name: of the file, and the first part of the names of its runs.
        about: one line.
        config: settings of every recipe.
        hybrid: the schedule of a hybrid training; None where it has none.
        methods: by method, the settings that differ.
        needs: what the user has to bring, as option: what it is.
        fine_tunes: the family whose checkpoints it starts from, of the same method.
        time: how long a run takes, and on which hardware.
        average: the validation error of average pooling, in percent, from a record of ours.
        form: ``released`` where the paper's methods are as its authors released them, and not ours.
        reported_as: the family of the paper in whose columns its results are; None for its own.
        layout: the layout of data for which the study of the paper trains this family; a ``base`` does not
            pass it on.
    """

    name: str
    about: str
    config: Mapping[str, Any]
    hybrid: Mapping[str, Any] | None = None
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    fine_tunes: str | None = None
    time: str = ""
    average: float | None = None
    form: str | None = None
    reported_as: str | None = None
    layout: str | None = None


@dataclass(frozen=True)
class Recipe:
    """An experiment as data.

    Args:
        name: what it is called, as is its folder of results.
        config: what `rootpool.train.resolve` takes.
        needs: what the user has to bring, as option: what it is.
        family: name of its family; None for a file without one.
        method: the pooling of the network, after the switch of a hybrid training; None where a file leaves
            it open.
    """

    name: str
    config: dict[str, Any]
    needs: dict[str, str] = field(default_factory=dict)
    family: str | None = None
    method: str | None = None


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


def recipe(family: str, method: str = "exact", hybrid: bool = False) -> Recipe:
    """Compose a recipe.

    In the families of the paper its methods are as its authors released them. The method
    ``svd-pade-published`` has the gradient of its equations; the setting ``model.method=svd-pade`` is ours.

    >>> made = recipe("alexnet-imagenet", "svd-pade", hybrid=True)
    >>> made.name, made.method, made.config["hybrid"]["switch_epoch"]
    ('alexnet-imagenet-svd-pade-released-hybrid', 'svd-pade-released', 19)
    """
    if family not in families():
        raise SettingsError(unknown_name("recipe", family, families(), "rootpool recipes"))
    shared = families()[family]
    released = shared.form == "released" and method in RELEASED
    pooling = f"{method}-released" if released else method
    plain = method.removesuffix("-published").removesuffix("-released")
    config = merge(shared.config, {"model": {"method": pooling}}, shared.methods.get(plain, {}))
    if hybrid:
        config["hybrid"] = _schedule(shared, method)
    needs = dict(shared.needs)
    if shared.fine_tunes is not None:
        first = families()[shared.fine_tunes]
        best = " --hybrid" if first.hybrid and method not in _SWITCHLESS else ""
        needs["--weights"] = f"a checkpoint of rootpool train {first.name} --method {method}{best}"
    name = f"{family}-{pooling}" + "-hybrid" * hybrid
    # A copy, because the family is kept for the next recipe.
    return Recipe(name, copy.deepcopy(config), needs, family, pooling)


def load_recipe(name: str, method: str | None = None, hybrid: bool = False) -> Recipe:
    """A recipe by the name of its family, or your own by the path of its file.

    Your file has the keys of a configuration, and may have ``about``, ``needs`` and a ``base``: the name of a
    family.

    Args:
        name: family or file.
        method: the pooling; None for the one in the file, and else for ``exact``.
        hybrid: whether to train by the hybrid protocol.

    Returns:
        Its name, needs and ``config``, which ``resolve`` checks and completes.

    >>> load_recipe("resnet50-imagenet").config["model"]["milestones"]
    [30, 45]
    """
    if name.endswith((".yaml", ".yml")):
        return _own(Path(name), method, hybrid)
    return recipe(name, method or "exact", hybrid)


def _schedule(family: Family, method: str) -> Mapping[str, Any]:
    if method in _SWITCHLESS:
        raise SettingsError(
            f"there is no hybrid training of {method}: it begins with {_START} and switches to another "
            "root of the covariance; leave out hybrid, or choose another method"
        )
    if family.hybrid is None:
        raise SettingsError(
            f"{family.name} has no hybrid schedule; leave out hybrid, or give one: hybrid.switch_epoch=5"
        )
    return family.hybrid


def _own(path: Path, method: str | None, hybrid: bool) -> Recipe:
    if not path.is_file():
        raise SettingsError(f"there is no recipe {path}; for those by name see rootpool recipes")
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    for key, kind in (("base", str), ("about", str), ("needs", dict), ("model", dict)):
        if not isinstance(content.get(key, kind()), kind):
            raise SettingsError(f"{path}: {key} must be a {kind.__name__}, got {content[key]!r}")
    needs, base = content.pop("needs", {}), content.pop("base", None)
    content.pop("about", None)
    pooling = method or content.get("model", {}).get("method")
    if base is not None:
        shared = recipe(base, pooling or "exact", hybrid and content.get("hybrid") is None)
        needs, content = {**shared.needs, **needs}, merge(shared.config, content)
        method = method and shared.method
    if method is not None:
        content = merge(content, {"model": {"method": method}})
    if hybrid and content.get("hybrid") is None:
        raise SettingsError(f"{path} has no hybrid schedule; give one: hybrid.switch_epoch=5")
    if not isinstance(content.get("data"), dict) or content["data"].get("root") is None:
        needs = {"--data": "the folder of the images", **needs}
    name = path.stem + (f"-{method}" if method else "") + "-hybrid" * hybrid
    pooling = content.get("model", {}).get("method")
    return Recipe(name, content, needs, base, pooling)


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
