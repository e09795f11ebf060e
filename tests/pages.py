"""Blocks of code in Markdown pages: found, and run one after the other as a reader would."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n+)?"
    r'^```(?P<language>\w*)(?: \{.*\}| title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block; ``reason`` says why it is not run, and is empty if it is."""

    language: str
    code: str
    title: str = ""
    reason: str = ""

    def run(self, scope: dict[str, Any]) -> None:
        """Run ``python``, and ``pycon`` with its output compared; ``scope`` goes on to the next."""
        if self.language == "python":
            exec(self.code, scope)
        elif self.language == "pycon":
            test = doctest.DocTestParser().get_doctest(self.code, scope, "page", None, 0)
            report: list[str] = []
            doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            scope.update(test.globs)

    def commands(self, program: tuple[str, ...] = ("rootpool",)) -> Iterator[list[str]]:
        """The commands of a ``sh`` block that begin with ``program``, as the words after it."""
        if self.language != "sh":
            return
        for line in self.code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["srun"]:
                words = words[1:]
            if tuple(words[: len(program)]) == program:
                yield words[len(program) :]


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, but those that include a file."""
    found = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if "--8<--" not in match["code"]:
            values = {name: text or "" for name, text in match.groupdict().items()}
            found.append(Block(**values))
    return found
