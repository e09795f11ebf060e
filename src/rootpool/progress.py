"""The live display of every long command: a bar, and below it a table that fills while work goes on."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rich comes with the extra "train" only
    from rich.console import Console, RenderableType

__all__ = ["Display"]

LINE_EVERY = 60.0  # seconds, where nobody sees the bar


class Display:
    """A progress bar with whatever is put below it; use it in a ``with`` statement.

    Without a terminal, such as in the log of ``nohup``, there is a line every minute, and the last state.

    Args:
        title: what is going on.
        total: the work to do, in units of your choice.
        quiet: show nothing.
        console: where to draw; standard output by default.
    """

    def __init__(
        self, title: str, total: float, *, quiet: bool = False, console: Console | None = None
    ) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.description}"),
        )
        self._task = self._bar.add_task("", total=total, title=title)
        chosen = Console(quiet=True) if quiet else console
        self._live = Live(self._bar, console=chosen, refresh_per_second=4)
        self._last_line = time.monotonic()

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        if not self._live.console.is_terminal:
            self._live.console.print()  # ends the line

    def update(self, done: float, about: str = "", below: RenderableType | None = None) -> None:
        """Redraw.

        Args:
            done: how much of the total.
            about: a few words beside the bar, such as what was finished last.
            below: a table, or anything else that rich can draw.
        """
        from rich.console import Group

        self._bar.update(self._task, completed=done, description=about)
        self._live.update(self._bar if below is None else Group(self._bar, below))
        self._write_line()

    def _write_line(self) -> None:
        """How far it is, if there is no bar to see and the last line is long ago."""
        console, now = self._live.console, time.monotonic()
        if console.is_terminal or console.is_jupyter or now - self._last_line < LINE_EVERY:
            return
        self._last_line = now
        task = self._bar.tasks[self._task]
        parts = [f"{task.fields['title']}: {task.percentage:.0f} %"]
        if task.time_remaining is not None:
            parts.append(f"{timedelta(seconds=task.time_remaining)} left")
        console.print(", ".join([*parts, *filter(None, [task.description])]))
