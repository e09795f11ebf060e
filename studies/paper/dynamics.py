"""Measures of the training itself: curves, condition numbers, the first two eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from torch import Tensor

from rootpool.report.records import Record
from rootpool.report.spectrum import covariance_eigenvalues
from rootpool.report.statistics import PairedDifference, describe, paired_difference

from .judge import Answer, answers_from_runs, comparison_records, conclude
from .networks import features, networks
from .plan import Measured
from .published import Figure, Table, load_published
from .result import Result, Verdict, verdict_of
from .rows import Row, curve_records, endings, settings_of, side_by_side

__all__ = [
    "measure_condition_numbers",
    "measure_eigenvalue_ratio",
    "measure_training_curves",
    "measure_warm_up_curves",
]

TIE = 1.05  # a ratio of eigenvalues that counts as one
NEWTON = "isqrt-cov"


def _clearly_positive(difference: PairedDifference) -> Verdict:
    return verdict_of(difference.mean > 0 if difference.clear else None)


# --------------------------------------------------------------------------------------------------
# Figure 1


def _gaps(rows: Sequence[Row], epoch: int, methods: Sequence[str]) -> list[float]:
    """For each seed: mean training error of the methods minus that of iSQRT-COV after an epoch."""

    def errors(seed: int, methods: Sequence[str]) -> list[float]:
        return [
            row["train_error"]
            for row in rows
            if row["seed"] == seed and row["epoch"] == epoch and row["method"] in methods
        ]

    seeds = sorted({row["seed"] for row in rows})
    return [fmean(errors(seed, methods)) - fmean(errors(seed, [NEWTON])) for seed in seeds]


def measure_training_curves(figure: Figure, study: Measured) -> Result:
    """Standalone training: the gap to iSQRT-COV at the end of each stage of the learning rate."""
    runs = study.runs(protocol="standalone")
    rows = [row for row in curve_records(runs) if row["method"] != "gap"]
    stages = [*study.plan.milestones, study.plan.epochs]
    gaps = {end: _gaps(rows, end - 1, figure.members("svd")) for end in stages}
    first, last = gaps[stages[0]], gaps[stages[-1]]
    shrinks = paired_difference(first, last)
    stays = paired_difference(last, [0.0] * len(last))
    sizes = ", ".join(f"{fmean(gap):.2f} after epoch {end}" for end, gap in gaps.items())
    answers = [
        Answer(
            f"The gap in training error to iSQRT-COV shrinks as the rate decays. Here it is {sizes} "
            f"(points, mean of the SVD methods).",
            _clearly_positive(shrinks),
        ),
        Answer(
            f"The gap stays. Here the SVD methods are {describe(stays)} than iSQRT-COV.",
            _clearly_positive(stays),
        ),
        *answers_from_runs(figure, endings(runs)),
    ]
    records: list[Record] = [
        {
            "row": "gap in training error to iSQRT-COV",
            "column": f"epoch {end}",
            "measured": fmean(gap),
        }
        for end, gap in gaps.items()
    ]
    return conclude(figure, answers, records, settings_of(study.plan), curves=rows)


# --------------------------------------------------------------------------------------------------
# Figure 5


def measure_warm_up_curves(figure: Figure, study: Measured) -> Result:
    """The last stage of hybrid training against iSQRT-COV and against MPN-COV."""
    chosen = [*study.runs(protocol="hybrid"), *study.runs(method=NEWTON)]
    rows = endings(chosen)
    start = study.plan.switch or 0
    return conclude(
        figure,
        answers_from_runs(figure, rows),
        [],
        settings_of(study.plan),
        curves=[row for row in curve_records(chosen) if row["epoch"] >= start - 1],
        comparisons=comparison_records(figure, rows),
    )


# --------------------------------------------------------------------------------------------------
# Table 1


def _to_the_end(spectra: Sequence[Row]) -> list[int]:
    """The seeds whose spectra were measured until the last step: those that did not diverge."""
    last = max(row["step"] for row in spectra)
    return sorted({row["seed"] for row in spectra if row["step"] == last})


def measure_condition_numbers(table: Table, study: Measured) -> Result:
    """Condition numbers in the first epoch of each learning rate, and what is behind them."""
    spectra = curve_records(study.runs(protocol="standalone", method="mpn-cov"), "spectrum")
    # The paper's columns are the first epochs of its learning rates; ours may have fewer rates.
    starts = [0, *study.plan.milestones][: len(table.columns)]
    epochs = dict(zip(table.columns[: len(starts)], starts, strict=True))
    seeds = _to_the_end(spectra)

    def at(epoch: int, value: str) -> list[float]:
        """The mean over an epoch, for each seed."""
        return [
            fmean(r[value] for r in spectra if r["seed"] == seed and r["epoch"] == epoch)
            for seed in seeds
        ]

    condition = {column: at(epoch, "condition_mean") for column, epoch in epochs.items()}
    first, *_, last = condition.values()
    falls = paired_difference(first, last)
    limit = load_published().statements["ill-conditioned-from"].value
    means = [fmean(values) for values in condition.values()]
    answers = [
        Answer(
            "The condition number falls as the learning rate decays. Here it is "
            + ", ".join(
                f"{mean:.2e} in epoch {epochs[c] + 1}"
                for c, mean in zip(condition, means, strict=True)
            )
            + ".",
            _clearly_positive(falls),
        ),
        Answer(
            f"It falls from above {limit:.0e} to below.",
            verdict_of(means[0] > limit > means[-1]),
        ),
    ]
    beside = {
        "largest eigenvalue": "lambda_1",
        "smallest eigenvalue above round-off": "lambda_min_kept",
        "numerical rank": "rank",
    }
    cells = {("MPN-COV", column): values for column, values in condition.items()}
    cells |= {(n, c): at(e, value) for n, value in beside.items() for c, e in epochs.items()}
    return conclude(
        table,
        answers,
        side_by_side(table, cells),
        {**settings_of(study.plan), "our epochs": ", ".join(str(e + 1) for e in epochs.values())},
        spectrum=spectra,
    )


# --------------------------------------------------------------------------------------------------
# Figure 3


def measure_eigenvalue_ratio(figure: Figure, study: Measured) -> Result:
    """The first eigenvalue over the second: its mean over the steps, and its least at some moments."""
    spectra = curve_records(study.runs(protocol="standalone", method="mpn-cov"), "spectrum")
    steps = sorted({row["step"] for row in spectra})
    seeds = _to_the_end(spectra)
    first, last = (
        [r["eigenvalue_ratio"] for r in spectra if r["step"] == step and r["seed"] in seeds]
        for step in (steps[0], steps[-1])
    )
    ratios: dict[str, list[Tensor]] = {}  # by moment, one per seed
    for network in networks(study, ["mpn-cov"]):
        lam = covariance_eigenvalues(features(network))
        ratios.setdefault(network.moment, []).append(lam[:, 0] / lam[:, 1])
    means = {moment: fmean(float(r.mean()) for r in found) for moment, found in ratios.items()}
    lows = {moment: min(float(r.min()) for r in found) for moment, found in ratios.items()}
    records: list[Record] = [
        {"row": f"{name} of a batch, {moment}", "column": "λ₁ / λ₂", "measured": values[moment]}
        for moment in ratios
        for name, values in (("mean", means), ("lowest", lows))
    ]
    least = min(lows.values())
    answers = [
        Answer(
            f"The ratio falls during training. Here its mean over a batch goes from {fmean(first):.2f} "
            f"to {fmean(last):.2f} in {steps[-1]} steps.",
            _clearly_positive(paired_difference(first, last)),
        ),
        Answer(
            f"It reaches one (below {TIE:g}) for some covariances. Here the lowest is {least:.3f}.",
            verdict_of(least < TIE),
        ),
    ]
    return conclude(figure, answers, records, settings_of(study.plan), spectrum=spectra)
