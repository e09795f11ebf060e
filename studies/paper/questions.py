"""Questions about runs: which runs are compared in pairs, chosen by their tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Judge", "Question", "Tags", "matches"]

SAME = "same"  # in the place of a method or another tag: that of the first run

Tags: TypeAlias = Mapping[str, Any]
Judge: TypeAlias = Literal["better", "level", "same", "gain"]


def matches(run: Tags, tags: Tags) -> bool:
    """Whether a run has these tags; a list allows any of its values.

    >>> matches({"method": "exact", "warmup": 2}, {"warmup": ["1", "2"]})
    True
    """
    return all(
        str(run.get(tag)) in (value if isinstance(value, list | tuple) else [str(value)])
        for tag, value in tags.items()
    )


@dataclass(frozen=True)
class Question:
    """A comparison that a claim is judged by.

    Args:
        text: the question as a statement, which is true if the claim is.
        first: tags of the runs that are compared.
        against: tags of the runs that they are compared with; several sets of tags.
        judge: how the differences are judged.
        margin: in points, where the judge needs one.
        value: which number of the runs is compared.
    """

    text: str
    first: Tags
    against: tuple[Tags, ...]
    judge: Judge
    margin: float = 0.0
    value: str = "val_error"

    def pairs(
        self, runs: Iterable[Tags], members: Callable[[str], Sequence[str]]
    ) -> list[tuple[str, str]]:
        """Names of the runs to compare, in pairs.

        Args:
            runs: rows with ``run`` (a name) and tags.
            members: the methods that a name of a method or of a group stands for.
        """
        known = {run["run"]: run for run in runs}

        def chosen(tags: Tags, like: Tags | None = None) -> list[str]:
            same = (
                {} if like is None else {tag: [str(like[tag])] for tag in tags if tags[tag] == SAME}
            )
            if "method" in tags and "method" not in same:
                same["method"] = list(members(tags["method"]))
            return [name for name, run in known.items() if matches(run, {**tags, **same})]

        return [
            (first, other)
            for first in chosen(self.first)
            for tags in self.against
            for other in chosen(tags, known[first])
            if other != first
        ]
