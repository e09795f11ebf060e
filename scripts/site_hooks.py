"""Marks in our pages that MkDocs replaces: tables from where they are measured, names from the code.

``<!-- table: benchmarks/results/pooling.md: Peak memory -->`` becomes the first table of that file after
the line that begins with "Peak memory", or its first table if nothing follows the path. No number is
copied by hand. Files that pages show and that live outside ``docs`` are in ``OUTSIDE``.

``<!-- names of rootpool.linalg: rules -->`` becomes the reference of what the package exports from its
module ``rules``; without a module, of everything that it exports and that the page does not have yet.
So what is added to an ``__all__`` is in the reference.
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {"images/pooling.png": "benchmarks/results/pooling.png"}
TABLE = re.compile(r"^<!-- table: ([^:\n]+?)(?:: (.+?))? -->$", re.MULTILINE)
NAMES = re.compile(r"^<!-- names of ([\w.]+)(?:: (.+?))? -->$", re.MULTILINE)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pictures that live elsewhere."""
    for place, source in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in the tables and the names."""
    markdown = TABLE.sub(lambda match: table(match[1], match[2] or ""), markdown)
    listed = set(re.findall(r"^::: (\S+)$", markdown, re.MULTILINE))

    def directives(match: re.Match[str]) -> str:
        new = [name for name in names(match[1], (match[2] or "").split()) if name not in listed]
        listed.update(new)
        return "\n".join(f"::: {name}" for name in new)

    return NAMES.sub(directives, markdown)


def names(package: str, modules: list[str]) -> list[str]:
    """The full names of what ``package`` exports, from these of its modules or from all."""
    folder = ROOT / "src" / Path(*package.split("."))
    exported = public(folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py"))
    if modules:
        own = [name for module in modules for name in public(folder / f"{module}.py")]
        exported = [name for name in own if name in exported]
    # A function may hide the module of the same name; its own full name has both.
    hiding = {path.stem for path in folder.glob("*.py")}
    return [
        f"{package}.{name}.{name}" if name in hiding else f"{package}.{name}" for name in exported
    ]


def public(file: Path) -> list[str]:
    """The names in ``__all__`` of a module."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise PluginError(f"{file.relative_to(ROOT)} has no __all__")


def table(path: str, after: str = "") -> str:
    """The first table of a Markdown file of the repository after a line that begins with ``after``."""
    lines = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
    if after and not any(line.lstrip("# ").startswith(after) for line in lines):
        raise PluginError(f"{path} has no line that begins with {after!r}")
    rows = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
    found = "\n".join(itertools.takewhile(lambda line: line.startswith("|"), rows))
    if not found:
        raise PluginError(f"{path} has no table after {after!r}")
    return found
