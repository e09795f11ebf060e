"""The recipes: one YAML file an experiment, each on top of the base file that it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.unknown import unknown_name

from .bounded_yaml import YAML_LENGTH, parse_yaml
from .settings import SettingsError, merge

if TYPE_CHECKING:
    from importlib.abc import Traversable  # in importlib.resources.abc only since Python 3.11

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
    """Read a recipe and what it stands on: one of ours by name, or your own by the path of its file.

    Your file has the same keys, and may name one of ours as its ``base``.

    >>> load_recipe("alexnet-imagenet-svd-pade-hybrid").config["hybrid"]
    {'switch_epoch': 19, 'warmup_epochs': 1}
    """
    if name.endswith((".yaml", ".yml")):
        content = _expand(_parse(Path(name)))
        name = Path(name).stem
        if not name.strip("."):  # the output would go to the folder above
            raise SettingsError(
                f"a recipe needs a name, which its output gets too; got {name}.yaml"
            )
    else:
        content = _expand(_parse(_find(name)))
    return Recipe(name, content.pop("about", name), content, content.pop("needs", {}))


def _find(name: str) -> Traversable:
    names = recipe_names()
    if name in names:
        return _FOLDER / f"{name}.yaml"
    raise SettingsError(unknown_name("recipe", name, names, "rootpool recipes"))


def _parse(file: Traversable) -> dict[str, Any]:
    try:
        # No more than it may have: it need not be a file of the disk.
        with file.open("rb") as opened:
            content = parse_yaml(opened.read(YAML_LENGTH + 1).decode())
    except ValueError as error:
        raise SettingsError(f"{file} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"{file} is no recipe: it holds no keys such as model, data and trainer"
        )
    for key, kind in (("base", str), ("about", str), ("needs", dict)):
        if not isinstance(content.get(key, kind()), kind):
            raise SettingsError(
                f"{file}: {key} must be a {kind.__name__}, got {content[key]!r:.80}"
            )
    return content


def _expand(content: dict[str, Any]) -> dict[str, Any]:
    base = content.pop("base", None)
    if base is None:
        return content
    shared = [f for f in (_FOLDER / "base").iterdir() if f.name == f"{base}.yaml"]
    return merge(_expand(_parse(shared[0] if shared else _find(base))), content)
