"""Rows of runs: their final errors, their curves, and measured numbers next to printed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from rootpool.report.records import Record
from rootpool.train import SettingsError

from .plan import Measured, Plan, Run
from .published import Row as PrintedRow
from .published import Table
from .questions import matches

__all__ = [
    "Row",
    "cells_of",
    "curve_records",
    "divergences",
    "endings",
    "name_beside",
    "settings_of",
    "side_by_side",
]

Row = dict[str, Any]
AVERAGE = "average pooling"  # one row for the networks without covariance pooling


def _identity(run: Run) -> Row:
    return {"run": run["label"], **run["tags"]}


def endings(runs: Iterable[Run]) -> list[Row]:
    """One row per run: the errors after its last epoch, and the best of all that were validated."""
    rows = []
    for run in runs:
        validated = [epoch for epoch in run["curves"] if "val_error" in epoch]
        last = run["curves"][-1]
        if "val_error" not in last:
            raise SettingsError(
                f"{run['label']} was not validated after its last epoch; the recipe's "
                "trainer.check_val_every_n_epoch must divide its trainer.max_epochs"
            )
        best = min(epoch["val_error"] for epoch in validated)
        rows.append(
            {
                **_identity(run),
                "val_error": last["val_error"],
                "val_error5": last["val_error5"],
                "best_error": best,
                "best_error5": min(epoch["val_error5"] for epoch in validated),
                "train_error": last["train_error"],
                "accuracy": 100 - last["val_error"],
                "best_accuracy": 100 - best,
                "diverged": _where(run.get("diverged")),
            }
        )
    return rows


def _where(diverged: Mapping[str, int] | None) -> str:
    """Where a run diverged; empty if it did not."""
    return "" if diverged is None else "epoch {epoch}, step {step}".format_map(diverged)


def curve_records(runs: Iterable[Run], part: str = "curves") -> list[Row]:
    """The records of all runs, each with the name and the tags of its run."""
    return [{**_identity(run), **record} for run in runs for record in run[part]]


def divergences(rows: Iterable[Row]) -> Record:
    """Which runs diverged, as a setting to be shown; nothing if none did."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["diverged"]:
            found.setdefault(row["run"], []).append(f"{row['seed']} ({row['diverged']})")
    if not found:
        return {}
    listed = "; ".join(f"{run}: seeds {', '.join(seeds)}" for run, seeds in found.items())
    return {"diverged": f"{listed}. They count with the error of guessing."}


def settings_of(plan: Plan) -> Record:
    """The settings that all entries of a plan share."""
    return {
        "recipes": f"{plan.family}-*",
        "data": plan.data or "photo-patches (18 classes, 3600 validation images)",
        "seeds": plan.seeds,
        "epochs": plan.epochs,
    }


def _name(row: PrintedRow) -> str:
    return AVERAGE if row.method == "gap" else row.name


def name_beside(method: str) -> str:
    """The name of a row for a method that a table of the paper does not have."""
    return f"{method} (not in this table)"


def cells_of(table: Table, study: Measured) -> dict[tuple[str, str], list[float]]:
    """What was measured, by row and column: the values of all seeds.

    Methods that the table does not have get rows of their own, which say so.
    """
    rows = endings(study.runs())
    wanted = {_name(row): {"method": row.method, **row.tags} for row in table.rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        if method not in table.trained:
            wanted[AVERAGE if method == "gap" else name_beside(method)] = {"method": method}
    cells: dict[tuple[str, str], list[float]] = {}
    for name, tags in wanted.items():
        own = [row for row in rows if matches(row, tags)]
        protocols = {row["protocol"] for row in own}
        for column, measure in table.measures.items():
            chosen = {tag: v for tag, v in measure.items() if tag not in ("value", "family")}
            if measure.get("family", study.plan.reported_as) != study.plan.reported_as:
                continue
            if chosen.get("protocol") not in protocols:
                # Newton-Schulz and average pooling have no second stage: the table repeats them.
                chosen.pop("protocol", None)
            cells[name, column] = [row[measure["value"]] for row in own if matches(row, chosen)]
    return cells


def _measured(values: Sequence[float]) -> Record:
    return {
        "measured": fmean(values),
        "spread": stdev(values) if len(values) > 1 else None,
        "seeds": len(values),
    }


def side_by_side(table: Table, here: Mapping[tuple[str, str], Sequence[float]]) -> list[Record]:
    """Printed cells, then what was measured, by name of row and column."""
    printed: list[Record] = [
        {
            "row": _name(row),
            "group": row.group,
            "column": column,
            "printed": cell.text,
            "published": cell.value,
        }
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]
    measured: list[Record] = [
        {"row": row, "column": column, **_measured(values)}
        for (row, column), values in here.items()
        if values
    ]
    return printed + measured
