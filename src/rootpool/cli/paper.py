"""``rootpool paper``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["paper"]


def paper(entries: Sequence[str], *, show: bool = False, **options: Any) -> int:
    """Measure entries of the paper, with the options of ``rootpool.paper.command.paper``, or list them."""
    from rootpool.paper import command

    return command.show_entries(entries) if show else command.paper(entries, **options)
