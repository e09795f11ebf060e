r"""Docstrings for the site: the little reStructuredText that ours have, as Markdown.

``:math:`x``` and ``.. math::`` become ``\(x\)`` and ``\[ ... \]``, roles become links to the reference,
doctests become blocks of code, and a table of ``=====`` lines becomes one with bars. Griffe, which reads the
code for mkdocstrings, calls `Docstrings.on_object` for everything that it finds.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|mod|meth|data):`~?([\w.]+)`")
MATH = re.compile(r":math:`([^`]+)`", re.DOTALL)
DISPLAY = re.compile(r"^( *)\.\. math::(.*)\n((?:\1 +.*\n|\n)*)", re.MULTILINE)
DOCTEST = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n|\1 .*\n)*", re.MULTILINE)
SHAPE = re.compile(r"^( *)Shape:\n((?:\1 +.*\n)+)", re.MULTILINE)
TABLE = re.compile(r"^( *)=+ +=+\n((?:.*\n)+?)\1=+ +=+\n", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value, _targets(obj))


def _targets(obj: griffe.Object) -> dict[str, str]:
    """Public names of all layers and where the reference has them."""
    return {
        name: f"{module.path}.{name}.{name}" if name in module.modules else f"{module.path}.{name}"
        for module in obj.package.modules.values()
        for name in module.exports or ()
        if isinstance(name, str)
    }


def to_markdown(text: str, targets: dict[str, str]) -> str:
    """A docstring as Markdown; roles whose name is in ``targets`` become links."""
    text = SHAPE.sub(_shape, text + "\n")
    text = TABLE.sub(lambda match: _table(match[2], match[1]), text)
    text = DISPLAY.sub(_display, text)
    text = DOCTEST.sub(_fenced, text)
    text = MATH.sub(lambda match: rf"\({' '.join(match[1].split())}\)", text)
    return ROLE.sub(lambda match: _link(match[1], targets), text).rstrip("\n")


def _shape(match: re.Match[str]) -> str:
    """A paragraph: what Google's style does not know would become a box."""
    return f"{match[1]}**Shape:** {' '.join(match[2].split())}\n"


def _display(match: re.Match[str]) -> str:
    indent, first, rest = match[1], match[2].strip(), textwrap.dedent(match[3]).strip("\n")
    formula = textwrap.indent(f"\\[\n{first}\n{rest}".rstrip() + "\n\\]", indent)
    return re.sub(r"\n\s*\n", "\n", formula) + "\n\n"


def _fenced(match: re.Match[str]) -> str:
    return f"{match[1]}```pycon\n{match[0]}{match[1]}```\n"


def _link(name: str, targets: dict[str, str]) -> str:
    target = targets.get(name) or (name if name in targets.values() else None)
    return f"[`{name}`][{target}]" if target else f"`{name}`"


def _table(body: str, indent: str) -> str:
    """Two columns, of which the second may go on in further lines."""
    rows: list[list[str]] = []
    for line in body.splitlines():
        line = line.removeprefix(indent)
        if line[:1].strip():
            rows.append(re.split(r"  +|(?<=``) ", line, maxsplit=1))
        else:
            rows[-1][1] += " " + line.strip()
    lines = ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]
    return "".join(f"{indent}{line}\n" for line in lines)
