"""What to say when a process that a training depends on has died."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["explained_deaths"]

_DEATHS: tuple[tuple[str, type[OSError], str], ...] = (
    (
        r"DataLoader worker \(pid",
        ChildProcessError,
        "a process that loads images has died ({}): often the memory was full. Go on with --resume, and "
        "with fewer data.workers if it happens again",
    ),
    (
        r"process in the process pool was terminated",
        ChildProcessError,
        "a process that trains has died ({}): often the memory was full. Start again, with fewer --workers "
        "if it happens again; what is finished is kept",
    ),
    (
        r"Connection closed by peer|Connection reset by peer|Broken pipe|NCCL communicator was aborted",
        ConnectionError,
        "another process of this training has ended ({}); what it said itself tells why. Go on with --resume",
    ),
)


@contextmanager
def explained_deaths() -> Iterator[None]:
    """Turn what torch raises when another process dies into an error that says what to do."""
    try:
        yield
    except Exception as error:
        for reason in _reasons(error):
            first_line = (str(reason).splitlines() or [""])[0]
            for pattern, kind, text in _DEATHS:
                if isinstance(reason, RuntimeError) and re.search(pattern, str(reason)):
                    raise kind(text.format(first_line)) from error
        raise


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from: torch's can strike anywhere, where others make theirs of it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
