"""Keys of what is kept: a hash of everything that a result depends on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["stable_key", "versions"]


def stable_key(content: Any) -> str:
    """A short hash of plain data: numbers, texts, lists and dictionaries.

    Two equal inputs have the same key in every process, and in any order of their dictionaries.

    >>> stable_key({"lr": 0.1, "seed": 0}) == stable_key({"seed": 0, "lr": 0.1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """What numbers depend on besides the settings, to be part of a key: torch and the library's code."""
    return {"torch": version("torch"), "code": code_digest()}


# The parts of the library that decide numbers; a page or a command changes none.
NUMERICAL = ("linalg", "nn", "models", "train")


@functools.cache
def code_digest(root: Path = Path(__file__).parents[1]) -> str:
    """A hash of the library's code in ``root`` without comments and docstrings, which change no number."""
    digest = hashlib.sha256()
    for part in NUMERICAL:
        for file in sorted((root / part).rglob("*.py")):
            tree = _WithoutTexts().visit(ast.parse(file.read_text(encoding="utf-8")))
            digest.update(f"{file.relative_to(root).as_posix()} {ast.dump(tree)}".encode())
    return digest.hexdigest()[:16]


class _WithoutTexts(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node
