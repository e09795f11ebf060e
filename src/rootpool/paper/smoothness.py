"""Precision and smoothness: the two figures about the gradients of MPN-COV and of its remedies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean
from typing import Any

import torch

from rootpool.analysis import Record, effective_smoothness
from rootpool.nn import covariance_pools

from .judge import Answer, answer, answers_from_runs, ask, comparison_records, conclude
from .networks import UNTRAINED, loss, networks
from .plan import OURS, Measured
from .published import Figure
from .result import Result, verdict_of
from .rows import curve_records, endings, settings_of

__all__ = ["measure_precision", "measure_smooth_gradients", "smoothness_records"]

FAR = 2.0  # times as large: less smooth beyond doubt
DTYPES = {"float64": torch.float64, "float32": torch.float32}
FAILED = 10.0  # points of training error above the other precision: did not converge


def smoothness_records(
    study: Measured, methods: Sequence[str], dtypes: Sequence[str] = ("float64",)
) -> list[Record]:
    """Effective smoothness by method, moment, precision of the root and seed."""
    records: list[Record] = []
    for network in networks(study, methods):
        pools = covariance_pools(network.model).values()
        for dtype in dtypes:
            for pool in pools:
                pool.compute_dtype = DTYPES[dtype]
            found = effective_smoothness(network.model, loss, network.batch)
            records.append(
                {
                    "run": network.method if len(dtypes) == 1 else f"{network.method}, {dtype}",
                    "method": network.method,
                    "precision": dtype,
                    "moment": network.moment,
                    "seed": network.seed,
                    **found,
                }
            )
    return records


def _betas(records: Sequence[Record], precision: str = "float64") -> dict[str, dict[str, float]]:
    """Mean over seeds by method and moment; geometric, for numbers of several decades."""
    found: dict[str, dict[str, list[float]]] = {}
    for r in records:
        if r["precision"] == precision:
            at = found.setdefault(str(r["method"]), {})
            at.setdefault(str(r["moment"]), []).append(float(r["beta"] or 0))
    return {m: {k: geometric_mean(v) for k, v in at.items()} for m, at in found.items()}


def beta_rows(records: Sequence[Record]) -> list[Record]:
    """Smoothness by run and moment, as a table."""
    found: dict[tuple[Any, Any], list[float]] = {}
    for r in records:
        found.setdefault((r["run"], r["moment"]), []).append(float(r["beta"] or 0))
    return [
        {"row": run, "column": f"β, {moment}", "measured": fmean(values)}
        for (run, moment), values in found.items()
    ]


def _ratios(betas: dict[str, dict[str, float]], method: str, base: str) -> dict[str, float]:
    return {k: betas[method][k] / betas[base][k] for k in betas[method] if k in betas[base]}


def _said(ratios: dict[str, float]) -> str:
    return ", ".join(f"{ratio:.2f} times as large ({moment})" for moment, ratio in ratios.items())


# --------------------------------------------------------------------------------------------------


def measure_precision(figure: Figure, study: Measured) -> Result:
    """MPN-COV and iSQRT-COV in single and double precision, and how smooth their gradients are."""
    rows = endings(study.runs())
    smoothness = smoothness_records(study, figure.methods, tuple(DTYPES))
    ratios = _ratios(_betas(smoothness), "mpn-cov", "isqrt-cov")
    (question,) = figure.questions
    comparisons = ask(question, figure, rows)

    def errors(method: str, precision: str) -> list[float]:
        own = (r for r in rows if (r["method"], r["precision"]) == (method, precision))
        return [row["train_error"] for row in own]

    off = {m: fmean(errors(m, "float32")) - fmean(errors(m, "float64")) for m in figure.methods}
    answers = [
        Answer(
            f"MPN-COV does not converge in float32. Here its final training error in float32 is "
            f"{off['mpn-cov']:+.2f} points from that in float64.",
            verdict_of(off["mpn-cov"] > FAILED),
        ),
        Answer(
            f"{question.text} Here it is {off['isqrt-cov']:+.2f} points from that in float64.",
            answer(question, comparisons).verdict,
        ),
        Answer(
            f"The gradients of MPN-COV are far less smooth than those of iSQRT-COV. Here its β is "
            f"{_said(ratios)}.",
            verdict_of(all(ratio > FAR for ratio in ratios.values())),
        ),
    ]
    return conclude(
        figure,
        answers,
        beta_rows(smoothness),
        settings_of(study.plan),
        curves=curve_records(study.runs()),
        smoothness=smoothness,
        comparisons=comparison_records(figure, rows),
    )


def measure_smooth_gradients(figure: Figure, study: Measured) -> Result:
    """The remedies: as smooth as iSQRT-COV, and hardly better than MPN-COV."""
    trained = dict.fromkeys(trial.tags["method"] for trial in study.trials)
    shown = [m for m in trained if m in (*figure.methods, *OURS)]
    smoothness = smoothness_records(study, shown)
    betas = _betas(smoothness)
    ratios = {m: _ratios(betas, m, "isqrt-cov") for m in figure.members("remedies") if m in betas}
    same = [r[UNTRAINED] for r in ratios.values()]
    late = [list(r.values())[-1] for r in ratios.values()]
    rows = endings(study.runs(protocol="standalone"))
    answers = [
        Answer(
            "All remedies make the gradients about as smooth as those of iSQRT-COV (at most "
            f"{FAR:g} times its β). Here β is {min(same):.2g} to {max(same):.2g} times that of iSQRT-COV in "
            f"the same untrained network, and {min(late):.2g} to {max(late):.2g} times in the trained "
            "ones.",
            verdict_of(all(ratio <= FAR for r in ratios.values() for ratio in r.values())),
        ),
        *answers_from_runs(figure, rows),
    ]
    curves = [
        row for row in curve_records(study.runs(protocol="standalone")) if row["method"] != "gap"
    ]
    return conclude(
        figure,
        answers,
        beta_rows(smoothness),
        settings_of(study.plan),
        curves=curves,
        smoothness=smoothness,
        comparisons=comparison_records(figure, rows),
    )
