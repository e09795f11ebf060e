"""Freed memory is kept while a network trains, and given back afterwards."""

import ctypes
import os
import subprocess
import sys

import pytest

from rootpool.train.memory import _glibc

GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")

# 64 MB, filled and freed twenty times: 16384 pages of 4 KB each time if they are new.
FAULTS = """
import resource, torch
from rootpool.train.memory import freed_memory_kept

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

with freed_memory_kept():
    torch.ones(1 << 24)
    before = faults()
    for _ in range(20):
        torch.ones(1 << 24)
    again, inside = faults() - before, resident()
print(again, inside - resident())
"""


@pytest.mark.skipif(not GLIBC, reason="memory is not managed by glibc")
def test_large_blocks_are_used_again_and_given_back_at_the_end():
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env=plain, capture_output=True, text=True, check=True
    )
    again, returned = map(int, done.stdout.split())
    assert again < 20 * 16384 / 10
    assert returned > 32 << 20


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_THRESHOLD_", "1000000"), ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")],
)
def test_the_choice_of_a_user_is_left_alone(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert _glibc() is None
