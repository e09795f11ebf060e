"""Names in error messages: those that may have been meant, and the first of many."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["some_names", "unknown_name"]

FEW = 12  # names that an error can list
WIDTH = 76  # of a line with many names


def unknown_name(what: str, name: str, known: Iterable[str], listed: str = "") -> str:
    """The text of an error, with the names that may have been meant.

    Args:
        what: kind of thing.
        name: as it was given.
        known: all names; their parts after the last dot, colon or slash are compared too.
        listed: where a reader finds all of them, or the names themselves.

    >>> unknown_name("key", "lr", ["model.lr", "seed"], "rootpool train --show")
    "unknown key 'lr'; did you mean model.lr? (all of them: rootpool train --show)"
    >>> unknown_name("colour", "mauve", ["red", "green"])
    "unknown colour 'mauve'; known are red, green"
    """
    known = list(known)
    known = list(known)
    ends: dict[str, list[str]] = {}
    for each in known:
        ends.setdefault(_last_part(each), []).append(each)
    by_end = difflib.get_close_matches(_last_part(name), ends, n=2, cutoff=0.7)
    near = [each for end in by_end for each in ends[end][:3]]
    near += difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
    if not near and not listed and len(known) <= FEW:
        hint = f"; known are {', '.join(known)}"
    if len(listed) > WIDTH:  # the names themselves, on lines of their own
        hint += "\n" + textwrap.fill(f"known are {listed}", WIDTH, break_on_hyphens=False)
    elif listed:
        hint += f" (all of them: {listed})"
    return f"unknown {what} {name!r}{hint}"


def some_names(names: Sequence[str]) -> str:
    """Up to ten names, and how many more.

    >>> some_names([]), some_names("abcdefghijklm")
    ('none', 'a, b, c, d, e, f, g, h, i, j and 3 more')
    """
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "none") + more


def _last_part(name: str) -> str:
    return name.replace(":", ".").replace("/", ".").rpartition(".")[2]
