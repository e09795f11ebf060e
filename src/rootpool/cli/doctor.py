"""``rootpool doctor``: the facts that a bug report needs, and a check of the numerics. Needs torch alone."""

from __future__ import annotations

import os
import re
import textwrap
import time
from importlib import metadata
from itertools import zip_longest
from typing import Any

import torch

import rootpool
from rootpool.machine import machine

from . import selfcheck

__all__ = ["doctor"]

EXTRAS = ("models", "train", "birds")  # those for users, not for developers
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
# What makes a CPU compute as another one would.
INSTRUCTIONS = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
# What torch says about its linear algebra, among much about its compiler.
ALGEBRA = re.compile(
    r"Math Kernel Library Version \S+|LAPACK is \w+|\bMAGMA [\d.]+|\w*(?:BLAS|LAPACK)_INFO=\w+"
)


def doctor() -> int:
    """Print versions, threads, devices and the outcome of every check; 1 when one fails."""
    print(*_describe(environment()), "", "numerics: error <= what is allowed", sep="\n")
    started, failed, checks = time.perf_counter(), 0, 0
    for device in filter(_has_float64, devices()):
        for about in selfcheck.CHECKS:
            passed, told = selfcheck.run_check(about, device)
            where = about if device.type == "cpu" else f"{about} ({device})"
            print(f"  {'pass' if passed else 'FAIL'}  {where:<50}  {told}")
            failed, checks = failed + (not passed), checks + 1
    seconds = time.perf_counter() - started
    if failed:
        print(f"\n{failed} of {checks} checks FAILED: please report it, with all of the above")
        return 1
    print(f"\nall {checks} checks of the numerics passed in {seconds:.1f} s")
    return 0


def environment() -> dict[str, Any]:
    """Versions, settings and hardware."""
    here = machine()
    return {
        "rootpool": rootpool.__version__,
        "python": f"{here['python']} on {here['system']}",
        "torch": here["torch"],
        "packages": packages(),
        "threads": f"{here['threads']} on {here['cores']} cores ({torch.get_num_interop_threads()} interop)",
        "variables": {name: os.environ.get(name, "not set") for name in THREADS}
        | {name: os.environ[name] for name in INSTRUCTIONS if name in os.environ},
        "linear algebra": ALGEBRA.findall(torch.__config__.show()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "devices": [
            f"{device}: {machine(device)['device']}"
            + ("" if _has_float64(device) else " (no float64, so not checked below)")
            for device in devices()
        ],
    }


def devices() -> list[torch.device]:
    """The CPU, and every accelerator that torch can use."""
    kind = torch.accelerator.current_accelerator(check_available=True)
    count = torch.accelerator.device_count() if kind else 0
    return [torch.device("cpu"), *(torch.device(f"{kind}:{k}") for k in range(count))]


def _has_float64(device: torch.device) -> bool:
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
        return True
    except (TypeError, RuntimeError):  # Apple's GPUs
        return False


def packages() -> dict[str, str]:
    """The packages of our extras: their versions, or how to install them."""
    try:
        requirements = metadata.requires("rootpool") or []
    except metadata.PackageNotFoundError:
        return {"rootpool": "runs from its source tree, not installed"}
    found: dict[str, str] = {}
    for extra in EXTRAS:
        ending = re.compile(rf"""([\w.-]+).*; extra == ['"]{extra}['"]""")
        for name in (match[1] for text in requirements if (match := ending.fullmatch(text))):
            found.setdefault(name, _version(name, extra))
    return found


def _version(name: str, extra: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"not installed; pip install 'rootpool[{extra}]'"


def _describe(about: dict[str, Any]) -> list[str]:
    """Names on the left, facts on the right, one per line, in 80 columns."""
    lines = []
    for name, value in about.items():
        if isinstance(value, dict):
            value = [f"{key:<20}  {text}" for key, text in value.items()]
        facts = value if isinstance(value, list) else [value]
        texts = [text for fact in facts for text in textwrap.wrap(fact, 64, subsequent_indent="  ")]
        lines += [
            f"{label:<14}  {text}" for label, text in zip_longest([name], texts, fillvalue="")
        ]
    return lines
