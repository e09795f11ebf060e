"""Write what a command has recorded into its place in the page on reliability.

    PYTHONPATH=tests python -m torture --record runs/torture.json
    python benchmarks/bits.py --output runs/bits.json
    python benchmarks/waits.py --output runs/waits.json
    python scripts/record_reliability.py runs/torture.json docs/appendix/reliability.md

Each record says itself what it is of.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from rootpool.files import write_atomically
from rootpool.report import Facts, Mono, Rendering, Table


def marked(name: str) -> re.Pattern[str]:
    """The place of a record in the page."""
    return re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)


def code_if_name(text: str) -> Mono | str:
    """A name of Python as code, and other text as it is."""
    return Mono(text) if text.isidentifier() else text


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


def bits(record: dict[str, Any]) -> str:
    """In how many cases the bits depend on something, for each setting."""
    columns = ("threads", "place", "company")
    rows = [
        [
            "as it is" if row["setting"] == "as it is" else Mono(row["setting"]),
            code_if_name(row["result"]),
            *(f"{row[name]} of {row['cases']}" if name in row else "" for name in columns),
        ]
        for row in record["bits"]
    ]
    header = ["setting", "result", "number of threads", "place in the batch", "alone or in a batch"]
    here = record["machine"]
    about = f"{here['device']}, {here['threads']} threads, torch {here['torch']}, {record['mkl']}:"
    return f"{about}\n\n{Table(header, rows).markdown(Rendering())}\n"


def waits(record: dict[str, Any]) -> str:
    """How often the host waits, forward + backward."""
    rows = [
        [
            code_if_name(row["step"]),
            *("{} + {}".format(*row[name]) for name in ("checked", "unchecked")),
        ]
        for row in record["waits"]
    ]
    header = ["forward + backward of", "checks on (default)", "checks off"]
    return Table(header, rows).markdown(Rendering()) + "\n"


# The key that only such a record has, the name of its place in the page, and what to write there.
BLOCKS = {
    "worst": ("torture", torture),
    "bits": ("bits", bits),
    "waits": ("waits", waits),
}


def main(record: str, target: str) -> None:
    """Write a record between its marks."""
    figures = json.loads(Path(record).read_text(encoding="utf-8"))
    found = [block for key, block in BLOCKS.items() if key in figures]
    if len(found) != 1:
        raise SystemExit(f"{record} is not a record of one of {', '.join(BLOCKS)}")
    name, block = found[0]
    page, text, place = Path(target), block(figures), marked(name)
    old = page.read_text(encoding="utf-8")
    if not place.search(old):
        raise SystemExit(f"{target} has no '<!-- {name}: begin -->' and '<!-- {name}: end -->'")
    write_atomically(page, place.sub(lambda match: match[1] + text + match[2], old))


if __name__ == "__main__":
    main(*sys.argv[1:])
