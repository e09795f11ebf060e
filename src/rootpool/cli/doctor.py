r"""``rootpool doctor``: the facts that a bug report needs, and a check of the numerics. Needs torch alone.

A check returns the largest error that it met. The right answer comes from algebra (:math:`Q^2 = P`), from a
closed form, or from differences of values, and not from this library.
"""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections.abc import Callable
from importlib import metadata
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

import rootpool
from rootpool.linalg import eigh, sqrtm
from rootpool.machine import machine
from rootpool.nn import covariance_pool

__all__ = ["doctor"]

EXTRAS = ("models", "train", "birds")  # those for users, not for developers
# Threads, devices, and what makes a CPU compute as another one would.
VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    *("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA"),
)
# What torch says about its linear algebra, among much about its compiler.
ALGEBRA = re.compile(
    r"Math Kernel Library Version \S+|LAPACK is \w+|\bMAGMA [\d.]+|\w*(?:BLAS|LAPACK)_INFO=\w+"
)


def doctor(bench: bool = False) -> int:
    """Print versions, threads, devices and the outcome of every check; 1 when one fails.

    Or the table of :mod:`rootpool.cli.bench` for the last device.
    """
    if bench:
        from .bench import bench as table

        print(*table(devices()[-1]), sep="\n")
        return 0
    print(*_describe(environment()), "", "numerics: error <= tolerance", sep="\n")
    started, failed, checks = time.perf_counter(), 0, 0
    for device in filter(_has_float64, devices()):
        for about, (allowed, measure) in CHECKS.items():
            passed, told = _outcome(measure, allowed, device)
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
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ}
        or "none that matter here are set",
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


# --------------------------------------------------------------------------------------------------
# Checks


def _outcome(
    measure: Callable[[torch.device], float], allowed: float, device: torch.device
) -> tuple[bool, str]:
    """Whether a check passes on a device, and its error; an exception is a failure like any other."""
    try:
        error = measure(device)
    except Exception as raised:
        return False, f"{type(raised).__name__}: {' '.join(str(raised).split())}"
    passed = error <= allowed  # what is not a number is not
    return passed, f"{error:.1g} {'<=' if passed else 'not <='} {allowed:.1g}"


def _largest(*differences: Tensor) -> float:
    # torch's maximum, because Python's may lose a NaN.
    return float(torch.stack([difference.detach().abs().max() for difference in differences]).max())


def _root_at_a_tie(device: torch.device) -> float:
    """At A = I the derivative of the root is half of the identity; torch raises if the second is wrong."""
    A = torch.eye(3, dtype=torch.float64, device=device, requires_grad=True)
    Q = sqrtm(A)
    (gradient,) = torch.autograd.grad(Q.sum(), A)
    torch.autograd.gradgradcheck(lambda A: sqrtm((A + A.mT) / 2), A)
    return _largest(Q - A, gradient - 0.5)


def _rank_deficient(device: torch.device) -> float:
    """Covariances of 4 positions in 6 channels: Q Q = P, and the gradient as a difference of values."""
    generator = torch.Generator().manual_seed(0)
    shape = (3, 2, 6, 4)
    X, D, G = torch.randn(shape, dtype=torch.float64, generator=generator).to(device)
    G = G @ G.mT

    def loss(X: Tensor) -> Tensor:
        return (G * covariance_pool(X, output="matrix")).sum()

    Q, A = covariance_pool(X, output="matrix"), X - X.mean(-1, keepdim=True)
    (gradient,) = torch.autograd.grad(loss(X.requires_grad_()), X)
    step = 3e-4  # the difference is right to step^4, and round-off to 1e-16 / step
    with torch.no_grad():
        near, far = (loss(X + h * D) - loss(X - h * D) for h in (step, 2 * step))
    slope = (8 * near - far) / (12 * step)
    return _largest(Q @ Q - A @ A.mT / X.shape[-1], (gradient * D).sum() - slope)


def _dead_channels(device: torch.device) -> float:
    """Float32 covariances of rank 2 or 3, most channels dead: LAPACK may give up on some of them."""
    covariances = []
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        live, positions, rank = 20 + seed % 12, (49, 100, 25, 16)[seed % 4], 2 + seed % 3
        left = torch.randn(live, rank, generator=generator)
        right = torch.randn(rank, positions, generator=generator)
        X = torch.zeros(64, positions)
        X[torch.randperm(64, generator=generator)[:live]] = (left @ right).relu()
        X = X - X.mean(1, keepdim=True)
        covariances.append(X @ X.mT / positions)
    A = torch.stack(covariances).to(device)
    lam, U = eigh(A)
    scale = A.abs().amax((-2, -1), keepdim=True)
    one = torch.eye(64, device=device)
    return _largest((A @ U - U * lam.unsqueeze(-2)) / scale, U.mT @ U - one)


# What is checked, the error that is allowed, and the function that measures it.
CHECKS: dict[str, tuple[float, Callable[[torch.device], float]]] = {
    "root of the identity, and its derivatives": (1e-14, _root_at_a_tie),
    "root of rank-deficient covariances, its gradient": (1e-9, _rank_deficient),
    "float32 covariances with dead channels": (2e-5, _dead_channels),
}
