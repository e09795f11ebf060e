"""The live display of every long command: a bar, or lines where nobody watches."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["Display"]

LINE_EVERY = 60.0  # seconds, where nobody sees the bar


class Display:
    """A progress bar; use it in a ``with`` statement.

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
        self._bar = Progress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.description}"),
            console=Console(quiet=True) if quiet else console,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=total, title=title)
        self._last_line = time.monotonic()

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, done: float, about: str = "") -> None:
        """Redraw.

        Args:
            done: how much of the total.
            about: a few words beside the bar, such as what was finished last.
        """
        self._bar.update(self._task, completed=done, description=about)
        console, now = self._bar.console, time.monotonic()
        if console.is_terminal or console.is_jupyter or now - self._last_line < LINE_EVERY:
            return
        self._last_line = now
        task = self._bar.tasks[self._task]
        left = task.time_remaining
        parts = [f"{task.fields['title']}: {task.percentage:.0f} %", about]
        parts[1:1] = [] if left is None else [f"{timedelta(seconds=left)} left"]
        console.print(", ".join(filter(None, parts)))
