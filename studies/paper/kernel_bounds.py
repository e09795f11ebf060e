"""The two tables of bounds: how large a kernel entry can become, and how often that happens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from rootpool.nn import KernelRoot, Method, SVDNewton, covariance
from rootpool.nn.published import PublishedRoot
from rootpool.report import Block, Number, Record, Table
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.network import in_our_form, run_method
from studies.engine.page import NOWHERE
from studies.engine.questions import Finding, outcome_of, shared_outcome
from studies.engine.study import Entry
from studies.engine.training import Place

from .bounds import bound_by_search, newton_bound_by_search, of_pairs
from .networks import features, moments
from .published import PrintedTable, load_published
from .tables import side_by_side

__all__ = ["bound_occurrences", "largest_entry", "share_at_bound", "upper_bounds"]

EPS = torch.finfo(torch.float64).eps
FLOAT32_MAX = torch.finfo(torch.float32).max
COLUMN = "Maximal Value"
REMEDIES = ("svd-pade", "svd-taylor", "svd-trunc", "svd-topn")


def largest_entry(name: str) -> float:
    """The largest kernel entry that a search finds for a method, as published or fused, in float64."""
    method = run_method(name)
    if isinstance(method, SVDNewton):
        return newton_bound_by_search(method.iterations)[0]
    if isinstance(method, PublishedRoot):
        return bound_by_search(method.pair_kernel)[0]
    assert isinstance(method, KernelRoot)
    return bound_by_search(of_pairs(method.rule))[0]


def _sizes(table: PrintedTable, kept: Kept) -> dict[str, float]:
    """The largest entry of each method of a table, as published and as we implement it."""
    names = list(dict.fromkeys(form for m in table.methods for form in (m, in_our_form(m))))
    made = kept("bounds", names, lambda: [{"method": n, "bound": largest_entry(n)} for n in names])
    return {str(record["method"]): float(record["bound"]) for record in made}


def _table(
    table: PrintedTable, sizes: Mapping[str, float], more: Mapping[tuple[str, str], Number]
) -> Table:
    names = {row.method: row.name for row in table.rows}
    names |= {in_our_form(m): f"{n}, fused" for m, n in names.items() if in_our_form(m) != m}
    here = {(names[m], COLUMN): Number(value, form=".2e") for m, value in sizes.items()}
    return side_by_side(table, {**here, **more})


def upper_bounds(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The bounds as printed, and what a search finds for the kernels, as published and as ours."""
    table = load_published().tables["upper-bounds"]
    sizes = _sizes(table, kept)
    findings = {
        row.method: _as_printed(row.cells[COLUMN].value, row.cells[COLUMN].unit, sizes[row.method])
        for row in table.rows
    }
    if not sizes["svd-pade"] < FLOAT32_MAX:
        findings["svd-pade"] = Finding("opposite", findings["svd-pade"].said)
    newton = sizes["svd-newton"]
    fused = max(value for method, value in sizes.items() if method.endswith("fused"))
    findings["unbounded"] = Finding(
        outcome_of(math.isinf(sizes["mpn-cov"]) and math.isinf(newton)),
        f"SVD has none; SVD-Newton has {newton:.3g} over the root of the trace, at zero eigenvalues. In our "
        f"form no kernel exceeds {fused:.3g}, next to a tie",
    )
    return Found({NOWHERE: findings}, [_table(table, sizes, {})], {"dtype": "float64"})


def _as_printed(value: float | None, unit: float | None, found: float) -> Finding:
    said = "there is no bound" if math.isinf(found) else f"it is {found:.3g}"
    if value is None or unit is None:
        return Finding(outcome_of(None), said)
    return Finding(outcome_of(abs(found - value) < unit), said)


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
    kept = torch.arange(lam.shape[-1]) < method.keep(lam.shape[-1])
    lam = torch.where(kept, lam, 0).clamp_min(EPS)
    row, column = torch.triu_indices(lam.shape[-1], lam.shape[-1], 1)
    K = method.pair_kernel(lam[:, row], lam[:, column]).abs()
    return float((~K.isfinite() | (bound / 2 <= K)).double().mean())


def bound_occurrences(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The bounds again, and how often a batch reaches them while MPN-COV is trained."""
    table = load_published().tables["upper-bounds-appendix"]
    sizes = _sizes(table, kept)
    finite = [m for m in REMEDIES if math.isfinite(sizes[m])]
    smaller = Finding(outcome_of(len(finite) == len(REMEDIES)), f"so have {', '.join(finite)}")

    def one(place: Place) -> tuple[dict[str, Finding], list[Block]]:
        keys = [run.trial.key for run in place.runs]
        shares = kept("bound-occurrences", keys, lambda: _shares(place, sizes))
        rarer = [m for m in REMEDIES if _rarer(shares, m)]
        names = {row.method: row.name for row in table.rows}
        columns = {
            (names[r["method"]], f"pairs at the bound, %, {r['moment']}"): Number(
                100 * r["share"], form=".3g"
            )
            for r in shares
        }
        said = f"so it is with {', '.join(rarer) or 'none'}"
        findings = {
            "smaller": smaller,
            "rarer": Finding(shared_outcome(len(rarer), len(REMEDIES)), said),
        }
        return findings, [_table(table, sizes, columns)]

    return Found.by_place(places, one)


def _rarer(shares: Sequence[Record], method: str) -> bool:
    """Whether a method is at its bound less often than SVD, at every moment."""
    own, base = (
        {r["moment"]: r["share"] for r in shares if r["method"] == m} for m in (method, "mpn-cov")
    )
    return all(own[moment] < base[moment] for moment in base)


def _shares(place: Place, sizes: Mapping[str, float]) -> list[Record]:
    """Shares by method and moment, mean over seeds; of eigenvalues as the method sees them."""
    assert place.network is not None
    found: dict[tuple[str, str], list[float]] = {}
    for moment in moments(place, ["mpn-cov"]):
        lam = torch.linalg.svdvals(covariance(features(moment).double()))
        for method in (*REMEDIES, "mpn-cov"):
            share = share_at_bound(place.network.method(method), lam, sizes[method])
            found.setdefault((method, moment.name), []).append(share)
    return [{"method": m, "moment": k, "share": fmean(s)} for (m, k), s in found.items()]
