"""Precision and smoothness: the two figures about the gradients of MPN-COV and of its remedies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, geometric_mean
from typing import Any

import torch
from torch.linalg import LinAlgError

from rootpool.nn import covariance_pools
from rootpool.report.records import Record
from studies.paper.effective_smoothness import effective_smoothness

from .convergence import SURE, failures, tells_apart, with_failures
from .judge import Answer, answer, answers_from_runs, ask, comparison_records, conclude
from .networks import UNTRAINED, Network, loss, networks
from .plan import OURS, Measured, in_our_form
from .published import Figure
from .result import Result, Verdict, verdict_of
from .rows import Row, curve_records, endings, settings_of

__all__ = ["measure_precision", "measure_smooth_gradients", "smoothness_records"]

FAR = 2.0  # times as large: less smooth beyond doubt
DTYPES = {"float64": torch.float64, "float32": torch.float32}
DTYPES_DOWN = ("float32", "float64")


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
            found = _smoothness(network)
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


def _smoothness(network: Network) -> dict[str, float]:
    try:
        return effective_smoothness(network.model, loss, network.batch)
    except (
        ValueError,
        LinAlgError,
    ):  # a step along the gradient leads to features that are not finite
        return {"beta": math.inf}


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
    runs = study.runs(protocol="standalone")
    rows = with_failures(endings(runs))
    shown = list(dict.fromkeys(form for m in figure.methods for form in (m, in_our_form(m))))
    smoothness = smoothness_records(study, shown, tuple(DTYPES))
    ratios = _ratios(_betas(smoothness), "mpn-cov", "isqrt-cov")
    (question,) = figure.questions
    comparisons = ask(question, figure, rows)

    def of(method: str, precision: str) -> list[Row]:
        return [r for r in rows if (r["method"], r["precision"]) == (method, precision)]

    def changed(method: str) -> float:
        single, double = (fmean(r["train_error"] for r in of(method, p)) for p in DTYPES_DOWN)
        return single - double

    single, double = (of("mpn-cov", precision) for precision in DTYPES_DOWN)
    fused = of(in_our_form("mpn-cov"), "float32")
    answers = [
        Answer(
            f"MPN-COV does not converge in float32. Here {failures(single)} runs as published fail in "
            f"float32, and {failures(double)} in float64 (sign test over seeds: p = "
            f"{tells_apart(single, double):.2g}). In our form, in float32, {failures(fused)} fail.",
            _does_not_converge(single, double),
        ),
        Answer(
            f"{question.text} Here it is {changed('isqrt-cov'):+.2f} points from that in float64.",
            answer(question, comparisons).verdict,
        ),
        Answer(
            f"The gradients of MPN-COV are far less smooth than those of iSQRT-COV. Here its β, as "
            f"published, is {_said(ratios)}.",
            verdict_of(all(ratio > FAR for ratio in ratios.values())),
        ),
    ]
    return conclude(
        figure,
        answers,
        beta_rows(smoothness),
        settings_of(study.plan),
        curves=curve_records(runs),
        smoothness=smoothness,
        comparisons=comparison_records(figure, rows),
    )


def _does_not_converge(single: Sequence[Row], double: Sequence[Row]) -> Verdict:
    """Whether most runs fail in single precision, and surely more than in double precision."""
    failed = sum(row["failed"] for row in single)
    if failed == len(single) > 1 or tells_apart(single, double) < SURE:
        return verdict_of(failed > len(single) / 2)
    return verdict_of(False if not failed and len(single) > 2 else None)


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
