"""What breaks: runs that were watched step by step, told and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rootpool.report import Picture, Record
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.page import NOWHERE
from studies.engine.questions import Finding, outcome_of
from studies.engine.study import Entry
from studies.engine.training import Place

from .drawings import draw_failure
from .failure import watch_training

__all__ = ["failure"]

# MPN-COV as published: where, and in which precision.
WATCHED = (("patches-norm", "float32"), ("patches-norm", "float64"), ("patches", "float32"))
STEPS = 252


def failure(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """What happened in each training, a picture, and the steps around the worst one."""
    traces = {
        f"{family}, {dtype}": kept(
            "watched",
            {"family": family, "dtype": dtype, "steps": STEPS},
            lambda family=family, dtype=dtype: watch_training(
                family, "mpn-cov", dtype, steps=STEPS
            ),
        )
        for family, dtype in WATCHED
    }
    picture = Picture.of(
        draw_failure,
        traces,
        alt="Gradient norm, its relative error, the largest kernel entry and the loss, step by step",
        caption="MPN-COV as published, watched at every step. The dotted lines are the exact gradient "
        "for the same features and the same layers above: nothing in the network asks for the peaks.",
    )
    findings = {name: _told(records) for name, records in traces.items()}
    return Found({NOWHERE: findings}, [picture], {"method": "mpn-cov-published", "seed": "0"})


def _told(records: Sequence[Record]) -> Finding:
    """In how many steps the error of the gradient is larger than the exact gradient, and the worst."""
    known = [r for r in records if r.get("error") is not None]
    worst = max(known, key=lambda r: r["error"])
    wrong = sum(not r["error"] < 1 for r in known)
    end = (
        f"the loss is {known[-1]['loss']:.3g} in the end, from {known[0]['loss']:.3g}"
        if records[-1]["finite"]
        else f"in step {records[-1]['step']} the numbers stop being finite"
    )
    said = (
        f"so it is in {wrong} of {len(known)} steps; {100 * fmean(r['ties'] for r in known):.0f} % of the "
        f"pairs of eigenvalues are closer than rounding. It is worst in step {worst['step']}, where the "
        f"gradient is {worst['gradient'] / worst['exact']:.3g} times as long as the exact one, and "
        f"{100 * worst['sample_share']:.0f} % of its square comes from one sample; {end}"
    )
    return Finding(outcome_of(wrong > len(known) / 2), said)
