"""Write the figures of the last full run of the torture corpus, or of kills, into the page on reliability.

PYTHONPATH=tests python -m torture --record runs/torture.json
PYTHONPATH=tests python tests/kills.py --output runs/kills.json
python scripts/record_reliability.py runs/torture.json docs/reliability.md
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rootpool.report import Facts, Mono, Rendering, Table


def marked(name: str) -> re.Pattern[str]:
    """The place of a record in the page."""
    return re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)


def facts(record: dict[str, Any]) -> Facts:
    return Facts(
        {
            "cases": f"{record['cases']:,}",
            "calls, forward and backward": f"{record['calls']:,}",
            "of them ended in the error that was due": f"{record['clear errors']:,}",
            "failures": str(len(record["failures"])),
            "time": f"{record['seconds'] / 60:.0f} min",
            "machine": ", ".join(f"{key} {value}" for key, value in record["machine"].items()),
        }
    )


def worst_by_check(record: dict[str, Any]) -> Table:
    rows = [
        [
            Mono(row["check"]),
            Mono(row["measure"]),
            f"{row['measured']:,} of {row['tried']:,}",
            f"{row['figure']:.2g}",
            Mono(row["case"]),
        ]
        for row in sorted(record["worst"], key=lambda row: (row["family"], row["check"]))
        if row["figure"] > 0
    ]
    return Table(["function", "residual", "measured", "worst", "case"], rows)


def worst_by_kind(record: dict[str, Any]) -> Table:
    rows = [
        [
            f"{row['kind']} ({row['family']})",
            f"{row['cases']}",
            f"{row['figure']:.2g}",
            f"{row['check']}: {row['measure']}",
        ]
        for row in record["kinds"]
    ]
    return Table(["kind", "cases", "worst", "where"], rows)


def torture(record: dict[str, Any]) -> str:
    """Facts, and the worst figures by kind and by function."""
    if record["cases"] < 10_000:
        raise SystemExit(f"the record has {record['cases']} cases: the run was interrupted")
    parts = (facts(record), worst_by_kind(record), worst_by_check(record))
    return "\n\n".join(part.markdown(Rendering()) for part in parts) + "\n"


def kills(record: dict[str, Any]) -> str:
    """How many came back with the same bits, and what they were doing."""
    doing = Counter(kill["doing"] for kill in record["kills"])
    moments = ", ".join(f"{what} {count}" for what, count in doing.most_common())
    machine = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return (
        f"**The last full run** ({machine}; {record['seconds']} s): {record['equal']} of {record['tried']} "
        f"ended with the bits of the uninterrupted job. Killed while: {moments}.\n"
    )


def main(record: str, target: str) -> None:
    """Write a record, which says itself what it is of, between its marks."""
    figures = json.loads(Path(record).read_text(encoding="utf-8"))
    name, block = ("kills", kills) if "kills" in figures else ("torture", torture)
    page, text, place = Path(target), block(figures), marked(name)
    old = page.read_text(encoding="utf-8")
    if not place.search(old):
        raise SystemExit(f"{target} has no '<!-- {name}: begin -->' and '<!-- {name}: end -->'")
    page.write_text(place.sub(lambda match: match[1] + text + match[2], old), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
