"""``rootpool recipes``."""

from __future__ import annotations

from collections.abc import Sequence

from rootpool.recipes import SettingsError, load_recipe, recipe_names

__all__ = ["recipes"]


def recipes(words: Sequence[str]) -> int:
    """List recipes whose names contain all words."""
    found = [name for name in recipe_names() if all(word in name for word in words)]
    if not found:
        raise SettingsError(f"no recipe has {' and '.join(words)} in its name")
    width = max(map(len, found))
    for name in found:
        print(f"{name:<{width}}  {load_recipe(name).about}")
    return 0
