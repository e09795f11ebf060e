"""Which runs failed to converge, and whether a change of settings keeps them from failing.

A run has failed if its numbers stopped being finite, or if its training ends more than ten points of error
above what the same seed reaches with Newton-Schulz in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

from rootpool.report.records import Record

from .judge import Answer, conclude
from .plan import FUSED, Measured
from .published import TextClaim
from .result import Result, Verdict, verdict_of
from .rows import Row, endings, settings_of

__all__ = ["failures", "measure_rescue", "tells_apart", "with_failures"]

LIMIT = 10.0  # points of training error
NEWTON = "isqrt-cov"
SURE = 0.05


def with_failures(rows: Sequence[Row]) -> list[Row]:
    """Rows of final errors, each with ``failed``."""
    good = {
        row["seed"]: row["train_error"]
        for row in rows
        if row["method"] == NEWTON and row.get("precision", "float64") == "float64"
    }
    return [
        {**row, "failed": bool(row["diverged"]) or row["train_error"] > good[row["seed"]] + LIMIT}
        for row in rows
    ]


def failures(rows: Sequence[Row]) -> str:
    """How many failed.

    >>> failures([{"failed": True}, {"failed": False}])
    '1 of 2'
    """
    return f"{sum(row['failed'] for row in rows)} of {len(rows)}"


def tells_apart(failing: Sequence[Row], other: Sequence[Row]) -> float:
    """The chance of such a difference in failures if there were none: the exact sign test over pairs.

    Pairs are runs of the same method and seed; those that fail on both sides, or on none, say nothing.
    """
    outcome = {(row["method"], row["seed"]): row["failed"] for row in other}
    pairs = [(row["failed"], outcome[row["method"], row["seed"]]) for row in failing]
    different = [first for first, second in pairs if first != second]
    if not different:
        return 1.0
    return float(stats.binomtest(sum(different), len(different)).pvalue)


def _is_rescued(standalone: Sequence[Row], hybrid: Sequence[Row]) -> Verdict:
    """Whether runs fail standalone and not hybrid; inconclusive if hardly any fails anyway."""
    if tells_apart(standalone, hybrid) < SURE:
        return verdict_of(sum(r["failed"] for r in hybrid) < sum(r["failed"] for r in standalone))
    still = sum(row["failed"] for row in hybrid)
    return verdict_of(False if still > len(hybrid) / 2 else None)


def measure_rescue(text: TextClaim, study: Measured) -> Result:
    """Runs that fail standalone, and the same with Newton-Schulz first."""
    rows = with_failures(endings(study.runs()))
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name = f"{row['method']}, {row.get('precision', 'float64')}"
        groups.setdefault((name, row["protocol"]), []).append(row)
    records: list[Record] = []
    for (name, protocol), own in groups.items():
        count = sum(row["failed"] for row in own)
        records.append({"row": name, "column": f"{protocol}, failed", "measured": count})
        records.append({"row": name, "column": f"{protocol}, runs", "measured": len(own)})
    svd = [row for row in rows if row["method"] in text.members("svd")]
    answers = []
    for precision in ("float64", "float32"):
        standalone, hybrid = (
            [r for r in svd if (r.get("precision", "float64"), r["protocol"]) == (precision, p)]
            for p in ("standalone", "hybrid")
        )
        hybrid = [r for r in hybrid if any(_same(r, other) for other in standalone)]
        answers.append(
            Answer(
                f"In {precision} hybrid training converges where standalone training does not. Here "
                f"{failures(standalone)} runs as published fail standalone, and {failures(hybrid)} "
                f"hybrid (sign test over pairs: p = {tells_apart(standalone, hybrid):.2g}).",
                _is_rescued(standalone, hybrid),
            )
        )
    ours = [row for row in rows if row["method"] in (FUSED.format("mpn-cov"), "exact")]
    beside = f"In our form {failures(ours)} runs fail, standalone and hybrid, in both precisions."
    settings = {**settings_of(study.plan), "a run has failed": _FAILED, "beside": beside}
    return conclude(text, answers, records, settings, runs=rows)


def _same(one: Row, other: Row) -> bool:
    return (one["method"], one["seed"]) == (other["method"], other["seed"])


_FAILED = (
    f"if its numbers stop being finite, or if its training error ends more than {LIMIT:g} points above "
    "that of iSQRT-COV in float64 with the same seed"
)
