"""The statements hold, and what they rest on is what independent arithmetic says."""

import math

import pytest
import torch

import matrices
import oracles
from studies.engine.command import measure_entry
from studies.engine.kept import Kept
from studies.paper.command import load_paper
from studies.paper.theory.exact_gradient import _in_50_digits, feature_gradient, feature_maps
from studies.paper.theory.pade import pade_coefficients_by_digits
from studies.paper.theory.statement import relative_error
from studies.paper.theory.ties import ties

THEORY = load_paper(["theory"])


RUN = [name for name, entry in THEORY.entries.items() if entry.measure]


@pytest.mark.parametrize("name", RUN)
def test_every_statement_holds_and_can_be_drawn(name, tmp_path):
    entry = THEORY.entries[name]
    one = measure_entry(THEORY, entry, [], Kept(tmp_path))
    (answer,) = one.answers[""]
    assert answer.state == "follows by argument", answer.said
    for picture in one.blocks:
        assert picture.figure.get_supxlabel()
        assert all(axis.lines for axis in picture.figure.axes)
        picture.figure.savefig(tmp_path / "picture.png", dpi=50)  # a missing glyph is an error


def test_coefficients_by_precision():
    """p_1 at 15, 20, 30 and 50 digits, as found by others with the published code."""
    result = pade_coefficients_by_digits()
    assert [round(r["p_1"], 2) for r in result.records] == [1.21, 1.06, 2.04, 0.38]
    for record in result.records:  # p = r and q = r (1 - x) for some r with r_0 = 1
        assert record["p_1"] - record["q_1"] == pytest.approx(1, abs=1e-6)
    assert any(v < 0 for v in (r["value_at_1"] for r in result.records))


@pytest.mark.parametrize("shape", [(4, 9), (4, 4), (6, 3)])
def test_the_exact_feature_gradient_by_finite_differences(shape):
    X, G = matrices.random(*shape), matrices.random(shape[0], shape[0], seed=1)

    def loss(X):
        A = (X - X.mean(1, keepdim=True)) / math.sqrt(shape[1])
        U, s, _ = torch.linalg.svd(A, full_matrices=False)
        return ((U * s) @ U.mT * G).sum()

    gradient, largest = feature_gradient(X, G)
    direction = matrices.random(*shape, seed=2)
    numeric = float(oracles.central_difference(loss, X, direction))
    assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=1e-6)
    assert 0.5 <= largest <= 1


def test_ties_name_all_kinds():
    result = ties()
    assert {r["spectrum"] for r in result.records} == set(feature_maps())
    for record in result.records:
        if record["spectrum"] == "equal" and record["method"] != "exact":
            assert not record["reference_error"] < 0.1
            assert record["our_error"] < 1e-14
    assert "there is no gradient by SVD" in result.reason
    assert "SVD-Trunc and SVD-Taylor are wrong even in our code" in result.reason


def test_fifty_digits_solve_the_equation_of_the_gradient():
    """Q Y + Y Q = (G + G^T) / 2 with the root Q of A."""
    A, G = matrices.random_definite(3, 3), matrices.random(3, 3, seed=1)
    Y = _in_50_digits(A, G)
    lam, U = torch.linalg.eigh(A)
    Q = (U * lam.sqrt()) @ U.mT
    assert relative_error(Q @ Y + Y @ Q, (G + G.mT) / 2) < 1e-14
