"""Timing for the benchmarks: contestants take turns, and the best of many rounds counts.

Machines are noisy. The minimum over many rounds is what the code costs when nothing else runs, and
because contestants take turns, a slow moment hits all of them alike.
"""

from __future__ import annotations

import gc
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch


def race(
    contestants: dict[str, Callable[[], object]], seconds: float = 1.0, rounds: int = 5
) -> dict[str, float]:
    """Seconds per call of each contestant: the best of many calls, in at least ``rounds`` turns each.

    A turn lasts at least 50 ms, because the OpenMP threads of the contestant before it keep spinning
    for about 10 ms, on a core that the next one may need.
    """
    repeats = {}
    for name, run in contestants.items():
        run()
        start = time.perf_counter()
        run()
        # Short calls are timed several at once, so that the clock's own cost disappears.
        repeats[name] = max(1, int(2e-3 / (time.perf_counter() - start + 1e-9)))
    best = dict.fromkeys(contestants, float("inf"))
    gc.collect()
    gc.disable()
    deadline, done = time.perf_counter() + seconds * len(contestants), 0
    while done < rounds or time.perf_counter() < deadline:
        for name, run in contestants.items():
            turn_ends = time.perf_counter() + 50e-3
            while True:
                start = time.perf_counter()
                for _ in range(repeats[name]):
                    run()
                now = time.perf_counter()
                best[name] = min(best[name], (now - start) / repeats[name])
                if now > turn_ends:
                    break
        done += 1
    gc.enable()
    return best


def _processor() -> str:
    """The model of the CPU, as the system names it."""
    try:
        information = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown CPU"
    found = re.search(r"^model name\s*: (.+)$", information, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown CPU"


def machine() -> str:
    """CPU, versions and threads, for the first line of a result."""
    return (
        f"{_processor()}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def table(header: list[str], rows: list[list[str]], *, numbers: bool = False) -> str:
    """A Markdown table with aligned columns; with ``numbers``, all but the first are set right."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    rules = ["-" * width for width in widths]
    if numbers:
        rules[1:] = [rule[1:] + ":" for rule in rules[1:]]
    lines = [header, rules, *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def duration(seconds: float) -> str:
    """Seconds with three digits, in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
