"""The device under test (``ROOTPOOL_TEST_DEVICE``), and what many tests of the numerics need."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

from matrices import DEVICE

ON_DEVICES = [Path(__file__).parent / room for room in ("linalg", "nn")]
# torch's cache of compiled code does not know that this variable changes the instructions.
if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
    folder = Path(tempfile.gettempdir()) / f"rootpool-inductor-{capability}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))

NO_FLOAT64 = ("doesn't support float64", "does not support float64")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "cpu: about threads or processes of the CPU, not about a device"
    )


def is_available() -> bool:
    try:
        torch.zeros(1, device=DEVICE)
    except (RuntimeError, AssertionError):  # torch asserts that it was built with CUDA
        return False
    return True


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: at the end they would keep one process busy while the others wait.

    On a device other than the CPU, run linalg and nn alone, and say why the others are skipped.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if DEVICE.type == "cpu":
        return
    absent = f"torch finds no device {DEVICE} here (ROOTPOOL_TEST_DEVICE)" * (not is_available())
    for item in items:
        there = any(item.path.is_relative_to(room) for room in ON_DEVICES)
        cpu_only = not there or item.get_closest_marker("cpu") is not None
        reason = absent or "runs on the CPU alone" * cpu_only
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """What tests make themselves is on the device, too; where there is no float64, skip what needs it."""
    if DEVICE.type == "cpu":
        return (yield)
    try:
        with DEVICE:
            return (yield)
    except TypeError as error:
        if any(text in str(error) for text in NO_FLOAT64):
            pytest.skip(f"{DEVICE} has no float64")
        raise


@pytest.fixture
def threads():
    """Set torch's number of threads, and put it back at the end of the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
