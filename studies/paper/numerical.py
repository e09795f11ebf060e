"""The numerical tables of the paper, measured: approximation errors and speed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from rootpool.machine import machine
from rootpool.nn import covariance_pool
from rootpool.nn.published import pade_coefficients
from rootpool.report import Number, Picture, Record
from rootpool.report.plots import speed_bars
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.network import run_method
from studies.engine.page import NOWHERE
from studies.engine.questions import Finding, outcome_of, shared_outcome
from studies.engine.study import Entry
from studies.engine.training import Place

from .published import Cell, PrintedTable, load_published
from .tables import side_by_side

__all__ = ["approximation_error", "approximation_errors", "at_or_below", "speed", "timings"]

CLOSE = 1e-6


# --------------------------------------------------------------------------------------------------
# Approximation errors


def at_or_below(measured: float, cell: Cell) -> bool:
    """Whether a number is at or below a printed one, as far as its digits tell.

    Less than one unit of the last printed digit above it counts: the paper rounds some of its numbers
    and cuts others off.

    >>> at_or_below(817.8, Cell.number("817")), at_or_below(818.0, Cell.number("817"))
    (True, False)
    """
    return cell.value is not None and cell.unit is not None and measured < cell.value + cell.unit


def approximation_error(method: str, degree: int, ratio: str) -> float:
    r"""The error of an approximation of :math:`1/(1 - x)` at a ratio of eigenvalues x, given as a decimal.

    Of the Taylor polynomial in exact arithmetic, :math:`x^{K+1}/(1-x)`. In exact arithmetic a Pade
    approximant has none, since :math:`1/(1-x)` is its own approximant; so this is the error of the
    coefficients as published, evaluated in float64.

    >>> approximation_error("svd-taylor", 2, "0.5")
    0.25
    """
    x = Fraction(ratio)
    if not 0 <= x < 1:
        raise ValueError(f"a ratio of eigenvalues is in [0, 1), got {ratio!r}")
    if method == "svd-taylor":
        return float(x ** (degree + 1) / (1 - x))
    p, q = pade_coefficients(degree)
    value = np.polyval(p[::-1], float(ratio)) / np.polyval(q[::-1], float(ratio))
    return float(abs(Fraction(value) - 1 / (1 - Fraction(float(ratio)))))


def measured_errors(table: PrintedTable) -> list[Record]:
    """The error of each cell of a table, beside what is printed."""
    usual = int(load_published().statements["degree"])
    return [
        {
            "row": row.name,
            "column": column,
            "method": row.method,
            "printed": row.cells[column].text,
            "error": approximation_error(
                row.method, int(row.name) if row.name.isdigit() else usual, column
            ),
        }
        for row in table.rows
        for column in table.columns
    ]


def approximation_errors(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """A table of approximation errors beside what was measured."""
    table = load_published().tables[entry.name.partition(":")[2]]
    records = kept(entry.name, {}, lambda: measured_errors(table))
    taylor, pade = ([r for r in records if r["method"] == m] for m in ("svd-taylor", "svd-pade"))
    findings, said = {}, []
    if taylor:
        below = sum(at_or_below(r["error"], Cell.number(r["printed"])) for r in taylor)
        findings["taylor"] = _share(below, len(taylor), "in exact arithmetic")
        said.append(f"Taylor is off by {min(_near(taylor)):.3g} or more")
    if pade:
        below = sum(map(_as_small, pade))
        findings["pade"] = _share(below, len(pade), "within a factor of 10, or 1e-15 of the value")
        said.append(f"Pade is off by {max(_near(pade)):.1e} at most")
    holds = min(_near(taylor), default=2.0) > 1 and max(_near(pade), default=0.0) < CLOSE
    findings["near"] = Finding(outcome_of(holds), "; ".join(said))
    form = {True: ".0e", False: ".0f"}
    here = {(r["row"], r["column"]): Number(r["error"], form=form[r["error"] < 1]) for r in records}
    rows = "degree" if table.rows[0].name.isdigit() else "method"
    arithmetic = "rational for Taylor; float64 with the coefficients as published for Pade"
    blocks = [side_by_side(table, here, rows=rows)]
    return Found({NOWHERE: findings}, blocks, {"arithmetic": arithmetic})


def _near(records: Sequence[Record]) -> list[float]:
    """The errors near a ratio of one."""
    return [r["error"] for r in records if r["column"] in ("0.99", "0.999")]


def _share(below: int, all_of: int, how: str) -> Finding:
    return Finding(shared_outcome(below, all_of), f"so it is in {below} of {all_of} cells ({how})")


def _as_small(record: Record) -> bool:
    """Whether an error is as small as the printed one in order of magnitude, or rounding."""
    printed, x = Cell.number(record["printed"]).value or 0.0, float(record["column"])
    return bool(record["error"] < max(10 * printed, 1e-15 / (1 - x)))


# --------------------------------------------------------------------------------------------------
# Speed

CLEAR = 1.1  # times that differ by less are level: the best of three turns varies by some percent
COLUMNS = {"FP (s)": "forward", "BP (s)": "backward", "Total (s)": "total"}
OURS = ("mpn-cov, fused", "exact")


def timings(methods: Sequence[str], *, batch: int | None = None, rounds: int = 3) -> list[Record]:
    """Seconds for one batch of the paper, forward and backward, by method.

    The methods take turns, after one round that does not count. Of each the best turn is reported: the one
    that other programs disturbed least. Features are normal random numbers after a ReLU.

    Args:
        methods: names of runs.
        batch: number of maps to time; by default the paper's, to which times of fewer are scaled up.
        rounds: repetitions of each method.
    """
    said = load_published().statements
    full, positions = int(said["speed-batch"]), int(said["speed-side"]) ** 2
    used = full if batch is None else batch
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(used, int(said["speed-channels"]), positions, generator=generator)
    X = X.relu_().requires_grad_()
    best: dict[str, tuple[float, ...]] = dict.fromkeys(methods, (math.inf, math.inf))
    for turn in range(rounds + 1):
        for name in methods:
            taken = _seconds(name, X)
            if turn:
                best[name] = tuple(map(min, best[name], taken))
    parts = {name: (f, b, f + b) for name, (f, b) in best.items()}
    return [
        {
            "method": name,
            **{k: t * full / used for k, t in zip(COLUMNS.values(), times, strict=True)},
        }
        for name, times in parts.items()
    ]


def _seconds(name: str, X: Tensor) -> tuple[float, float]:
    start = time.perf_counter()
    pooled = covariance_pool(X, run_method(name), compute_dtype=torch.float64)
    middle = time.perf_counter()
    torch.autograd.grad(pooled, X, torch.ones_like(pooled))
    return middle - start, time.perf_counter() - middle


def speed(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """Seconds per batch for the methods of the table and ours."""
    table = load_published().tables["speed"]
    where = {name: str(value) for name, value in machine().items()}
    records = kept(entry.name, where, lambda: timings([*table.methods, *OURS]))
    seconds = {r["method"]: r for r in records}
    names = {row.method: row.name for row in table.rows}
    called = {m: names.get(m, f"{m} (not in this table)") for m in seconds}
    here = {
        (called[m], column): Number(record[part])
        for m, record in seconds.items()
        for column, part in COLUMNS.items()
    }
    kernels = [m for m in table.methods if m not in ("isqrt-cov", "svd-newton")]
    bars = [{"label": called[m], "method": m, "seconds": r["total"]} for m, r in seconds.items()]
    caption = "Seconds for a batch, forward and backward, measured here."
    picture = Picture.of(speed_bars, bars, value="seconds", unit="s", alt=caption, caption=caption)
    return Found({NOWHERE: _speeds(seconds, kernels)}, [side_by_side(table, here), picture], where)


def _speeds(seconds: dict[str, Record], kernels: Sequence[str]) -> dict[str, Finding]:
    newton = seconds["isqrt-cov"]["backward"]
    slow = [m for m in kernels if seconds[m]["forward"] > CLEAR * seconds[m]["backward"]]
    fast = [m for m in kernels if CLEAR * seconds[m]["backward"] < newton]
    pade, taylor = (seconds[m]["backward"] for m in ("svd-pade", "svd-taylor"))
    holds = True if CLEAR * pade < taylor else False if CLEAR * taylor < pade else None
    return {
        "forward": Finding(
            shared_outcome(len(slow), len(kernels)), f"in {len(slow)} of {len(kernels)}"
        ),
        "backward": Finding(
            shared_outcome(len(fast), len(kernels)),
            f"in {len(fast)} of {len(kernels)} ({newton:.2f} s)",
        ),
        "pade": Finding(outcome_of(holds), f"{pade:.2f} and {taylor:.2f} s"),
    }
