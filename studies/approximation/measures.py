"""The measures of the question of the title: the two by two, and the number of iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from rootpool.report import Cell, Number, PairedDifference, Picture, Table, compare, describe
from rootpool.report.statistics import paired_difference
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of, results_table
from studies.engine.questions import Finding, outcome_of, tells
from studies.engine.study import Entry
from studies.engine.training import Place

from .drawings import draw_sweep

__all__ = ["half_effect", "halves", "iterations"]

ROOT, NEWTON = "exact", "Newton-Schulz"
OTHER = {"forward": "backward", "backward": "forward"}
ITERATIONS = (1, 2, 3, 5, 7, 10, 15)
CONVERGED = 100  # stands for the limit of the iteration in study.yaml
COLUMNS = {"val_error": "error, %", "train_error": "training error, %"}


# --------------------------------------------------------------------------------------------------
# Two by two


def half_effect(place: Place, half: str) -> PairedDifference | None:
    """Newton-Schulz against the accurate root in one half, averaged over the other, seed by seed."""
    by_seed: dict[int, dict[bool, list[float]]] = {}
    for row in place.rows:
        if not row["failed"]:
            sides = by_seed.setdefault(row["seed"], {True: [], False: []})
            sides[row[half] == NEWTON].append(row["val_error"])
    whole = [s for s in by_seed.values() if len(s[True]) == len(s[False]) == 2]
    if not whole:
        return None
    return paired_difference(*([fmean(sides[side]) for sides in whole] for side in (True, False)))


def halves(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The four combinations of value and gradient, and what Newton-Schulz does in each half."""
    effects = {p.name: {half: half_effect(p, half) for half in OTHER} for p in places}
    findings = {
        name: {half: _effect(d) for half, d in own.items() if d is not None}
        for name, own in effects.items()
    }
    rows: list[list[Cell]] = [
        [n, *(_shown(own[half]) for half in OTHER)] for n, own in effects.items()
    ]
    caption = (
        "Change of the error in points, with half of its 95 % interval (below zero: better): Newton-Schulz "
        "instead of the exact root, each half averaged over the other; not corrected."
    )
    table = Table(["network", "Newton-Schulz forward", "Newton-Schulz backward"], rows, caption)
    return Found(findings, [table, *(_cells(place) for place in places)])


def _effect(d: PairedDifference) -> Finding:
    told = tells([d])
    said = describe(d) + ("" if d.clear or told is None else f"; {told}")
    return Finding(outcome_of(d.mean < 0 if d.clear else None), said)


def _shown(d: PairedDifference | None) -> Cell:
    return None if d is None else Number(d.mean, d.reach, "+.2f")


def _cells(place: Place) -> Table:
    def cell(forward: str, backward: str) -> Cell:
        wanted = {"forward": forward, "backward": backward, "failed": False}.items()
        return mean_of([row["val_error"] for row in place.rows if wanted <= row.items()])

    rows: list[list[Cell]] = [
        [f"value: {forward}", cell(forward, "exact"), cell(forward, NEWTON)]
        for forward in ("accurate", NEWTON)
    ]
    headers = [place.name, "gradient: exact", "gradient: Newton-Schulz"]
    return Table(
        headers, rows, f"Error in %, mean and standard deviation over seeds; {place.about}."
    )


# --------------------------------------------------------------------------------------------------
# The number of iterations


def _points(place: Place, places: Mapping[float, float]) -> list[dict[str, float | None]]:
    """Differences to the exact root, at the places of the numbers of iterations; zero at its own."""
    good = [row for row in place.rows if not row["failed"] and row.get("iterations") in places]
    own = {
        row["run"]: places[row["iterations"]]
        for row in sorted(good, key=lambda row: row["iterations"])
    }
    if ROOT not in own:
        return []
    found = {c.run: c for c in compare(good, [(r, ROOT) for r in own if r != ROOT])}
    return [
        {"place": at, "mean": d.mean, "low": d.low, "high": d.high}
        if (d := found.get(run))
        else {"place": at, "mean": 0.0, "low": None, "high": None}
        for run, at in own.items()
    ]


def iterations(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """Differences to the exact root by the number of iterations, one line per network, and the errors."""
    at = {float(count): float(k) for k, count in enumerate((*ITERATIONS, CONVERGED))}
    ticks = {k: "converged" if count == CONVERGED else f"{count:g}" for count, k in at.items()}
    label = "number of iterations of Newton-Schulz"
    lines = {place.name: points for place in places if (points := _points(place, at))}
    alt = f"Error against the exact root by the {label}, one line per network"
    caption = "The number of iterations. ‘Converged’ is the exact root with its exact gradient."
    drawn = [Picture.of(draw_sweep, lines, ticks, label, alt=alt, caption=caption)] if lines else []
    tables = (results_table(p, COLUMNS, f"{p.name}: {p.about}.") for p in places)
    return Found(blocks=[*drawn, *tables])
