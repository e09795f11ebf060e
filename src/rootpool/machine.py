"""The machine that something runs on: for records, and for reports of bugs."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import torch

__all__ = ["machine", "usable_cores"]


def machine(device: str | torch.device = "cpu") -> dict[str, str | int | None]:
    """The machine and versions of a measurement.

    >>> sorted(machine())
    ['cores', 'device', 'python', 'system', 'threads', 'torch']
    """
    device = torch.device(device)
    return {
        "device": _device_name(device),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def usable_cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    cpu = Path("/proc/cpuinfo")
    known = re.search(r"model name\s*: (.+)", cpu.read_text("utf-8") if cpu.is_file() else "")
    return known[1] if known else platform.processor() or platform.machine()
