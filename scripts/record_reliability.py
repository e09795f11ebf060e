"""Write the figures of the last full torture run into the page on reliability.

PYTHONPATH=tests python -m torture --record runs/torture.json
python scripts/record_reliability.py runs/torture.json docs/reliability.md
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from rootpool.analysis.blocks import Facts, Rendering
from rootpool.analysis.page import Mono
from rootpool.analysis.table import Table

MARKED = re.compile(r"(<!-- torture: begin[^\n]*-->\n).*?(<!-- torture: end -->)", re.DOTALL)


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
        [Mono(row["check"]), Mono(row["measure"]), f"{row['figure']:.2g}", Mono(row["case"])]
        for row in sorted(record["worst"], key=lambda row: (row["family"], row["check"]))
        if row["figure"] > 0
    ]
    return Table(["function", "residual", "worst", "case"], rows)


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


def block(record: dict[str, Any]) -> str:
    parts = (facts(record), worst_by_kind(record), worst_by_check(record))
    return "\n\n".join(part.markdown(Rendering()) for part in parts) + "\n"


def main(record: str, target: str) -> None:
    figures = json.loads(Path(record).read_text(encoding="utf-8"))
    if figures["cases"] < 10_000:
        raise SystemExit(
            f"{record} has {figures['cases']} cases: the run was interrupted, repeat it"
        )
    page, text = Path(target), block(figures)
    old = page.read_text(encoding="utf-8")
    if not MARKED.search(old):
        raise SystemExit(f"{target} has no '<!-- torture: begin -->' and '<!-- torture: end -->'")
    page.write_text(MARKED.sub(lambda match: match[1] + text + match[2], old), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
