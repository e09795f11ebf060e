"""Plots draw what the records say; test_document draws every one of them with names of any kind."""

import math
import statistics

import numpy as np
import pytest

from rootpool.nn import method_names
from rootpool.report.plots import learning_curves, speed_bars
from rootpool.report.plots.palette import FREE, STYLES, run_styles

ERRORS = {
    ("gap", seed, epoch): 20 + 30 * math.exp(-epoch) + seed
    for seed in range(3)
    for epoch in range(6)
} | {("svd-pade", 0, epoch): 25.0 - epoch for epoch in range(6)}
CURVES = [
    {"run": run, "method": run, "seed": seed, "epoch": epoch, "val_error": value}
    for (run, seed, epoch), value in ERRORS.items()
]


def line_of(axes, method):
    (line,) = [line for line in axes.lines if line.get_color() == STYLES[method].colour]
    return line


def test_runs_can_be_told_apart_by_colour_and_protocols_by_lines():
    runs = [("a", "exact", "standalone"), ("b", "exact", "standalone"), ("c", "exact", "hybrid")]
    runs += [("d", "user's own", "standalone"), ("e", "\udcff", "float32"), ("f", "gap", "hybrid")]
    looks = run_styles({"run": r, "method": m, "protocol": p} for r, m, p in runs)
    assert {looks[run].colour for run in "ac"} == {STYLES["exact"].colour}
    assert len({looks[run].colour for run in "abdef"}) == 5  # three runs of one method, too
    assert [look.line for look in looks.values()] == ["-", "-", "--", "-", ":", "--"]
    assert len(run_styles({"run": f"run {k}"} for k in range(40))) == 40  # more than colours
    ours, published = run_styles([{"run": "mpn-cov"}, {"run": "mpn-cov-published"}]).values()
    assert ours.colour == STYLES["mpn-cov"].colour != published.colour
    (alone,) = run_styles([{"run": "mpn-cov-published"}]).values()
    assert alone == ours
    assert set(method_names("paper", "follow-up", "baseline")) <= set(STYLES)  # others are free
    looks = [style[:2] for style in (*STYLES.values(), *FREE)]
    assert len(set(looks)) == len(looks)  # a look is of one method, in all pictures


def test_a_line_is_the_mean_over_seeds_in_a_band_of_one_deviation():
    axes = learning_curves(CURVES).axes[0]
    line = line_of(axes, "gap")
    values = [[ERRORS["gap", seed, epoch] for seed in range(3)] for epoch in range(6)]
    assert line.get_xdata() == pytest.approx(range(1, 7))
    assert line.get_ydata() == pytest.approx([statistics.mean(v) for v in values])
    (band,) = axes.collections  # the other run has one seed
    corners = band.get_paths()[0].vertices
    for epoch, v in enumerate(values):
        ends = corners[np.isclose(corners[:, 0], epoch + 1), 1]
        expected = statistics.mean(v) + np.array([-1, 1]) * statistics.stdev(v)
        assert [ends.min(), ends.max()] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_left_out_and_counted(bad):
    records = [r | {"val_error": bad} if r["epoch"] == 2 else r for r in CURVES]
    figure = learning_curves(records)
    assert list(line_of(figure.axes[0], "svd-pade").get_xdata()) == [1, 2, 4, 5, 6]
    assert "4 values not finite, left out" in figure.get_supxlabel()


@pytest.mark.parametrize(
    ("draw", "rows", "message"),
    [
        (learning_curves, [], "no records to draw; each needs run, epoch, val_error"),
        (learning_curves, [{"epoch": 1}], "records need run, val_error; got epoch"),
        (speed_bars, [{"label": "a", "milliseconds": 0}], "needs positive times, got 0 for 'a'"),
    ],
)
def test_bad_records(draw, rows, message):
    with pytest.raises(ValueError, match=message):
        draw(rows)
