"""Plots draw what the records say."""

import math
import statistics

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from rootpool.report.plots import (
    confusion_pairs,
    dots_with_spread,
    learning_curves,
    paired_differences,
    spectrum_over_training,
    speed_bars,
)
from rootpool.report.plots.palette import PAPER, STYLES, run_styles, styles
from rootpool.report.svg import inline_svg
from sample_page import PLOTS


def value(method, seed, epoch):
    return 20 + 30 * math.exp(-epoch) + seed + len(method) / 10


RUNS = [("gap", "standalone"), ("svd-pade", "standalone"), ("svd-pade", "hybrid")]
CURVES = [
    {
        "run": f"{method}, {protocol}",
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "epoch": epoch,
        "val_error": value(method, seed, epoch),
        "train_loss": value(method, seed, epoch) / 10,
    }
    for method, protocol in RUNS
    for seed in range(3)
    for epoch in range(6)
]
LAST = [record for record in CURVES if record["epoch"] == 5]


def lines_of(axes, method):
    return [line for line in axes.lines if line.get_color() == STYLES[method].colour]


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


# --------------------------------------------------------------------------------------------------
# Styles


def test_unknown_methods_get_styles_that_nobody_else_has():
    names = ["svd-pade", "average pooling", "two stages", "\udcff", "three stages", "gap"]
    looks = styles(names)
    assert list(looks) == names
    assert len(set(looks.values())) == len(names)
    assert looks["svd-pade"] == STYLES["svd-pade"]
    assert styles(["two stages"]) == styles(["two stages", "two stages"])
    assert len(styles(f"run {i}" for i in range(40))) == 40  # more names than styles


def test_every_run_of_a_method_looks_different():
    protocols = {"a": "standalone", "b": "standalone", "c": "hybrid", "d": "float32"}
    looks = run_styles({"run": r, "method": "exact", "protocol": p} for r, p in protocols.items())
    assert {look.colour for look in looks.values()} == {STYLES["exact"].colour}
    assert len({look.line for look in looks.values()}) == len(protocols)
    assert (looks["a"].line, looks["c"].line) == ("-", "--")
    assert [look.filled for look in looks.values()] == [True, False, False, False]


# --------------------------------------------------------------------------------------------------
# Over time


def test_a_line_is_the_mean_over_seeds_in_a_band_of_one_deviation():
    axes = learning_curves(CURVES).axes[0]
    (line,) = lines_of(axes, "gap")
    values = [[value("gap", seed, epoch) for seed in range(3)] for epoch in range(6)]
    assert line.get_xdata() == pytest.approx(range(6))
    assert line.get_ydata() == pytest.approx([statistics.mean(v) for v in values])
    band = axes.collections[0].get_paths()[0].vertices
    for epoch, v in enumerate(values):
        ends = band[np.isclose(band[:, 0], epoch), 1]
        expected = statistics.mean(v) + np.array([-1, 1]) * statistics.stdev(v)
        assert [ends.min(), ends.max()] == pytest.approx(expected)


SPECTRA = [
    {"run": run, "method": run, "step": step, "epoch": 0, "condition_mean": factor * 10**step}
    for run, factor in (("exact", 1.0), ("svd-pade", 3.0))
    for step in range(5)
]


def test_what_spans_decades_is_logarithmic():
    assert spectrum_over_training(SPECTRA).axes[0].get_yscale() == "log"
    flat = [dict(record, condition_mean=2.0 + record["step"]) for record in SPECTRA]
    assert spectrum_over_training(flat).axes[0].get_yscale() == "linear"
    huge = [dict(record, condition_mean=1e9 + 1e8 * record["step"]) for record in SPECTRA]
    assert spectrum_over_training(huge).axes[0].get_yscale() == "log"
    negative = [dict(record, condition_mean=-record["condition_mean"]) for record in SPECTRA]
    assert spectrum_over_training(negative).axes[0].get_yscale() == "linear"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_left_out_and_counted(bad):
    records = [dict(r, condition_mean=bad) if r["step"] == 2 else r for r in SPECTRA]
    figure = spectrum_over_training(records)
    (line,) = lines_of(figure.axes[0], "exact")
    assert list(line.get_xdata()) == [0, 1, 3, 4]
    assert "2 values not finite, left out" in figure.get_supxlabel()


# --------------------------------------------------------------------------------------------------
# By name


