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

import torch
from torch import Tensor

import rootpool
from rootpool.linalg import eigh, sqrtm
from rootpool.machine import machine
from rootpool.nn import covariance_pool

__all__ = ["doctor"]

# A package of an extra for users, not for developers.
EXTRA = re.compile(r"""([\w.-]+).*; extra == ['"](models|train|birds)['"]""")
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
    for name, facts in environment().items():
        texts = [text for fact in facts for text in textwrap.wrap(fact, 64, subsequent_indent="  ")]
        for label, text in zip_longest([name], texts, fillvalue=""):
            print(f"{label:<14}  {text}")
    print("\nnumerics: error <= tolerance")
    started, outcomes = time.perf_counter(), []
    for device in filter(_has_float64, devices()):
        for about, (allowed, measure) in CHECKS.items():
            try:
                error = measure(device)
                passed = error <= allowed  # what is not a number is not
                told = f"{error:.1g} {'<=' if passed else 'not <='} {allowed:.1g}"
            except Exception as raised:  # a failure like any other
                passed, told = False, f"{type(raised).__name__}: {' '.join(str(raised).split())}"
            where = about if device.type == "cpu" else f"{about} ({device})"
            print(f"  {'pass' if passed else 'FAIL'}  {where:<50}  {told}")
            outcomes.append(passed)
    if not all(outcomes):
        failed = f"{outcomes.count(False)} of {len(outcomes)} checks FAILED"
        print(f"\n{failed}: please report it, with all of the above")
        return 1
    seconds = time.perf_counter() - started
    print(f"\nall {len(outcomes)} checks of the numerics passed in {seconds:.1f} s")
    return 0


def environment() -> dict[str, list[str]]:
    """Versions, settings and hardware; lines by name."""
    here = machine()
    cores = f"{here['cores']} cores ({torch.get_num_interop_threads()} interop)"
    variables = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return {
        "rootpool": [rootpool.__version__],
        "python": [f"{here['python']} on {here['system']}"],
        "torch": [str(here["torch"])],
        "packages": packages(),
        "threads": [f"{here['threads']} on {cores}"],
        "variables": variables or ["none that matter here are set"],
        "linear algebra": ALGEBRA.findall(torch.__config__.show()),
        "instructions": [torch.backends.cpu.get_cpu_capability()],
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


def packages() -> list[str]:
    """The packages of the extras for users: their versions, or how to install them."""
    try:
        requirements = metadata.requires("rootpool") or []
    except metadata.PackageNotFoundError:
        return ["rootpool runs from its source tree, not installed"]
    found: dict[str, str] = {}
    for match in filter(None, map(EXTRA.fullmatch, requirements)):
        name, extra = match.groups()
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = f"not installed; pip install 'rootpool[{extra}]'"
    return [f"{name:<20}  {version}" for name, version in sorted(found.items())]


# --------------------------------------------------------------------------------------------------
# Checks


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
    """Covariances of 4 positions in 6 channels: Q Q = P; torch raises if the gradient is wrong."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(3, 6, 4, dtype=torch.float64, generator=generator).to(device)
    Q, A = covariance_pool(X, output="matrix"), X - X.mean(-1, keepdim=True)
    torch.autograd.gradcheck(covariance_pool, X.requires_grad_(), eps=1e-5, atol=1e-8, rtol=0)
    return _largest(Q @ Q - A @ A.mT / X.shape[-1])


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
