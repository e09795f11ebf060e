"""The question of the title: effects that were put in are found."""

import pytest

from paper_runs import place
from studies.approximation import measures
from studies.approximation.command import load_approximation
from studies.engine.network import Network

STUDY = load_approximation()
PATCHES = Network("patches", seeds=4)


def two_by_two(effect):
    """The effect belongs to the forward pass of Newton-Schulz."""
    errors = {"newton-exact": 20.0 + effect, "isqrt-cov": 20.0 + effect}
    return place(STUDY, PATCHES, "why:halves", errors, noise=0.01)


def test_the_halves_are_told_apart():
    found = measures.halves(STUDY.entries["why:halves"], [two_by_two(-1.0)], None)
    forward, backward = (found.findings["without batch norm"][h] for h in ("forward", "backward"))
    assert (forward.outcome, backward.outcome) == ("seen", "not seen")
    assert forward.said.startswith("better by 1.0")
    assert "the seeds can tell differences of" in backward.said
    cells = found.blocks[1].rows
    assert cells[1][1].value - cells[0][1].value == pytest.approx(-1, abs=0.02)
