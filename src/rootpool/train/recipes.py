"""The old place of :mod:`rootpool.recipes`."""

from rootpool.recipes import Recipe, load_recipe, recipe_names

__all__ = ["Recipe", "load_recipe", "recipe_names"]
