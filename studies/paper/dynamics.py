"""Measures of the training itself: curves, condition numbers, the first two eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, geometric_mean

import torch

from rootpool.nn import covariance, covariance_pool
from rootpool.report import (
    Block,
    Cell,
    Number,
    PairedDifference,
    Table,
    describe,
    paired_difference,
)
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of
from studies.engine.questions import Finding, outcome_of
from studies.engine.study import Entry
from studies.engine.training import Place, Row

from .networks import features, moments
from .published import load_published
from .tables import side_by_side

__all__ = ["condition_numbers", "eigenvalue_ratio", "training_curves"]

TIE = 1.05  # a ratio of eigenvalues that counts as one
NEWTON = "isqrt-cov"


def _positive(difference: PairedDifference, said: str) -> Finding:
    return Finding(outcome_of(difference.mean > 0 if difference.clear else None), said)


# --------------------------------------------------------------------------------------------------
# Figure 1


def training_curves(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """Standalone training: the gap to iSQRT-COV at the end of each stage of the learning rate."""
    return Found.by_place(places, _training_curves)


def _training_curves(place: Place) -> tuple[dict[str, Finding], list[Block]]:
    assert place.network is not None
    stages = [*place.network.milestones, place.network.epochs]
    gaps = {end: _gaps(place, end - 1) for end in stages}
    first, last = gaps[stages[0]], gaps[stages[-1]]
    if not first or not last:
        return {}, []
    sizes = ", ".join(f"{fmean(gap):.2f} after epoch {end}" for end, gap in gaps.items())
    stays = paired_difference(last, [0.0] * len(last))
    shrinks = paired_difference(first, last)
    cells: list[list[Cell]] = [[f"epoch {end}", mean_of(gap)] for end, gap in gaps.items()]
    return {
        "shrinks": _positive(shrinks, f"it is {sizes} (points, mean of the SVD methods)"),
        "stays": _positive(stays, f"the SVD methods are {describe(stays)} than iSQRT-COV"),
    }, [Table(["after", "gap in training error, points"], cells, place.name)]


def _gaps(place: Place, epoch: int) -> list[float]:
    """For each seed: the mean training error of the runs that converge, minus that of iSQRT-COV."""
    failed = {(row["run"], row["seed"]) for row in place.rows if row["failed"]}
    rows = [
        row
        for row in place.records(protocol="standalone")
        if row["epoch"] == epoch and (row["run"], row["seed"]) not in failed
    ]
    svd = [r for r in rows if r["method"].startswith(("svd", "mpn")) and "fused" not in r["method"]]
    gaps = []
    for newton in (row for row in rows if row["method"] == NEWTON):
        own = [row["train_error"] for row in svd if row["seed"] == newton["seed"]]
        gaps += [fmean(own) - newton["train_error"]] if own else []
    return gaps


# --------------------------------------------------------------------------------------------------
# Table 1


def _spectra(place: Place) -> list[Row]:
    """Spectra while MPN-COV is trained, of the seeds that converge."""
    failed = {row["seed"] for row in place.rows if row["failed"] and row["run"] == "mpn-cov"}
    rows = place.records("spectrum", protocol="standalone", method="mpn-cov")
    return [row for row in rows if row["seed"] not in failed]


NUMBERS: dict[str, Callable[[Row], float]] = {
    "MPN-COV": lambda row: row["condition_mean"],
    "largest eigenvalue": lambda row: row["lambda_1"],
    "smallest eigenvalue above round-off": lambda row: row["lambda_min_kept"],
    "condition number without the null space": lambda row: row["lambda_1"] / row["lambda_min_kept"],
    "numerical rank": lambda row: row["rank"],
}


def condition_numbers(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """Condition numbers in the first epoch of each learning rate, and what is behind them."""
    return Found.by_place(places, _condition_numbers)


def _condition_numbers(place: Place) -> tuple[dict[str, Finding], list[Block]]:
    table = load_published().tables["condition-number"]
    limit = load_published().statements["ill-conditioned-from"]
    assert place.network is not None
    spectra = _spectra(place)
    if not spectra:
        return {}, []
    # The paper's columns are the first epochs of its learning rates; ours may have fewer rates.
    starts = [0, *place.network.milestones][: len(table.columns)]
    found = {
        name: [_at(spectra, start, value) for start in starts] for name, value in NUMBERS.items()
    }
    clamped, true = found["MPN-COV"], found["condition number without the null space"]
    said = _sequence(clamped, starts)
    first, last = clamped[0], clamped[-1]
    sides = [_decades(first, [limit] * len(first)), _decades([limit] * len(last), last)]
    cells = {
        (name, column): mean_of(values, ".3g")
        for name, own in found.items()
        for column, values in zip(table.columns, own, strict=False)
    }
    caption = f"Here, {place.name}: epochs {', '.join(str(e + 1) for e in starts)}."
    return {
        "falls": _positive(_decades(first, last), said),
        "crosses": Finding(outcome_of(all(d.clear and d.mean > 0 for d in sides) or None), said),
        "conditioned": _positive(
            _decades(true[0], true[-1]),
            f"without the null space it is {_sequence(true, starts)}",
        ),
    }, [side_by_side(table, cells, caption, "number")]


def _decades(first: Sequence[float], last: Sequence[float]) -> PairedDifference:
    """How many decades numbers of several decades fall, seed by seed."""
    return paired_difference(map(math.log10, first), map(math.log10, last))


def _at(spectra: Sequence[Row], epoch: int, value: Callable[[Row], float]) -> list[float]:
    """The mean over an epoch, for each seed."""
    own = [row for row in spectra if row["epoch"] == epoch]
    seeds = sorted({row["seed"] for row in own})
    return [fmean(value(row) for row in own if row["seed"] == seed) for seed in seeds]


def _sequence(values: Sequence[Sequence[float]], epochs: Sequence[int]) -> str:
    pairs = zip(values, epochs, strict=True)
    return ", ".join(f"{geometric_mean(own):.2e} in epoch {epoch + 1}" for own, epoch in pairs)


# --------------------------------------------------------------------------------------------------
# Figure 3


def eigenvalue_ratio(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The first eigenvalue over the second: its mean over the steps, and its least at some moments."""

    def one(place: Place) -> tuple[dict[str, Finding], list[Block]]:
        keys = [run.trial.key for run in place.runs]
        ratios = kept("eigenvalue-ratios", keys, lambda: _ratios(place))
        return _eigenvalue_ratio(place, ratios)

    return Found.by_place(places, one)


