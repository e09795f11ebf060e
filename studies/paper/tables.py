"""Tables of the paper beside what was measured here, and the measures that need nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from rootpool.report import Block, Cell, Number, Strong, Table, Text
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of
from studies.engine.questions import Finding, outcome_of
from studies.engine.study import Entry
from studies.engine.training import Place, Row

from .published import PrintedTable, load_published

__all__ = ["errors", "rescue", "seeds", "side_by_side"]

AVERAGE = "average pooling"  # one row for the networks without covariance pooling
Here = Mapping[tuple[str, str], Number | None]


def _name(row: str, method: str) -> str:
    return AVERAGE if method == "gap" else row


def side_by_side(
    printed: PrintedTable, here: Here, caption: str = "", rows: str = "method"
) -> Table:
    """Each row of the paper, as printed, and below it what was measured, by names of row and column.

    What is measured and not printed has rows and columns of its own, at the end.
    """
    columns = list(dict.fromkeys([*printed.columns, *(column for _, column in here)]))
    named = {_name(row.name, row.method): None for row in printed.rows} | dict.fromkeys(
        row for row, _ in here
    )
    cells: list[list[Cell]] = []
    for name in named:
        lines: list[list[Cell]] = []
        for row in printed.rows:
            if _name(row.name, row.method) == name:
                where = f"paper, {row.group}" if row.group else "paper"
                texts = {c: cell.text.replace("-", "−") for c, cell in row.cells.items()}
                lines.append([where, *(texts.get(column) for column in columns)])
        measured = [here.get((name, column)) for column in columns]
        if any(value is not None for value in measured):
            lines.append([Strong("here"), *measured])
        first: Text = name
        for line in lines:
            cells.append([first, *line])
            first = ""
    return Table([rows, "", *columns], cells, f"{printed.caption} {caption}".strip())


def _cells(table: PrintedTable, place: Place) -> dict[tuple[str, str], Number | None]:
    """What was measured, by row and column: means over the seeds that converged."""
    wanted = {_name(r.name, r.method): {"method": r.method, **r.tags} for r in table.rows}
    for method in dict.fromkeys(row["method"] for row in place.rows):
        if method not in table.methods:
            name = AVERAGE if method == "gap" else f"{method} (not in this table)"
            wanted[name] = {"method": method}
    found: dict[tuple[str, str], Number | None] = {}
    assert place.network is not None
    for name, tags in wanted.items():
        own = [row for row in place.rows if tags.items() <= row.items()]
        for column, measure in table.measures.items():
            if measure.get("family", place.network.reported_as) == place.network.reported_as:
                found[name, column] = mean_of([r[measure["value"]] for r in _stage(own, measure)])
    return found


def _stage(rows: Sequence[Row], measure: Mapping[str, str]) -> list[Row]:
    """The converged runs of a protocol; Newton-Schulz and averages have one only, which tables repeat."""
    several = len({row["protocol"] for row in rows}) > 1 and "protocol" in measure
    wanted = [measure["protocol"]] if several else [row["protocol"] for row in rows]
    return [row for row in rows if row["protocol"] in wanted and not row["failed"]]


def errors(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The errors or accuracies that the paper prints, if the entry has any, and apart from them our own.

    Columns are in ``published.yaml``. Networks of different sizes in one table would invite a comparison.
    """
    table = load_published().tables.get(entry.name.partition(":")[2])
    if table is None:
        return Found()
    apart = replace(table, rows=(), caption="")
    blocks = [side_by_side(table, {}, "As published, at the size of the paper.")]
    for place in places:
        caption = f"Here, {place.name}: mean ± standard deviation over the seeds that converged."
        blocks.append(side_by_side(apart, _cells(table, place), caption))
    return Found(blocks=blocks)


def seeds(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """How much the final error of SVD-Pade, standalone, varies with the seed."""
    return Found.by_place(places, lambda place: ({"spread": _spread(place)}, []))


def _spread(place: Place) -> Finding:
    limit = load_published().statements["seed-fluctuation"]
    values = [row["val_error"] for row in place.rows if not row["failed"]]
    if len(values) < 2:
        return Finding("not testable", f"{len(values)} of {len(place.rows)} runs converged")
    images, share = place.runs[0].folder.images or 1, fmean(values) / 100
    chance = 100 * (share * (1 - share) / images) ** 0.5
    spread = stdev(values)
    said = (
        f"a standard deviation of {spread:.2f} points over {len(values)} seeds, between "
        f"{min(values):.2f} and {max(values):.2f} %; {images} images alone make an error of "
        f"{chance:.2f} points"
    )
    return Finding("not testable" if chance > limit else outcome_of(spread <= limit), said)


def rescue(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """How many runs fail, by method, precision and protocol."""
    return Found.by_place(places, _rescue)


def _rescue(place: Place) -> tuple[dict[str, Finding], list[Block]]:
    counts: dict[str, dict[str, str]] = {}
    for row in place.rows:
        own = [r["failed"] for r in place.rows if r["run"] == row["run"]]
        by_protocol = counts.setdefault(row["run"].removesuffix(", hybrid"), {})
        by_protocol[row["protocol"]] = f"{sum(own)} of {len(own)}"
    cells: list[list[Cell]] = [
        [name, by.get("standalone"), by.get("hybrid")] for name, by in counts.items()
    ]
    ours = [r["failed"] for r in place.rows if r["method"] in ("exact", "mpn-cov, fused")]
    finding = Finding(outcome_of(not any(ours)), f"{sum(ours)} of {len(ours)} runs fail")
    table = Table(["run", "standalone, failed", "hybrid, failed"], cells, place.name)
    return {"ours": finding}, [table]
