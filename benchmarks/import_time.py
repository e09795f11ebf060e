"""What ``import rootpool`` costs on top of ``import torch``, and which other modules it imports.

    python benchmarks/import_time.py

Fresh interpreters take turns, and the best time of several counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from timing import duration, machine, table

ROUNDS = 10
CONTESTANTS = {
    "import torch": ("", "torch"),
    "import torch, rootpool": ("", "torch, rootpool"),
    # In a process that has torch, so that its noise is not in the difference.
    "rootpool after torch": ("import torch", "rootpool"),
}
CODE = """
import json, sys, time
{before}
modules, start, cpu = set(sys.modules), time.perf_counter(), time.process_time()
import {measured}
seconds = time.perf_counter() - start, time.process_time() - cpu
print(json.dumps([*seconds, sorted(set(sys.modules) - modules)]))
"""


def measure(before: str, measured: str) -> tuple[float, float, list[str]]:
    """Seconds on the clock and of the processor, and the new modules."""
    command = [sys.executable, "-c", CODE.format(before=before, measured=measured)]
    # Let Python keep compiled files, as for an installed package; only the first round compiles.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    clock, processor, modules = json.loads(done.stdout)
    return clock, processor, modules


def main() -> None:
    best = dict.fromkeys(CONTESTANTS, (float("inf"), float("inf")))
    modules: list[str] = []
    for _ in range(ROUNDS):
        for name, (before, measured) in CONTESTANTS.items():
            clock, processor, modules = measure(before, measured)
            best[name] = (min(best[name][0], clock), min(best[name][1], processor))
    print(f"{machine()}; fresh interpreters in turn, best of {ROUNDS}:\n")
    rows = [[name, *map(duration, seconds)] for name, seconds in best.items()]
    print(table(["", "clock", "processor"], rows))
    others = sorted({name.split(".")[0] for name in modules} - {"rootpool"})
    share = best["rootpool after torch"][1] / best["import torch"][1]
    print(
        f"\nOn top of torch: {share:.1%} of its time; modules that are not ours: {others or 'none'}."
    )


if __name__ == "__main__":
    main()
