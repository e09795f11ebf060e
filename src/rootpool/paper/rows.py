"""Rows of runs: their final errors, their curves, and what is measured next to what is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from rootpool.analysis import Record
from rootpool.analysis.statistics import Comparison
from rootpool.nn import method_names

from .bench import Bench, Run
from .published import Table

__all__ = [
    "AVERAGE",
    "HYBRID",
    "PADE",
    "SVD",
    "Row",
    "comparison_records",
    "curve_records",
    "endings",
    "settings_of",
    "side_by_side",
]

Row = dict[str, Any]
SVD = tuple(m for m in method_names("paper") if m != "isqrt-cov")  # those of the paper
PADE = "svd-pade"
AVERAGE = "average pooling"
HYBRID = ", hybrid"  # how the name of a run ends that has two stages


def endings(runs: Iterable[Run]) -> list[Row]:
    """One row a run: the errors after its last epoch, and the best on the way."""
    rows = []
    for run in runs:
        curves = run["curves"]
        rows.append(
            {
                "run": run["label"],
                "method": run["method"],
                "protocol": run["protocol"],
                "seed": run["seed"],
                "val_error": curves[-1]["val_error"],
                "val_error5": curves[-1]["val_error5"],
                "best_error": min(epoch["val_error"] for epoch in curves),
                "best_error5": min(epoch["val_error5"] for epoch in curves),
                "train_error": curves[-1]["train_error"],
            }
        )
    return rows


def curve_records(runs: Iterable[Run], part: str = "curves") -> list[Row]:
    """The records of all runs, each with what tells it from the others."""
    tags = ("method", "protocol", "seed")
    return [
        {"run": run["label"], **{tag: run[tag] for tag in tags}, **record}
        for run in runs
        for record in run[part]
    ]


def settings_of(bench: Bench) -> Record:
    """What all entries of a bench share."""
    return {
        "recipes": f"{bench.family}-*",
        "data": bench.data or "photo-patches (18 classes, 1800 validation images)",
        "seeds": bench.seeds,
        "epochs": bench.epochs,
    }


def comparison_records(questions: Mapping[str, Sequence[Comparison]]) -> list[Record]:
    """One record a comparison, with its question."""
    return [
        {**c.record(), "method": c.run.split(",")[0], "question": question}
        for question, found in questions.items()
        for c in found
    ]


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
            "row": AVERAGE if row.method == "gap" else row.name,
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