def _eigenvalue_ratio(
    place: Place, ratios: Sequence[Row]
) -> tuple[dict[str, Finding], list[Block]]:
    spectra = _spectra(place)
    if not spectra:
        return {}, []
    steps = sorted({row["step"] for row in spectra})
    begin, end = (
        [r["eigenvalue_ratio"] for r in spectra if r["step"] == step]
        for step in (steps[0], steps[-1])
    )
    said = f"its mean over a batch goes from {fmean(begin):.2f} to {fmean(end):.2f} in {steps[-1]} steps"
    least = min(row["lowest"] for row in ratios)
    cells: list[list[Cell]] = []
    for name in dict.fromkeys(row["moment"] for row in ratios):
        own = [row for row in ratios if row["moment"] == name]
        lowest = Number(min(row["lowest"] for row in own), form=".3f")
        cells.append([name, mean_of([row["mean"] for row in own], ".3f"), lowest])
    return {
        "falls": _positive(paired_difference(begin, end), said),
        "reaches-one": Finding(outcome_of(least < TIE or None), f"the lowest is {least:.3f}"),
        "pi": released_power_iteration(),
    }, [Table(["network", "λ₁ / λ₂, mean of a batch", "lowest"], cells, place.name)]


def released_power_iteration() -> Finding:
    """The gradient of the released SVD-PI against the exact one, at the size of the paper's ResNets."""
    X = torch.randn(2, 256, 49, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norms = []
    for method in ("svd-pi-released", "exact"):
        Y = X.relu().requires_grad_()
        pooled = covariance_pool(Y, method)
        norms.append(float(torch.autograd.grad(pooled, Y, torch.ones_like(pooled))[0].norm()))
    said = f"its norm is {norms[0]:.0e}, of the exact gradient {norms[1]:.0e}"
    return Finding(outcome_of(norms[0] > 1e-6 * norms[1]), said)


def _ratios(place: Place) -> list[Row]:
    rows = []
    for moment in moments(place, ["mpn-cov"]):
        lam = torch.linalg.eigvalsh(covariance(features(moment).double()))
        ratio = lam[:, -1] / lam[:, -2]
        means = {"mean": float(ratio.mean()), "lowest": float(ratio.min())}
        rows.append({"moment": moment.name, "seed": moment.seed, **means})
    return rows
