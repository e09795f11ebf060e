"""The machine that something runs on: for records, and for reports of bugs."""

from __future__ import annotations

import os
import platform

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
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = (
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
            return next(names, "") or platform.machine()
    except OSError:
        return platform.processor() or platform.machine()
