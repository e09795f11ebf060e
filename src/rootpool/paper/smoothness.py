"""Precision and smoothness: the two figures on the gradients of MPN-COV and of its remedies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean
from typing import Any

import torch

from rootpool.analysis import Record, effective_smoothness
from rootpool.nn import covariance_pools, method_names

from .bench import Study
from .judge import Answer, compare_by_question, conclude, count, is_level, together
from .networks import UNTRAINED, loss, networks
from .published import Figure, load_published
from .result import Result
from .rows import SVD, comparison_records, curve_records, endings, settings_of

__all__ = ["measure_precision", "measure_smooth_gradients", "smoothness_records"]

FAR = 2.0  # times as large: less smooth beyond doubt
DTYPES = {"float64": torch.float64, "float32": torch.float32}
FAILED = 10.0  # points of training error above the other precision: did not converge


def smoothness_records(
    study: Study, methods: Sequence[str], dtypes: Sequence[str] = ("float64",)
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
                    "dtype": dtype,
                    "moment": network.moment,
                    "seed": network.seed,
                    **found,
                }
            )
    return records


def _betas(records: Sequence[Record], dtype: str = "float64") -> dict[str, dict[str, float]]:
    """Mean over seeds by method and moment; geometric, for numbers of several decades."""
    found: dict[str, dict[str, list[float]]] = {}
    for r in records:
        if r["dtype"] == dtype:
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


def measure_precision(figure: Figure, study: Study) -> Result:
    """MPN-COV and iSQRT-COV in single and double precision, and how smooth their gradients are."""
    rows = endings(study.results)
    methods = ("mpn-cov", "isqrt-cov")
    questions = {m: [(f"{m}, float32", m)] for m in methods}
    found = compare_by_question(rows, questions, "train_error")
    smoothness = smoothness_records(study, methods, tuple(DTYPES))
    ratios = _ratios(_betas(smoothness), *methods)
    mean = {m: c[0].difference.mean for m, c in found.items()}
    limit = load_published().statements["precision-effect-isqrt"].value
    answers = [
        Answer(
            f"MPN-COV does not converge in float32. Here its final training error in float32 is "
            f"{mean['mpn-cov']:+.2f} points from that in float64.",
            mean["mpn-cov"] > FAILED,
        ),
        Answer(
            f"Precision changes the error of iSQRT-COV by about {limit:g} %. Here it is "
            f"{mean['isqrt-cov']:+.2f} points from that in float64.",
            is_level(found["isqrt-cov"], limit, "either"),
        ),
        Answer(
            f"The gradients of MPN-COV are far less smooth than those of iSQRT-COV. Here its β is "
            f"{_said(ratios)}.",
            together(ratio > FAR for ratio in ratios.values()),
        ),
    ]
    curves = [
        {**row, "protocol": "hybrid" if row["run"].endswith("float32") else "standalone"}
        for row in curve_records(study.results)
    ]
    return conclude(
        figure.entry,
        figure.claim,
        answers,
        beta_rows(smoothness),
        settings_of(study.bench),
        curves=curves,
        smoothness=smoothness,
        comparisons=comparison_records({f"{m} by precision.": c for m, c in found.items()}),
    )


def measure_smooth_gradients(figure: Figure, study: Study) -> Result:
    """The remedies: as smooth as iSQRT-COV, and hardly better than MPN-COV."""
    remedies = [m for m in SVD if m != "mpn-cov"]
    smoothness = smoothness_records(study, method_names("ours", "paper"))
    betas = _betas(smoothness)
    ratios = {m: _ratios(betas, m, "isqrt-cov") for m in remedies if m in betas}
    trained = {m: list(r.values())[-1] for m, r in ratios.items()}
    limit = load_published().statements["remedies-gain"].value
    runs = study.of(protocol="standalone")
    gains = compare_by_question(endings(runs), {"gain": [(m, "mpn-cov") for m in remedies]})["gain"]
    same = [r[UNTRAINED] for r in ratios.values()]
    answers = [
        Answer(
            "All remedies make the gradients about as smooth as those of iSQRT-COV (at most "
            f"{FAR:g} times its β). Here β is {min(same):.2g} to {max(same):.2g} times that of iSQRT-COV in "
            f"the same untrained network, and {min(trained.values()):.2g} to "
            f"{max(trained.values()):.2g} times in the trained ones.",
            all(ratio <= FAR for r in ratios.values() for ratio in r.values()),
        ),
        Answer(
            f"They gain at most {limit:g} % over MPN-COV. Here: {count(gains)}.",
            is_level(gains, limit, "better"),
        ),
    ]
    rows = [row for row in curve_records(runs) if row["method"] != "gap"]
    return conclude(
        figure.entry,
        figure.claim,
        answers,
        beta_rows(smoothness),
        settings_of(study.bench),
        curves=rows,
        smoothness=smoothness,
        comparisons=comparison_records({"Standalone, against MPN-COV.": gains}),
    )
