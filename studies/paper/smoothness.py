"""Precision and smoothness: the two figures about the gradients of MPN-COV and of its remedies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean

import torch
from torch.linalg import LinAlgError

from rootpool.nn import covariance_pools
from rootpool.report import (
    Block,
    Cell,
    Number,
    PairedDifference,
    Picture,
    Record,
    Table,
    paired_difference,
)
from rootpool.report.plots import dots_with_spread, learning_curves
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.questions import Finding, outcome_of
from studies.engine.study import Entry
from studies.engine.training import Place

from .effective_smoothness import effective_smoothness, loss_of
from .networks import TRAINED, Moment, moments

__all__ = ["precision", "smooth_gradients", "smoothness_records"]

FAR = 2.0  # times as large: less smooth beyond doubt
DTYPES = {"float64": torch.float64, "float32": torch.float32}
NEWTON = "isqrt-cov"


def smoothness_records(place: Place, dtypes: Sequence[str] = ("float64",)) -> list[Record]:
    """Effective smoothness by method, moment, precision of the root and seed."""
    methods = list(dict.fromkeys(run.tags["method"] for run in place.runs))
    records: list[Record] = []
    for moment in moments(place, methods):
        for dtype in dtypes:
            for pool in covariance_pools(moment.model).values():
                pool.compute_dtype = DTYPES[dtype]
            found = {"precision": dtype, "moment": moment.name, "seed": moment.seed}
            name = moment.method if len(dtypes) == 1 else f"{moment.method}, {dtype}"
            records.append({"run": name, "method": moment.method, **found, "beta": _beta(moment)})
    return records


def _beta(moment: Moment) -> float:
    try:
        return effective_smoothness(*loss_of(moment.model, moment.batch))
    except (
        ValueError,
        LinAlgError,
    ):  # a step along the gradient leads to features that are not finite
        return math.inf


def _measured(kept: Kept, place: Place, dtypes: Sequence[str]) -> list[Record]:
    made_from = {"runs": [run.trial.key for run in place.runs], "dtypes": list(dtypes)}
    return kept("smoothness", made_from, lambda: smoothness_records(place, dtypes))


def _ratios(records: Sequence[Record], methods: Sequence[str]) -> dict[str, PairedDifference]:
    """How much less smooth the networks are that some methods trained than those of iSQRT-COV.

    Paired over seeds, in logarithms: means are geometric, for numbers of several decades.
    """
    found: dict[str, dict[int, float]] = {}
    for r in records:
        if (r["precision"], r["moment"]) == ("float64", TRAINED) and math.isfinite(r["beta"]):
            found.setdefault(r["method"], {})[r["seed"]] = math.log(r["beta"])
    base, ratios = found.get(NEWTON, {}), {}
    for method in methods:
        own = found.get(method, {})
        seeds = sorted(own.keys() & base.keys())
        if seeds:
            ratios[method] = paired_difference(*([x[s] for s in seeds] for x in (own, base)))
    return ratios


def _side(ratio: PairedDifference) -> bool | None:
    """Whether a ratio is beyond doubt above (True) or below twice; None if its interval has both."""
    low, high = (ratio.mean if end is None else end for end in (ratio.low, ratio.high))
    return True if low > math.log(FAR) else False if high <= math.log(FAR) else None


def _finding(ratios: dict[str, PairedDifference], far: bool) -> dict[str, Finding]:
    """Whether all ratios are beyond twice, or within."""
    if not ratios:
        return {}
    sides = [_side(ratio) for ratio in ratios.values()]
    holds = None if None in sides else all(side == far for side in sides)
    return {"less-smooth" if far else "smooth": Finding(outcome_of(holds), _said(ratios))}


def _said(ratios: dict[str, PairedDifference]) -> str:
    def one(ratio: PairedDifference) -> str:
        ends = [math.exp(end) for end in (ratio.low, ratio.high) if end is not None]
        return f"{math.exp(ratio.mean):.2f}" + (
            "" if not ends else f" ({ends[0]:.2f} to {ends[1]:.2f})"
        )

    return "β is " + ", ".join(f"{one(r)} times as large ({m})" for m, r in ratios.items())


def _blocks(records: Sequence[Record]) -> list[Block]:
    """Smoothness by run and moment: a table, and a picture of the trained networks."""
    names = list(dict.fromkeys(r["moment"] for r in records))
    cells: list[list[Cell]] = []
    for run in dict.fromkeys(r["run"] for r in records):
        betas = [
            [r["beta"] for r in records if (r["run"], r["moment"]) == (run, name)] for name in names
        ]
        cells.append([run, *(Number(geometric_mean(own)) if own else None for own in betas)])
    caption = "Effective β-smoothness of the loss, geometric mean over seeds; small is smooth."
    told = f"Effective β-smoothness of the loss, network {TRAINED}; small is smooth."
    own = [r for r in records if r["moment"] == TRAINED]
    label = "effective β-smoothness"
    dots = Picture.of(dots_with_spread, own, value="beta", label=label, alt=told, caption=told)
    return [Table(["run", *names], cells, caption), dots]


def precision(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """MPN-COV and iSQRT-COV in single and double precision, and how smooth their gradients are."""

    def one(place: Place) -> tuple[dict[str, Finding], list[Block]]:
        records = _measured(kept, place, tuple(DTYPES))
        findings = _finding(_ratios(records, ["mpn-cov"]), far=True)
        caption = "Training error; dashed: the root in float32."
        rows = place.records(protocol="standalone")
        curves = Picture.of(learning_curves, rows, "train_error", alt=caption, caption=caption)
        return findings, [curves, *_blocks(records)]

    return Found.by_place(places, one)


def smooth_gradients(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The remedies: as smooth as iSQRT-COV, and hardly better than MPN-COV."""
    remedies = ("svd-taylor", "svd-newton", "svd-trunc", "svd-topn")

    def one(place: Place) -> tuple[dict[str, Finding], list[Block]]:
        records = _measured(kept, place, ("float64",))
        return _finding(_ratios(records, remedies), far=False), _blocks(records)

    return Found.by_place(places, one)
