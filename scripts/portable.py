"""Run the numerics as other CPUs would: one line per environment, exit code 1 if anything fails.

    python scripts/portable.py                  # all environments, about four minutes on two cores
    python scripts/portable.py compatible two   # those whose names contain one of the words
    python scripts/portable.py --full           # all tests of linalg, nn and the doctor in each

Libraries choose instructions by the CPU they find; variables of the environment make them choose those of
another one. Results may then differ by rounding, and nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "as it is, one thread": {},
    "as it is, two threads": {"OMP_NUM_THREADS": "2"},
    "odd addresses": {"ROOTPOOL_TEST_OFFSET": "1"},
    "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "torch for AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL for SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "MKL for AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "MKL compatible": {"MKL_CBWR": "COMPATIBLE"},
    "oneDNN for SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "oneDNN for AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
}
# Half a minute of what rounds; --full runs all tests in these folders.
FULL = ["tests/linalg", "tests/nn", "tests/cli/test_doctor.py"]
SLICE = [
    *("tests/linalg/test_decompose.py", "tests/linalg/test_parallel.py"),
    *("tests/linalg/test_second_order.py", "tests/linalg/test_svd.py"),
    *("tests/nn/test_every_method.py", "tests/nn/test_fused.py"),
]
SELECTION = ["-m", "not slow", "-k", "not compile"]  # the compiler takes longer than all the rest
DESCRIBE = """
import torch
from rootpool.machine import machine
print("CPU:", machine()["device"], "| torch", torch.__version__, "|", torch.backends.cpu.get_cpu_capability())
"""


def run(command: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command in an environment, with one thread unless it says otherwise."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def try_environment(name: str, paths: list[str], selection: list[str]) -> tuple[bool, str]:
    """Whether tests and doctor pass in an environment, and a report: a line, or all output."""
    variables, started = ENVIRONMENTS[name], time.perf_counter()
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *selection, *paths]
    tests, output = run(pytest, variables)
    doctor, advice = run(["-m", "rootpool.cli", "doctor"], variables)
    seconds = time.perf_counter() - started
    counts = re.findall(r"\d+ (?:passed|failed|error)", output.splitlines()[-1] if output else "")
    path = re.search(r"^instructions\s+(\S+)", advice, re.MULTILINE)
    settings = " ".join(f"{key}={value}" for key, value in variables.items()) or "-"
    line = (
        f"{'pass' if tests == doctor == 0 else 'FAIL'}  {name:<24}{', '.join(counts):<24}"
        f"doctor {'passes' if doctor == 0 else 'FAILS':<8}torch {path[1] if path else '?':<9}"
        f"{seconds:4.0f} s  {settings}"
    )
    details = "".join(f"\n{text}" for code, text in ((tests, output), (doctor, advice)) if code)
    return tests == doctor == 0, line + details


def main() -> int:
    """Run the environments that were asked for, and print a line for each as it ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "words", nargs="*", help="run environments whose names contain one of these"
    )
    parser.add_argument(
        "--full", action="store_true", help="run all tests of linalg, nn and the doctor"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="environments at a time (default: 2)"
    )
    arguments = parser.parse_args()
    names = [
        name
        for name in ENVIRONMENTS
        if not arguments.words or any(word.lower() in name.lower() for word in arguments.words)
    ]
    if not names:
        parser.error(f"no such environment; there are: {', '.join(ENVIRONMENTS)}")
    paths, selection = (FULL, []) if arguments.full else (SLICE, SELECTION)
    print(run(["-c", DESCRIBE], {})[1].strip(), flush=True)
    passed = []
    with ThreadPoolExecutor(arguments.workers) as executor:
        for fine, report in executor.map(
            lambda name: try_environment(name, paths, selection), names
        ):
            print(report, flush=True)
            passed.append(fine)
    print(f"{sum(passed)} of {len(passed)} environments pass")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
