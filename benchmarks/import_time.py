"""What ``import rootpool`` costs on top of ``import torch``, and what it brings along.

    python benchmarks/import_time.py

Fresh interpreters take turns; the best of several is what the imports cost when nothing else runs.
"""

from __future__ import annotations

import json
import subprocess
import sys

from timing import duration, machine, table

ROUNDS = 15
TOTAL = """
import time; start = time.perf_counter()
import {modules}
print(time.perf_counter() - start)
"""
# Within one process, so that the noise of importing torch is not in the difference.
ADDED = """
import json, sys, time, torch
before, start = set(sys.modules), time.perf_counter()
import rootpool
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    contestants = {"import torch": "torch", "import torch, rootpool": "torch, rootpool"}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    added, modules = [], []
    for _ in range(ROUNDS):
        for name, imported in contestants.items():
            seconds[name].append(float(run(TOTAL.format(modules=imported))))
        taken, modules = json.loads(run(ADDED))
        added.append(taken)
    print(f"{machine()}; fresh interpreters in turn, best and median of {ROUNDS}:\n")
    rows = [
        [name, duration(min(taken)), duration(sorted(taken)[ROUNDS // 2])]
        for name, taken in {**seconds, "rootpool after torch": added}.items()
    ]
    print(table(["", "best", "median"], rows))
    ours = [name for name in modules if name.split(".")[0] == "rootpool"]
    others = sorted({name.split(".")[0] for name in modules} - {"rootpool"})
    share = min(added) / min(seconds["import torch"])
    print(
        f"\nOn top of torch: {share:.1%} of its time, {len(ours)} modules of our own, and of others"
    )
    print(f"{', '.join(others) or 'none'}.")


if __name__ == "__main__":
    main()
