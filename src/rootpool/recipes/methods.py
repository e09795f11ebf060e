"""Names of methods, without importing torch.

The methods themselves are classes in :mod:`rootpool.nn`. Each has its ``name`` and ``source`` as
literals, which are read from the source files here: listing recipes must not wait for torch.
"""

from __future__ import annotations

import ast
import functools
import sys
from importlib import resources

__all__ = ["GAP", "method_sources", "pooling_names"]

GAP = "gap"  # average pooling, which is not a normalisation of covariances


def pooling_names() -> list[str]:
    """What can stand in the place of the method in the name of a recipe.

    Average pooling, and all methods but the baselines.

    >>> "svd-pade" in pooling_names(), "gap" in pooling_names(), "covariance" in pooling_names()
    (True, True, False)
    """
    main = [name for name, source in method_sources().items() if source != "baseline"]
    return sorted([GAP, *main])


def method_sources() -> dict[str, str]:
    """The source of every method by its name.

    Where :mod:`rootpool.nn` is imported already, methods that a user has registered are among them.
    """
    nn = sys.modules.get("rootpool.nn")
    methods = getattr(nn, "METHODS", None)  # None also while it is being imported
    if methods is None:
        return dict(_written())
    return {name: method.source for name, method in methods.items()}


@functools.cache
def _written() -> dict[str, str]:
    """Name and source of the classes in the files of ``rootpool.nn``."""
    found = {}
    for file in (resources.files("rootpool") / "nn").iterdir():
        if file.name.endswith(".py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                literals = _literals(node) if isinstance(node, ast.ClassDef) else {}
                if literals.keys() >= {"name", "source"}:
                    found[literals["name"]] = literals["source"]
    return found


def _literals(node: ast.ClassDef) -> dict[str, str]:
    """The annotated texts of a class: ``name: ClassVar[str] = "exact"``."""
    return {
        line.target.id: line.value.value
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    }
