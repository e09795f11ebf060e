"""The whole corpus through every check, and its record.

python -m torture --record torture.json              the whole run
python -m torture "matrix/Hilbert/float32/37"        one case again, alone and in its group
python -m torture "matrix/Hilbert/float32/37" --check sqrtm
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from rich.progress import track

from rootpool.machine import machine

from .checks import THRESHOLD, UNMEASURED
from .corpus import GROUP, Group, groups, parse_case
from .runner import Finding, examine, run_group


def all_findings(workers: int) -> Iterator[tuple[Group, list[Finding]]]:
    """What the workers find, group by group; an interrupt ends the run with what there is."""
    corpus = groups()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        results = pool.map(examine, corpus)
        try:
            for group in track(corpus, "torture"):
                yield group, next(results)
        except KeyboardInterrupt:
            print("interrupted: this is not the whole corpus")
            pool.shutdown(cancel_futures=True)


def summarise(workers: int) -> dict[str, object]:
    """Counts, the worst figure of each measure with its case, failures, and where it was run."""
    start = time.perf_counter()
    cases = calls = errors = 0
    worst: dict[tuple[str, str, str], Finding] = {}
    tried: Counter[tuple[str, str, str]] = Counter()
    measured: Counter[tuple[str, str, str]] = Counter()
    kinds: dict[tuple[str, str], dict[str, object]] = {}
    failures = []
    for group, findings in all_findings(workers):
        cases += len(group.seeds)
        row = kinds.setdefault((group.family, group.kind), {"cases": 0, "figure": -1.0})
        row["cases"] += len(group.seeds)
        for finding in findings:
            calls += finding.measure in ("finite value", "clear error")
            errors += finding.measure == "clear error"
            if finding.failed:
                failures.append(finding)
                print("FAILED", asdict(finding))
            key = (group.family, finding.check, finding.measure)
            tried[key] += 1
            measured[key] += finding.figure != UNMEASURED
            if key not in worst or finding.figure > worst[key].figure:
                worst[key] = finding
            if finding.figure > row["figure"]:
                row.update(figure=finding.figure, check=finding.check, measure=finding.measure)
                row.update(case=finding.case)
    return {
        "cases": cases,
        "calls": calls,
        "clear errors": errors,
        "threshold": THRESHOLD,
        "seconds": time.perf_counter() - start,
        "machine": dict(machine()),
        "worst": [
            {"family": key[0], "tried": tried[key], "measured": measured[key], **asdict(finding)}
            for key, finding in worst.items()
        ],
        "kinds": [{"family": key[0], "kind": key[1], **row} for key, row in kinds.items()],
        "failures": [asdict(finding) for finding in failures],
    }


def rerun(name: str, check: str | None) -> list[Finding]:
    """One case alone and together with the fifteen that it met in the whole run."""
    alone = parse_case(name)
    first = alone.seeds[0] // GROUP * GROUP
    company = Group(alone.family, alone.kind, alone.dtype, tuple(range(first, first + GROUP)))
    findings = list(run_group(alone, check))
    return findings + [f for f in run_group(company, check) if f.case == name]


def main() -> int:
    parser = argparse.ArgumentParser("torture", description=__doc__.split("\n")[0])
    parser.add_argument("case", nargs="?", help="family/kind/dtype/seed of a case to run again")
    parser.add_argument("--check", help="this check alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, help="write the record as JSON")
    arguments = parser.parse_args()
    if arguments.case:
        findings = rerun(arguments.case, arguments.check)
        for f in findings:
            line = f"{f.check}: {f.measure}: {f.figure:.3g} {f.message}"
            print("FAILED" if f.failed else "      ", line)
        return int(any(f.failed for f in findings))
    record = summarise(arguments.workers)
    counts = ("cases", "calls", "clear errors", "seconds")
    print(", ".join(f"{name}: {record[name]:.0f}" for name in counts))
    print("failures:", len(record["failures"]))
    if arguments.record:
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(bool(record["failures"]))


if __name__ == "__main__":
    raise SystemExit(main())
