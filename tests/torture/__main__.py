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
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from rootpool.machine import machine

from .checks import THRESHOLD, UNMEASURED
from .corpus import GROUP, Group, groups, parse_case
from .runner import Finding, examine, run_group

console = Console(width=None if sys.stdout.isatty() else 120)


def all_findings(rounds: int, workers: int) -> Iterator[tuple[Group, list[Finding]]]:
    """What the workers find, group by group; an interrupt ends the run with what there is."""
    corpus = groups(rounds)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        results = pool.map(examine, corpus)
        try:
            for group in track(corpus, "torture", console=console):
                yield group, next(results)
        except KeyboardInterrupt:
            console.print("interrupted: this is not the whole corpus")
            pool.shutdown(cancel_futures=True)


def summarise(rounds: int, workers: int) -> dict[str, object]:
    """Counts, the worst figure of each measure with its case, failures, and where it was run."""
    start = time.perf_counter()
    cases = calls = errors = 0
    worst: dict[tuple[str, str, str], Finding] = {}
    tried: Counter[tuple[str, str, str]] = Counter()
    measured: Counter[tuple[str, str, str]] = Counter()
    kinds: dict[tuple[str, str], dict[str, object]] = {}
    failures = []
    for group, findings in all_findings(rounds, workers):
        cases += len(group.seeds)
        row = kinds.setdefault((group.family, group.kind), {"cases": 0, "figure": -1.0})
        row["cases"] += len(group.seeds)
        for finding in findings:
            calls += finding.measure in ("finite value", "clear error")
            errors += finding.measure == "clear error"
            if finding.failed:
                failures.append(finding)
                console.print("FAILED", asdict(finding), markup=False)
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


def show(record: dict) -> None:
    columns = ("check", "measure", "measured", "worst", "case")
    table = Table(*columns, title="worst figures, in units of rounding")
    for row in record["worst"]:
        if row["figure"] > 0:
            share = f"{row['measured']} of {row['tried']}"
            figure = f"{row['figure']:.3g}"
            table.add_row(row["check"], row["measure"], share, figure, row["case"])
    console.print(table)
    console.print(
        f"{record['cases']} cases, {record['calls']} calls forward and backward, "
        f"{record['clear errors']} of them ended in the error that was due or allowed; "
        f"{len(record['failures'])} failures; {record['seconds']:.0f} s"
    )


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
    parser.add_argument("--rounds", type=int, default=1, help="times the corpus, with other seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, help="write the record as JSON")
    arguments = parser.parse_args()
    if arguments.case:
        findings = rerun(arguments.case, arguments.check)
        for f in findings:
            line = f"{f.check}: {f.measure}: {f.figure:.3g} {f.message}"
            console.print("FAILED" if f.failed else "      ", line, markup=False)
        return int(any(f.failed for f in findings))
    record = summarise(arguments.rounds, arguments.workers)
    show(record)
    if arguments.record:
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(bool(record["failures"]))


if __name__ == "__main__":
    raise SystemExit(main())
