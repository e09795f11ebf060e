"""Names in error messages: those that may have been meant, or some of many."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["some_names", "unknown_name"]

SEPARATOR = re.compile("[.:/]")
WIDTH = 76  # of a line with many names


def unknown_name(what: str, name: str, known: Iterable[str], listed: str = "") -> str:
    """The text of an error, with the names that may have been meant, or else with all names.

    Args:
        what: kind of thing.
        name: as it was given.
        known: all names; their parts after the last dot, colon or slash are compared first.
        listed: where a reader finds all of them, where they are too many for an error.

    >>> unknown_name("key", "lr", ["model.lr", "seed"], "rootpool train --show")
    "unknown key 'lr'; did you mean model.lr? (all of them: rootpool train --show)"
    >>> unknown_name("colour", "mauve", ["red", "green"])
    "unknown colour 'mauve'; known are red, green"
    """
    ends = {each: SEPARATOR.split(each)[-1] for each in known}
    best = difflib.get_close_matches(SEPARATOR.split(name)[-1], set(ends.values()), n=2)
    near = [each for end in best for each, own in ends.items() if own == end][:4]
    near = near or difflib.get_close_matches(name, ends, cutoff=0.8)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    if listed:
        hint += f" (all of them: {listed})"
    elif not near:
        hint = f"; known are {some_names([*ends], most=40)}"
        if len(hint) > WIDTH:  # on lines of their own
            hint = "\n" + textwrap.fill(hint[2:], WIDTH, break_on_hyphens=False)
    return f"unknown {what} {name!r}{hint}"


def some_names(names: Sequence[str], most: int = 10) -> str:
    """Some names, ten by default, and how many more.

    >>> some_names([]), some_names("abcdefghijklm")
    ('none', 'a, b, c, d, e, f, g, h, i, j and 3 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more
