"""The two tables of bounds: how large a kernel entry can become, and how often that happens."""

from __future__ import annotations

import math
from statistics import fmean

import torch
from torch import Tensor

from rootpool.nn import KernelRoot, Method, SVDNewton
from rootpool.nn.published import PublishedRoot
from rootpool.report.records import Record
from rootpool.report.spectrum import covariance_eigenvalues

from .bounds import bound_by_search, newton_bound_by_search, of_pairs
from .judge import Answer, conclude
from .networks import features, networks
from .plan import Measured, in_our_form, run_method
from .published import Table, load_published
from .result import Result, verdict_of
from .rows import settings_of

__all__ = ["measure_bound_occurrences", "measure_upper_bounds"]

EPS = torch.finfo(torch.float64).eps
FLOAT32_MAX = torch.finfo(torch.float32).max
COLUMN = "Maximal Value"


def largest_entry(name: str) -> float:
    """The largest kernel entry that a search finds for a method, as published or fused, in float64."""
    method = run_method(name)
    if isinstance(method, SVDNewton):
        return newton_bound_by_search(method.iterations)[0]
    if isinstance(method, PublishedRoot):
        return bound_by_search(method.pair_kernel)[0]
    assert isinstance(method, KernelRoot)
    return bound_by_search(of_pairs(method.rule))[0]


def _size_records(table: Table) -> list[Record]:
    """Each row as printed and as found by search, and our form of it below."""
    records: list[Record] = []
    for row in table.rows:
        cell = row.cells[table.columns.index(COLUMN)]
        name: Record = {"row": row.name, "column": COLUMN, "method": row.method}
        printed: Record = {"printed": cell.text, "published": cell.value}
        records.append({**name, **printed, "measured": largest_entry(row.method)})
        ours = in_our_form(row.method)
        if ours != row.method:
            fused = f"{row.name}, fused"
            records.append({**name, "row": fused, "method": ours, "measured": largest_entry(ours)})
    return records


def measure_upper_bounds(table: Table) -> Result:
    """A table of bounds: as printed, and what a search finds for the kernels as published and in our form."""
    records = _size_records(table)
    found = {str(r["method"]): float(r["measured"] or 0) for r in records}
    as_printed = [
        row.name
        for row in table.rows
        if (cell := row.cells[table.columns.index(COLUMN)]).unit is not None
        and abs(found[row.method] - (cell.value or 0)) < cell.unit
    ]
    pade = found["svd-pade"]
    bounded = [value for value in found.values() if math.isfinite(value)]
    at_one = load_published().statements["pade-at-one"].value
    holds = math.isfinite(pade) and pade == max(bounded) and pade < FLOAT32_MAX
    return Result(
        table.entry,
        table.claim,
        tuple(records),
        verdict_of(holds),
        f"The bounds of {' and '.join(as_printed)} are as printed. SVD-Pade as published has "
        + ("no bound: " if math.isinf(pade) else f"the bound {pade:.3g}: ")
        + "its coefficients are rounding errors, and at a ratio of one the quotient is what they make of it. "
        f"The printed value is such a number too, and {at_one:.3g} / eps, from which the text derives it, is "
        f"{at_one / EPS:.3g}. SVD-TopN bounds only pairs across the cut; two kept eigenvalues can be as "
        "close as those of SVD. SVD-Newton has a bound after all: "
        f"{found['svd-newton']:.3g} over the root of the trace, at zero eigenvalues. In our form no kernel "
        f"exceeds {max(v for m, v in found.items() if m.endswith('fused')):.3g}, next to a tie.",
        {"dtype": "float64"},
    )


# --------------------------------------------------------------------------------------------------
# How often


def share_at_bound(method: Method, lam: Tensor, bound: float) -> float:
    """The share of pairs of eigenvalues whose kernel entry is at its bound, or not finite.

    Args:
        method: a root with a kernel, as published.
        lam: spectra ``(B, d)`` in descending order.
        bound: the largest entry of the kernel; at least half of it counts as reached.
    """
    assert isinstance(method, PublishedRoot)
    keep = lam.shape[-1] if method.keep is None else method.keep
    lam = torch.where(torch.arange(lam.shape[-1]) < keep, lam, 0).clamp_min(EPS)
    row, column = torch.triu_indices(lam.shape[-1], lam.shape[-1], 1)
    K = method.pair_kernel(lam[:, row], lam[:, column]).abs()
    return float((~K.isfinite() | (bound / 2 <= K)).double().mean())


def measure_bound_occurrences(table: Table, study: Measured) -> Result:
    """The bounds again, and how often a batch reaches them while MPN-COV is trained."""
    records = _size_records(table)
    sizes = {str(r["method"]): float(r["measured"] or 0) for r in records}
    kernels = [m for m in table.trained if m != "svd-newton"]  # which has none
    shares: dict[tuple[str, str], list[float]] = {}
    for network in networks(study, ["mpn-cov"]):
        lam = covariance_eigenvalues(features(network))
        for method in kernels:
            share = share_at_bound(study.plan.method(method), lam, sizes[method])
            shares.setdefault((method, network.moment), []).append(share)
    names = {row.method: row.name for row in table.rows}
    records += [
        {
            "row": names[method],
            "column": f"pairs at the bound, %, {moment}",
            "measured": 100 * fmean(s),
        }
        for (method, moment), s in shares.items()
    ]
    remedies = [m for m in table.members("remedies") if m in kernels]
    smaller = [m for m in remedies if math.isfinite(sizes[m])]
    rarer = [
        m
        for m in remedies
        if all(fmean(s) < fmean(shares["mpn-cov", k]) for (n, k), s in shares.items() if n == m)
    ]
    answers = [
        Answer(
            "All remedies reduce the size of the largest entry. Here "
            f"{_listed(smaller, names)} have a finite one, where that of SVD is infinite.",
            verdict_of(len(smaller) == len(remedies)),
        ),
        Answer(
            "All remedies reduce how often it occurs. Here a pair is at its bound less often than the pairs "
            f"of SVD that are equal with {_listed(rarer, names)} of {len(remedies)} remedies: with fewer "
            "positions than channels all eigenvalues of the null space are equal, whatever the kernel is.",
            verdict_of(len(rarer) == len(remedies)),
        ),
    ]
    return conclude(table, answers, records, settings_of(study.plan))


def _listed(methods: list[str], names: dict[str, str]) -> str:
    return " and ".join(names[m] for m in methods) or "none"
