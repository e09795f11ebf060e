"""Packages whose names are imported at first use: most commands need neither torch nor Lightning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, names: Sequence[str], modules: Sequence[str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that finds some names of a package in its modules.

    Args:
        package: its ``__name__``.
        names: that it has.
        modules: imported in this order until one lists the name in its ``__all__``; light ones first.
    """

    def get(name: str) -> Any:
        for module in modules if name in names else ():
            found = import_module(f"{package}.{module}")
            if name in found.__all__:
                return getattr(found, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
