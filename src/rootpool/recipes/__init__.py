"""Recipes: experiments composed of a family, a method and a protocol. Imports neither torch nor Lightning."""

from .config import SettingsError, apply_overrides, merge
from .family import Family, families
from .keys import check_keys, known_keys
from .methods import pooling_names
from .recipe import HYBRID, STANDALONE, Recipe, load_recipe, protocols_of, recipe, recipe_names

__all__ = [
    "HYBRID",
    "STANDALONE",
    "Family",
    "Recipe",
    "SettingsError",
    "apply_overrides",
    "check_keys",
    "families",
    "known_keys",
    "load_recipe",
    "merge",
    "pooling_names",
    "protocols_of",
    "recipe",
    "recipe_names",
]
