"""The measures of the question of the title: the two by two, the sweeps, and what was learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from rootpool.models.files import load_weights_only
from rootpool.nn import METHODS
from rootpool.report import Block, Cell, Number, PairedDifference, Picture, Table, compare, describe
from rootpool.report.statistics import paired_difference
from rootpool.train.run import LAST
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of, results_table
from studies.engine.questions import Finding, outcome_of, tells
from studies.engine.study import Entry
from studies.engine.training import Place, Run
from studies.methods import learned_values

from .drawings import draw_filters, draw_sweep
from .filters import CONVERGED, ITERATIONS, spectral_response, usual_filters

__all__ = ["exponents", "half_effect", "halves", "iterations", "learned"]

ROOT, NEWTON = "exact", "Newton-Schulz"
OTHER = {"forward": "backward", "backward": "forward"}
LEARNED = ("learned-power", "learned-mixture")
SPECTRUM = torch.logspace(-6, 0, 40, dtype=torch.float64)
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
    if d is None:
        return None
    reach = None if d.low is None or d.high is None else (d.high - d.low) / 2
    return Number(d.mean, reach, "+.2f")


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
# Sweeps


def _points(place: Place, tag: str, places: Mapping[float, float]) -> list[dict[str, float | None]]:
    """Differences to the exact root along a tag, at the places of its values; zero at its own."""
    good = [row for row in place.rows if not row["failed"] and row.get(tag) in places]
    own = {row["run"]: places[row[tag]] for row in sorted(good, key=lambda row: row[tag])}
    if ROOT not in own:
        return []
    found = {c.run: c.difference for c in compare(good, [(r, ROOT) for r in own if r != ROOT])}
    return [
        {"place": at, "mean": d.mean, "low": d.low, "high": d.high}
        if (d := found.get(run))
        else {"place": at, "mean": 0.0, "low": None, "high": None}
        for run, at in own.items()
    ]


def _sweep(
    places: Sequence[Place], tag: str, at: Mapping[float, float], label: str, caption: str
) -> list[Block]:
    """Differences to the exact root by a number, one line per network, and the errors."""
    ticks = {
        place: "converged" if (tag, value) == ("iterations", CONVERGED) else f"{value:g}"
        for value, place in at.items()
    }
    lines = {place.name: points for place in places if (points := _points(place, tag, at))}
    alt = f"Error against the exact root by the {label}, one line per network"
    drawn = [Picture.of(draw_sweep, lines, ticks, label, alt=alt, caption=caption)] if lines else []
    return [*drawn, *(results_table(p, COLUMNS, f"{p.name}: {p.about}.") for p in places)]


def iterations(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The number of iterations, and the filters that they are."""
    at = {float(count): float(k) for k, count in enumerate((*ITERATIONS, CONVERGED))}
    caption = "The number of iterations. ‘Converged’ is the exact root with its exact gradient."
    label = "number of iterations of Newton-Schulz"
    return Found(blocks=[_filters({}), *_sweep(places, "iterations", at, label, caption)])


def exponents(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The exponent."""
    values = sorted({row["exponent"] for place in places for row in place.rows})
    caption = "The exponent, with the norm of the result kept at the square root's."
    return Found(blocks=_sweep(places, "exponent", {v: v for v in values}, "exponent", caption))


def _filters(learned: Mapping[str, Callable[[Tensor], Tensor]]) -> Picture:
    usual = spectral_response(usual_filters(), SPECTRUM)
    newton = [r for r in usual if "iteration" in r["run"]]
    others = [r for r in usual if r["run"] in ("exponent 0.3", "exponent 0.7")]
    return Picture.of(
        draw_filters,
        newton,
        [*others, *spectral_response(learned, SPECTRUM)],
        alt="Filters over the eigenvalue in units of the trace, relative to the square root",
        caption="Filters relative to the square root, on a spectrum that falls evenly over six decades "
        f"({min(ITERATIONS)} to {max(ITERATIONS)} iterations, light to dark). What was learned is the mean "
        "over the seeds of its parameters.",
    )


# --------------------------------------------------------------------------------------------------
# Learned filters


def learned(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """What the filters became, and their errors."""
    found = {
        f"{name}, {place.name}": values
        for place in places
        for name in LEARNED
        if (
            values := [
                _learned(run) for run in place.having(method=name) if not run.folder.diverged
            ]
        )
    }
    rows: list[list[Cell]] = [
        [name, mean_of([one["exponent"] for one in values])]
        for name, values in found.items()
        if "exponent" in values[0]
    ]
    filters = {name: _mean_filter(name.partition(",")[0], own) for name, own in found.items()}
    tables = (results_table(place, COLUMNS, f"{place.name}: {place.about}.") for place in places)
    table = Table(
        ["filter", "exponent after training"], rows, "Mean and standard deviation over seeds."
    )
    return Found(blocks=[_filters(filters), table, *tables])


def _learned(run: Run) -> dict[str, float]:
    """What the filter of a trained network has become."""
    state = load_weights_only(run.folder.folder / LAST)["state_dict"]
    (logs,) = (value for name, value in state.items() if name.endswith(".learned.logs"))
    module = METHODS[run.tags["method"]]().build()
    module.load_state_dict({"logs": logs})
    return learned_values(module)


def _mean_filter(method: str, found: Sequence[Mapping[str, float]]) -> Callable[[Tensor], Tensor]:
    logs = [fmean(math.log(max(one[name], 1e-300)) for one in found) for name in found[0]]
    module = METHODS[method]().build().double()
    module.logs.data = torch.tensor(logs, dtype=torch.float64)
    return module