def labels(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_dots_are_sorted_by_mean():
    records = [dict(row, val_error=-row["val_error"] * (row["method"] == "gap")) for row in LAST]
    figure = dots_with_spread(records)
    axes = figure.axes[0]
    assert labels(axes)[0] == "gap, standalone"
    means = [container.lines[0].get_xdata()[0] for container in axes.containers]
    assert means == sorted(means)
    assert means[0] == pytest.approx(-statistics.mean(value("gap", s, 5) for s in range(3)))
    hollow = [c.lines[0].get_markerfacecolor() == PAPER for c in axes.containers]
    assert hollow == ["hybrid" in label for label in labels(axes)]


def test_differences_are_sorted_and_filled_where_clear_of_zero():
    rows = [
        {"label": "noise", "mean": 0.5, "low": -1.0, "high": 2.0},
        {"label": "better", "mean": -2.0, "low": -3.0, "high": -1.0, "method": "exact"},
        {"label": "one seed", "mean": 1.0, "low": None, "high": None},
        {"label": "worse", "mean": 3.0, "low": 1.0, "high": 5.0},
    ]
    axes = paired_differences(rows).axes[0]
    assert labels(axes) == ["better", "noise", "one seed", "worse"]
    zero, *others = axes.lines
    assert list(zero.get_xdata()) == [0, 0]
    dots = [line for line in others if len(line.get_xdata()) == 1]
    assert [dot.get_xdata()[0] for dot in dots] == [-2.0, 0.5, 1.0, 3.0]
    assert [dot.get_markerfacecolor() != PAPER for dot in dots] == [True, False, False, True]
    assert dots[0].get_color() == STYLES["exact"].colour
    intervals = [tuple(line.get_xdata()) for line in others if len(line.get_xdata()) == 2]
    assert intervals == [(-3.0, -1.0), (-1.0, 2.0), (1.0, 5.0)]


def test_a_correction_overrules_the_interval():
    row = {"label": "a", "mean": -2.0, "low": -3.0, "high": -1.0, "clear": False}
    dot = paired_differences([row]).axes[0].lines[-1]
    assert dot.get_markerfacecolor() == PAPER


def test_speeds_are_logarithmic_and_relative_to_the_fastest():
    rows = [
        {"label": "slow", "milliseconds": 12.0},
        {"label": "fast", "milliseconds": 0.5, "method": "exact"},
    ]
    figure = speed_bars(rows)
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [bar.get_width() for bar in axes.patches] == [0.5, 12.0]
    assert to_hex(axes.patches[0].get_facecolor()) == STYLES["exact"].colour
    assert to_hex(axes.patches[1].get_facecolor()) not in {s.colour for s in STYLES.values()}
    assert {"0.5 ms", "12 ms (24×)"} <= set(texts(figure))


def test_the_most_confused_pairs():
    rows = [
        {"true": f"class {i}", "predicted": "$x_", "count": i, "total": 30} for i in range(1, 20)
    ]
    figure = confusion_pairs(rows, top=3)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [19, 18, 17]
    assert {"class 19 → $x_", "19 of 30"} <= set(texts(figure))
    assert "class 16 → $x_" not in texts(figure)
    del rows[-1]["total"]
    assert "19" in texts(confusion_pairs(rows, top=3))


@pytest.mark.parametrize("draw", PLOTS)
def test_every_plot_draws_unknown_methods_and_any_name(draw):
    assert "$a_1$ &lt;b&gt;" in inline_svg(draw(PLOTS[draw]), "x", "x")


@pytest.mark.parametrize(
    ("draw", "rows", "message"),
    [
        (learning_curves, [], "no records to draw 'val_error' from"),
        (learning_curves, [{"run": "a", "epoch": 1}], "records need val_error; got run, epoch"),
        (spectrum_over_training, [{"step": 1}], "records need run, condition_mean; got step"),
        (paired_differences, [], "no rows to draw; each needs label, mean, low, high"),
        (dots_with_spread, [{"run": "a"}], "rows need val_error; got run"),
        (speed_bars, [{"label": "a", "milliseconds": 0}], "needs positive times, got 0 for 'a'"),
        (confusion_pairs, [{"true": "a"}], "rows need predicted, count; got true"),
    ],
)
def test_bad_records(draw, rows, message):
    with pytest.raises(ValueError, match=message):
        draw(rows)


def test_the_users_settings_neither_matter_nor_change():
    with matplotlib.rc_context(
        {"lines.linewidth": 9, "text.usetex": True, "axes.spines.top": True}
    ):
        before = dict(matplotlib.rcParams)
        axes = learning_curves(CURVES).axes[0]
        assert dict(matplotlib.rcParams) == before
    assert lines_of(axes, "gap")[0].get_linewidth() < 3
    assert not axes.spines["top"].get_visible()
    assert not axes.yaxis.label.get_usetex()
