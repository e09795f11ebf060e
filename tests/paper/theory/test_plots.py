"""A picture of every statement, with axes, names and the data of its records."""

import dataclasses

import pytest

pytest.importorskip("matplotlib")

from rootpool.paper.theory import THEORY
from rootpool.paper.theory.explained import EXPLAINED
from rootpool.paper.theory.plots import PLOTS, draw
from rootpool.report.plots import WIDE


@pytest.mark.parametrize("entry", THEORY)
def test_every_statement_has_a_picture(entry, tmp_path):
    result = THEORY[entry]()
    for width in (WIDE, 3.5):
        figure = draw(result, width=width)
        assert figure.get_supxlabel()
        assert all(axis.lines for axis in figure.axes)
        assert figure.axes[0].get_ylabel() or figure.axes[0].get_yticklabels()
        assert figure.legends
        # No glyph is missing: a warning is an error.
        figure.savefig(tmp_path / "picture.png", dpi=50)
    assert set(PLOTS) == set(THEORY) == set(EXPLAINED)


def test_the_lines_are_the_records():
    result = THEORY["theory:pade-rank"]()
    lines = [list(line.get_ydata()) for line in draw(result).axes[0].lines]
    assert lines == [[r[key] for r in result.records] for key in ("unknowns", "rank")]


def test_what_is_no_number_is_drawn_as_none():
    texts = [t.get_text() for axis in draw(THEORY["theory:ties"]()).axes for t in axis.texts]
    assert texts == ["none"] * 6  # SVD and SVD-Pade for three kinds of ties


def test_unknown_entry():
    result = dataclasses.replace(THEORY["theory:pade-rank"](), entry="table:speed")
    with pytest.raises(ValueError, match="no picture for 'table:speed'; there is one for theory:"):
        draw(result)
