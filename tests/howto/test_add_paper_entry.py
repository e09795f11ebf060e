"""How to add an entry of the paper: here a statement of the theory, complete.

In the study its two functions are in ``studies/paper/theory``, its words in ``statements.yaml`` there, and
it is a line in ``__init__.py``. A table or figure is an item of ``published.yaml`` (its numbers, its claim,
and the questions that judge it) and a line in ``entries.py``: ``measure_errors`` measures any table of
errors.
"""

import pytest
import torch
from matplotlib.figure import Figure

from rootpool.linalg import sqrtm
from rootpool.report.plots.drawing import below, legend
from rootpool.report.records import Record
from studies.__main__ import main
from studies.paper.entries import ENTRIES, register
from studies.paper.entry import entry_of_statement
from studies.paper.result import Result
from studies.paper.theory import Finding, Statement
from studies.paper.theory.statement import numbers, one_plot


def errors_by_size() -> Finding:
    """Square roots of random covariances, squared again."""
    records: list[Record] = []
    for n in (2, 8, 32):
        X = torch.randn(n, 2 * n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
        P = X @ X.mT
        root = sqrtm(P)
        records.append({"size": n, "error": float((root @ root - P).norm() / P.norm())})
    worst = max(numbers(records, "error"))
    return Finding(records, worst < 1e-13, f"The largest relative error is {worst:.0e}.")


def draw(result: Result, width: float) -> Figure:
    """One line: the error by the size of the matrix."""
    figure, axes = one_plot(width)
    (line,) = axes.plot(numbers(result.records, "size"), numbers(result.records, "error"), "o-")
    axes.set_ylabel("relative error")
    below(figure, "size")
    legend(figure, {"our root": line}, width)
    return figure


STATEMENT = Statement(
    "root-squared",
    title="The square of the root is the matrix",
    text="A matrix square root is a matrix whose square is the given one.",
    claim="Our square root, squared, gives the matrix up to rounding.",
    caption="Relative error by the size of the matrix.",
    compute=errors_by_size,
    draw=draw,
)


@pytest.fixture
def registered():
    entry = register(entry_of_statement(STATEMENT))
    yield entry
    del ENTRIES[entry.name]


def test_the_new_entry_is_listed_measured_and_reported(registered, tmp_path, capsys):
    assert main(["paper", "--list"]) == 0
    assert (
        "theory:root-squared\n    The square of the root is the matrix" in capsys.readouterr().out
    )
    assert main(["paper", "theory:root-squared", "--output", str(tmp_path)]) == 0
    assert "theory:root-squared: ✓ supported" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## The square of the root is the matrix" in report
    assert "> ✓ The largest relative error is" in report
    assert "![Relative error by the size of the matrix.]" in report
