"""What breaks: the blocks on trainings that were watched step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from rootpool.report import Block, Cell, Heading, Number, Paragraph, Picture, Table
from rootpool.report.records import Record

from .drawings import draw_failure

__all__ = ["failure_blocks", "wrong_steps"]


def failure_blocks(traces: Mapping[str, Sequence[Record]]) -> list[Block]:
    """The heading, what happened in each training, a picture, and the steps around the worst one."""
    if not traces:
        return []
    return [
        Heading("What breaks"),
        Paragraph(
            "The gradient of an eigenvector divides by the gap to every other eigenvalue. As published, "
            "MPN-COV multiplies two terms of each pair by 1 / gap before it subtracts them. Exactly, the "
            "difference is as small as the gap, and the quotient harmless. In floating point an eigenvalue "
            "is known to eps times the largest one; for a pair that is closer than that the gap is noise, "
            "1 / gap is a random huge number, and it multiplies a rounding error. With fewer positions than "
            "channels such pairs are in every sample: all eigenvalues of the null space are equal."
        ),
        *(Paragraph(_told(name, records)) for name, records in traces.items()),
        Picture.of(
            draw_failure,
            traces,
            alt="Gradient norm, its relative error, the largest kernel entry and the loss, step by step",
            caption="MPN-COV as published, watched at every step. The dotted lines are the exact gradient "
            "for the same features and the same layers above: nothing in the network asks for the peaks.",
        ),
        *(_last_steps(name, records) for name, records in traces.items()),
    ]


def _told(name: str, records: Sequence[Record]) -> str:
    """What happened in one training, in three sentences."""
    known = [r for r in records if r.get("error") is not None]
    worst = max(known, key=lambda r: _number(r, "error"))
    wrong, _ = wrong_steps(records)
    ties = 100 * fmean(_number(r, "ties") for r in known)
    peak = _number(worst, "gradient") / _number(worst, "exact")
    share = 100 * _number(worst, "sample_share")
    end = (
        f"The loss is {_number(known[-1], 'loss'):.3g} in the end, from {_number(known[0], 'loss'):.3g}."
        if records[-1]["finite"]
        else f"In step {records[-1]['step']} the numbers stop being finite."
    )
    return (
        f"{name}: {ties:.0f} % of the pairs of eigenvalues are closer than rounding. In {wrong} of "
        f"{len(known)} steps the error of the gradient is larger than the exact gradient. It is worst in "
        f"step {worst['step']}, where the gradient is {peak:.3g} times as long as the exact one, and "
        f"{share:.0f} % of its square comes from one sample, number {worst['sample']} of its batch. {end}"
    )


def wrong_steps(records: Sequence[Record]) -> tuple[int, int]:
    """In how many steps the error of the gradient is larger than the exact gradient, and of how many."""
    known = [r for r in records if r.get("error") is not None]
    return sum(not _number(r, "error") < 1 for r in known), len(known)


def _number(record: Record, key: str) -> float:
    return float(record[key] or 0)


def _last_steps(name: str, records: Sequence[Record], around: int = 3) -> Table:
    """The steps around the worst one, as a table."""
    known = [r for r in records if r.get("error") is not None]
    worst = max(range(len(known)), key=lambda k: _number(known[k], "error"))
    chosen = known[max(0, worst - around) : worst + around + 1]
    headers = [
        "step",
        "loss",
        "gradient",
        "exact gradient",
        "largest kernel entry",
        "ties, %",
        "sample",
    ]
    rows: list[list[Cell]] = [
        [
            int(_number(r, "step")),
            Number(_number(r, "loss")),
            Number(_number(r, "gradient"), form=".2e"),
            Number(_number(r, "exact"), form=".2e"),
            Number(_number(r, "kernel"), form=".1e"),
            Number(100 * _number(r, "ties"), form=".1f"),
            f"{r['sample']}, {100 * _number(r, 'sample_share'):.0f} % of the gradient",
        ]
        for r in chosen
    ]
    return Table(
        headers,
        rows,
        f"{name}: the steps around the worst one, and the sample that dominates each.",
    )
