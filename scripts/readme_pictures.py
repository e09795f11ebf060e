"""Draw the speed bars of the README from the last run of the pooling benchmark.

python scripts/readme_pictures.py           writes docs/images/speed.svg
"""

from __future__ import annotations

import itertools
from pathlib import Path

from rootpool.report.plots import speed_bars

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "pooling.md"
SHAPE = "ResNet, 224 px (128, 256, 49)"
# Ours in other precisions are left out: that would be another comparison.
NOT_CONTESTANTS = (
    "Mflop",
    "rootpool exact, float64",
    "rootpool exact, float32",
    "own products + LAPACK",
    "the same, in cache",
)


def milliseconds(table: str, shape: str) -> dict[str, float]:
    """Time per image of each implementation in the first table of the benchmark."""
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), table.splitlines())
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in itertools.takewhile(lambda line: line.startswith("|"), lines)
    ]
    (row,) = (dict(zip(rows[0], row, strict=True)) for row in rows if row[0] == shape)
    del row[rows[0][0]]
    exact = float(row.pop("exact, per image").removesuffix(" ms"))
    multiples = {name: float(row[name]) for name in row if name not in NOT_CONTESTANTS}
    return {"rootpool exact": exact} | {name: exact * k for name, k in multiples.items()}


if __name__ == "__main__":
    times = milliseconds(RESULT.read_text(encoding="utf-8"), SHAPE)
    figure = speed_bars([{"label": name, "milliseconds": time} for name, time in times.items()])
    figure.savefig(ROOT / "docs" / "images" / "speed.svg")
