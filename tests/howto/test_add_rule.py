"""A gradient rule as CONTRIBUTING adds it: one class and one line in RULES, and everything knows it."""

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import matrices
from rootpool.linalg import RULES, eigh
from rootpool.linalg.parameters import check_positive
from rootpool.linalg.rules import _GapRule, _largest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Bounded(_GapRule):
    r""":math:`1/(\lambda_i - \lambda_j)`, at most ``ratio / max|lambda|``.

    Ties: 0. Unlike the bound of Truncated, this one follows the scale of the input.

    Use: when the scale of the input is not known.
    """

    ratio: float = 1e6

    def __post_init__(self) -> None:
        check_positive("Bounded.ratio", self.ratio)

    def of_gap(self, gap: Tensor, eigenvalues: Tensor) -> Tensor:
        limit = self.ratio / _largest(eigenvalues)
        return (1 / gap).clamp(-limit, limit)


@pytest.fixture(autouse=True)
def in_the_table(monkeypatch):
    monkeypatch.setitem(RULES, "bounded", Bounded)


@pytest.mark.parametrize("kind", matrices.SPECTRA)
def test_it_keeps_the_contract(kind):
    lam = matrices.spectrum(kind)
    K = Bounded()(lam)
    assert torch.equal(K, -K.mT)
    assert K.isfinite().all()
    assert torch.allclose(Bounded()(4 * lam), K / 4)


def test_its_name_is_a_choice_of_eigh():
    A = torch.diag(torch.tensor([1.0, 1.0 + 1e-12, 3.0], dtype=torch.float64)).requires_grad_()
    _, U = eigh(A, rule="bounded")
    U[0, 0].backward()
    assert A.grad.abs().max() <= 1e6
    with pytest.raises(ValueError, match="bounded"):
        eigh(A, rule="bounde")


def test_it_is_in_the_table_of_the_readme():
    rows = runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))["rules"]()
    assert "| `bounded` | `Bounded(ratio=1000000.0)` | 0 | when the scale" in rows
