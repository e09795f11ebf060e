"""The tables of errors, and the text on seeds: trained runs next to what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from rootpool.analysis import Record
from rootpool.analysis.statistics import describe
from rootpool.nn import method_names

from .bench import Study
from .judge import LEVEL, Answer, compare_by_question, conclude, count, is_better, is_level
from .published import Table, load_published
from .result import Result
from .rows import (
    AVERAGE,
    HYBRID,
    PADE,
    SVD,
    Row,
    comparison_records,
    endings,
    settings_of,
    side_by_side,
)

__all__ = [
    "ERROR_TABLES",
    "measure_fine_grained",
    "measure_seeds",
    "measure_warm_ups",
]

# --------------------------------------------------------------------------------------------------
# Tables 2 and 3: every method, standalone and hybrid


@dataclass(frozen=True)
class ErrorTable:
    """How a table of the paper reads: what its columns are of a run, and what its claim asks.

    Args:
        columns: protocol and value by printed column.
        questions: words, the pairs of runs (first better) and how to judge them.
    """

    columns: Mapping[str, tuple[str, str]]
    questions: Mapping[str, tuple[Sequence[tuple[str, str]], Callable[..., bool | None]]]

    def __call__(self, table: Table, study: Study) -> Result:
        """The table, measured."""
        rows = endings(study.results)
        found = compare_by_question(rows, {q: pairs for q, (pairs, _) in self.questions.items()})
        answers = [
            Answer(
                f"{question} Here: {count(comparisons)}.", self.questions[question][1](comparisons)
            )
            for question, comparisons in found.items()
            if comparisons
        ]
        return conclude(
            table.entry,
            table.claim,
            answers,
            side_by_side(table, self._cells(table, rows)),
            settings_of(study.bench),
            runs=rows,
            comparisons=comparison_records(found),
        )

    def _cells(self, table: Table, rows: Sequence[Row]) -> dict[tuple[str, str], list[float]]:
        names = {row.method: row.name for row in table.rows} | {"gap": AVERAGE}
        cells: dict[tuple[str, str], list[float]] = {}
        for method in dict.fromkeys(row["method"] for row in rows):
            protocols = {r["protocol"] for r in rows if r["method"] == method}
            for column, (protocol, value) in self.columns.items():
                # Newton-Schulz and average pooling have no second stage: the table repeats them.
                chosen = protocol if protocol in protocols else "standalone"
                cells[names.get(method, method), column] = [
                    row[value]
                    for row in rows
                    if row["method"] == method and row["protocol"] == chosen
                ]
        return cells


def _against(run: str, others: Iterable[str], ending: str = "") -> list[tuple[str, str]]:
    return [(run + ending, other + ending) for other in others if other != run]


ERROR_TABLES = {
    "alexnet": ErrorTable(
        {
            "standalone final top-1": ("standalone", "val_error"),
            "standalone final top-5": ("standalone", "val_error5"),
            "hybrid final top-1": ("hybrid", "val_error"),
            "hybrid final top-5": ("hybrid", "val_error5"),
            "hybrid best top-1": ("hybrid", "best_error"),
            "hybrid best top-5": ("hybrid", "best_error5"),
        },
        {
            "Standalone, iSQRT-COV beats the SVD methods.": (_against("isqrt-cov", SVD), is_better),
            "Standalone, SVD-Pade beats the other SVD methods.": (_against(PADE, SVD), is_better),
            f"Hybrid, every SVD method is level with iSQRT-COV, within {LEVEL:g} point, or better.": (
                [(m + HYBRID, "isqrt-cov") for m in SVD],
                is_level,
            ),
            "Hybrid, SVD-Pade beats the other SVD methods.": (
                _against(PADE, SVD, HYBRID),
                is_better,
            ),
        },
    ),
    "resnet": ErrorTable(
        {
            "standalone top-1": ("standalone", "val_error"),
            "standalone top-5": ("standalone", "val_error5"),
            "hybrid top-1": ("hybrid", "val_error"),
            "hybrid top-5": ("hybrid", "val_error5"),
        },
        {
            "Every covariance pooling beats average pooling, standalone.": (
                [(m, "gap") for m in method_names("paper")],
                is_better,
            ),
            "Every covariance pooling beats average pooling, hybrid.": (
                [(m + HYBRID, "gap") for m in SVD],
                is_better,
            ),
            "Standalone, SVD-Pade beats the other methods.": (
                _against(PADE, [*SVD, "isqrt-cov"]),
                is_better,
            ),
            "Hybrid, SVD-Pade beats the other methods.": (
                [*_against(PADE, SVD, HYBRID), (PADE + HYBRID, "isqrt-cov")],
                is_better,
            ),
        },
    ),
}


# --------------------------------------------------------------------------------------------------
# Table 4: fine-grained data, the user's


def measure_fine_grained(table: Table, study: Study) -> Result:
    """Accuracies on one of the three data sets, fine-tuned with every method."""
    name = study.bench.family.capitalize()
    rows = [row for row in endings(study.results) if row["protocol"] == "standalone"]
    pairs = [(m, "isqrt-cov") for m in SVD if m != "svd-topn"]
    question = "The accurate root beats Newton-Schulz."
    found = compare_by_question(rows, {question: pairs})
    names = {row.method: row.name for row in table.rows}
    cells = {
        (names.get(method, method), f"{name} {which}"): [
            100 - row[value] for row in rows if row["method"] == method
        ]
        for method in dict.fromkeys(row["method"] for row in rows)
        for which, value in (("final", "val_error"), ("best", "best_error"))
    }
    answer = Answer(f"{question} Here: {count(found[question])}.", is_better(found[question]))
    return conclude(
        table.entry,
        table.claim,
        [answer],
        side_by_side(table, cells),
        settings_of(study.bench),
        runs=rows,
        comparisons=comparison_records(found),
    )


# --------------------------------------------------------------------------------------------------
# The last table, and the text on seeds


def measure_warm_ups(table: Table, study: Study) -> Result:
    """SVD-Pade hybrid by the number of warm-up epochs."""
    rows = endings(study.results)
    best = ("svd-pade, warm-up 2", "svd-pade, warm-up 3")
    others = [f"svd-pade, warm-up {k}" for k in (0, 1, 2, 3)]
    final = compare_by_question(rows, {"final": _against(best[0], others)})["final"]
    way = compare_by_question(rows, {"way": _against(best[1], others)}, "best_error")["way"]
    none = compare_by_question(rows, {"none": [(others[0], "isqrt-cov")]})["none"]
    answers = [
        Answer(f"Two epochs give the best final error. Here: {count(final)}.", is_better(final)),
        Answer(f"Three give the best error on the way. Here: {count(way)}.", is_better(way)),
        Answer(
            f"No warm-up is level with iSQRT-COV, within {LEVEL:g} point, or better. "
            f"Here: {describe(none[0])}.",
            is_level(none),
        ),
    ]
    names = {
        "isqrt-cov": "iSQRT-COV",
        **{o: r.name for o, r in zip(others, table.rows, strict=False)},
    }
    columns = {
        "final top-1": "val_error",
        "final top-5": "val_error5",
        "best top-1": "best_error",
        "best top-5": "best_error5",
    }
    cells = {
        (name, column): [row[value] for row in rows if row["run"] == run]
        for run, name in names.items()
        for column, value in columns.items()
    }
    return conclude(
        table.entry,
        table.claim,
        answers,
        side_by_side(table, cells),
        settings_of(study.bench),
        runs=rows,
        comparisons=comparison_records(
            {
                "Two warm-up epochs against other numbers, final error.": final,
                "Three against other numbers, best error on the way.": way,
                "No warm-up against iSQRT-COV, final error.": none,
            }
        ),
    )


def measure_seeds(study: Study) -> Result:
    """How much the final error of SVD-Pade, standalone, varies with the seed."""
    said = load_published().statements
    rows = endings(study.of(protocol="standalone", methods=[PADE]))
    errors = [row["val_error"] for row in rows]
    limit = said["seed-fluctuation"].value
    spread = stdev(errors) if len(errors) > 1 else None
    few = len(errors) < said["seeds"].value
    answer = Answer(
        f"The final error of SVD-Pade varies by {limit:g} % with the seed. Here it has "
        + (f"a standard deviation of {spread:.2f}" if spread is not None else "no known spread")
        + f" points over {len(errors)} seeds, between {min(errors):.2f} and {max(errors):.2f} %.",
        None if spread is None or (few and spread <= limit) else spread <= limit,
    )
    record: Record = {
        "row": "SVD-Pade",
        "column": "spread of the final error",
        "printed": f"{limit:g}",
        "published": limit,
    }
    here: Record = {"row": "SVD-Pade", "column": record["column"], "measured": spread}
    return conclude(
        "text:seeds",
        "With five random seeds the final error of SVD-Pade varies by about 0.1 %, less than the 0.2 % by "
        "which it beats the other SVD methods.",
        [answer],
        [record, here],
        {**settings_of(study.bench), "seeds": len(errors)},
        runs=rows,
    )
