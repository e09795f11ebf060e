"""How to add an entry of a study: here a statement of the theory, complete.

In the study its function is in a file of ``studies/paper/theory``, and its words are an item of
``study.yaml`` there. A table or figure of the paper is an item of ``studies/paper/study.yaml`` (its claim in
parts, and the runs that answer them), and of ``published.yaml`` if it has numbers; it needs no code if its
parts compare runs.
"""

import torch
import yaml

from rootpool.linalg import sqrtm
from studies.engine.command import Options, run_study
from studies.engine.study import load_study
from studies.paper.theory.statement import Checked, line_plot, numbers, statement


def errors_by_size() -> Checked:
    """Square roots of random covariances, squared again."""
    records = []
    for n in (2, 8, 32):
        X = torch.randn(n, 2 * n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
        P = X @ X.mT
        root = sqrtm(P)
        records.append({"size": n, "error": float((root @ root - P).norm() / P.norm())})
    worst = max(numbers(records, "error"))
    return Checked(records, worst < 1e-13, f"The largest relative error is {worst:.0e}.")


ROOT_SQUARED = statement(
    errors_by_size, line_plot("size", {"our root": ("error", {})}, ("size", "relative error"))
)
WORDS = f"""
theory:root-squared:
  title: The square of the root is the matrix
  text: [A matrix square root is a matrix whose square is the given one.]
  claim: Our square root, squared, gives the matrix up to rounding.
  measure: {__name__}:ROOT_SQUARED
  caption: Relative error by the size of the matrix.
  parts:
    - {{text: It holds., measured: holds, scale: argument}}
"""


def test_the_new_entry_is_measured_and_reported(tmp_path, capsys):
    shared = {"title": "t", "lead": "l", "command": "c", "sections": {"theory": "T"}, "runs": {}}
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump({**shared, "entries": yaml.safe_load(WORDS)}))
    run_study(load_study(file), [], [], Options(tmp_path, tmp_path / "runs"))
    assert "theory:root-squared: 1 of 1 seen" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## The square of the root is the matrix" in report
    assert "> ✓ **follows by argument.** It holds. Here: The largest relative error is" in report
    assert "![Relative error by the size of the matrix.]" in report
