"""Plots draw what the records say; sample_page draws every one of them, too."""

import math
import statistics

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from rootpool.report.plots import (
    dots_with_spread,
    learning_curves,
    paired_differences,
    speed_bars,
)
from rootpool.report.plots.palette import PAPER, STYLES, run_styles
from rootpool.report.svg import inline_svg
from sample_page import PLOTS

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


def texts(figure):
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text)}


def labels(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_runs_can_be_told_apart_by_colour_and_protocols_by_lines():
    runs = [("a", "exact", "standalone"), ("b", "exact", "standalone"), ("c", "exact", "hybrid")]
    runs += [("d", "user's own", "standalone"), ("e", "\udcff", "float32"), ("f", "gap", "hybrid")]
    looks = run_styles({"run": r, "method": m, "protocol": p} for r, m, p in runs)
    assert list(looks) == [run for run, *_ in runs]
    assert {looks[run].colour for run in "ac"} == {STYLES["exact"].colour}
    assert len({looks[run].colour for run in "abdef"}) == 5  # three runs of one method, too
    assert [look.line for look in looks.values()] == ["-", "-", "--", "-", ":", "--"]
    assert (
        len(run_styles({"run": f"run {k}"} for k in range(40))) == 40
    )  # more than there are colours


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


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 10, 100], "log"),
        ([2, 3, 4], "linear"),
        ([1e9, 1.1e9, 1.2e9], "log"),
        ([-100, -10, -1], "linear"),
    ],
)
def test_what_spans_a_factor_or_is_huge_is_logarithmic(values, scale):
    records = [{"run": "a", "step": k, "condition_mean": v} for k, v in enumerate(values)]
    assert learning_curves(records, "condition_mean", x="step").axes[0].get_yscale() == scale


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_left_out_and_counted(bad):
    records = [r | {"val_error": bad} if r["epoch"] == 2 else r for r in CURVES]
    figure = learning_curves(records)
    assert list(line_of(figure.axes[0], "svd-pade").get_xdata()) == [1, 2, 4, 5, 6]
    assert "4 values not finite, left out" in figure.get_supxlabel()


def test_dots_are_sorted_by_mean_and_hollow_for_hybrid_runs():
    records = [r | {"run": f"{r['run']}, hybrid", "protocol": "hybrid"} for r in CURVES]
    shifted = [r | {"val_error": r["val_error"] - 10} for r in records]
    axes = dots_with_spread([r for r in CURVES + shifted if r["epoch"] == 5]).axes[0]
    assert labels(axes) == ["svd-pade, hybrid", "gap, hybrid", "svd-pade", "gap"]
    last = [ERRORS["gap", seed, 5] for seed in range(3)]
    dots = [container.lines[0] for container in axes.containers]
    means = [10.0, statistics.mean(last) - 10, 20.0, statistics.mean(last)]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx(means)
    assert [dot.get_markerfacecolor() == PAPER for dot in dots] == [True, True, False, False]


def test_differences_are_sorted_and_filled_where_clear_of_zero():
    rows = [
        {"label": "noise", "mean": 0.5, "low": -1.0, "high": 2.0},
        {"label": "better", "mean": -2.0, "low": -3.0, "high": -1.0, "method": "exact"},
        {"label": "one seed", "mean": 1.0, "low": None, "high": None},
        {"label": "corrected", "mean": 3.0, "low": 1.0, "high": 5.0, "clear": False},
        {"label": "worse", "mean": 4.0, "low": 3.0, "high": 5.0, "method": "exact"},
    ]
    axes = paired_differences(rows).axes[0]
    assert labels(axes) == ["better", "noise", "one seed", "corrected", "worse"]
    zero, *others = axes.lines
    assert list(zero.get_xdata()) == [0, 0]
    dots = [line for line in others if len(line.get_xdata()) == 1]
    assert [dot.get_xdata()[0] for dot in dots] == [-2.0, 0.5, 1.0, 3.0, 4.0]
    assert [dot.get_markerfacecolor() != PAPER for dot in dots] == [True, False, False, False, True]
    assert {dots[0].get_color(), dots[-1].get_color()} == {STYLES["exact"].colour}
    intervals = [tuple(line.get_xdata()) for line in others if len(line.get_xdata()) == 2]
    assert intervals == [(-3.0, -1.0), (-1.0, 2.0), (1.0, 5.0), (3.0, 5.0)]


def test_speeds_are_logarithmic_and_relative_to_the_fastest():
    slow, fast = {"label": "slow", "milliseconds": 12.0}, {"label": "fast", "milliseconds": 0.5}
    figure = speed_bars([slow, fast | {"method": "exact"}])
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [bar.get_width() for bar in axes.patches] == [0.5, 12.0]
    ours, other = (to_hex(bar.get_facecolor()) for bar in axes.patches)
    assert ours == STYLES["exact"].colour
    assert other not in {style.colour for style in STYLES.values()}
    assert {"0.5 ms", "12 ms (24×)"} <= texts(figure)


def test_panels_show_a_method_each_in_front_of_the_others():
    figure = learning_curves(CURVES, switch_epoch=3, decay_epochs=[2], panels=True)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["gap", "svd-pade"]
    other, own, decay, switch = figure.axes[0].lines
    assert own.get_color() == STYLES["gap"].colour
    assert list(other.get_ydata()) == [25.0 - epoch for epoch in range(6)]
    # A change at the start of the third epoch, which has the number 2, is between the ends of 2 and 3.
    assert (decay.get_xdata()[0], switch.get_xdata()[0]) == (2.5, 3.5)


@pytest.mark.parametrize(("draw", "rows", "options"), PLOTS)
def test_every_plot_draws_unknown_methods_and_any_name(draw, rows, options):
    assert "$a_1$ 猫 &lt;b&gt;" in inline_svg(draw(rows, **options), "x", "x")


@pytest.mark.parametrize(
    ("draw", "rows", "message"),
    [
        (learning_curves, [], "no records to draw; each needs run, epoch, val_error"),
        (learning_curves, [{"epoch": 1}], "records need run, val_error; got epoch"),
        (paired_differences, [], "no records to draw; each needs label, mean, low, high"),
        (dots_with_spread, [{"run": "a"}], "records need val_error; got run"),
        (speed_bars, [{"label": "a", "milliseconds": 0}], "needs positive times, got 0 for 'a'"),
    ],
)
def test_bad_records(draw, rows, message):
    with pytest.raises(ValueError, match=message):
        draw(rows)


def test_the_users_settings_neither_matter_nor_change():
    with matplotlib.rc_context({"lines.linewidth": 9, "text.usetex": True}):
        before = dict(matplotlib.rcParams)
        axes = learning_curves(CURVES).axes[0]
        assert dict(matplotlib.rcParams) == before
    assert line_of(axes, "gap").get_linewidth() < 3
    assert not axes.yaxis.label.get_usetex()
