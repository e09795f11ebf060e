"""The numerical tables of the paper, measured: approximation errors and speed."""

from __future__ import annotations

import torch

from rootpool.report.records import Record
from studies.timing import time_methods

from .approximation import approximation_errors
from .plan import OURS, run_method
from .published import Cell, Table, load_published
from .result import Result, Verdict, verdict_of
from .rows import name_beside

__all__ = ["measure_approximation_errors", "measure_speed"]

FAMILY = {"svd-taylor": "taylor", "svd-pade": "pade"}


def _value(statement: str) -> float:
    return load_published().statements[statement].value


# --------------------------------------------------------------------------------------------------
# Approximation errors


def at_or_below(measured: float, cell: Cell) -> bool:
    """Whether a number is at or below a printed one, as far as its digits tell.

    Less than one unit of the last printed digit above it counts: the paper rounds some of its numbers
    and cuts others off.

    >>> at_or_below(817.8, Cell.number("817")), at_or_below(818.0, Cell.number("817"))
    (True, False)
    """
    return cell.value is not None and cell.unit is not None and measured < cell.value + cell.unit


def measure_approximation_errors(table: Table) -> Result:
    """A table of approximation errors, with the error of each approximant in exact arithmetic."""
    records: list[Record] = []
    for row in table.rows:
        degree = int(row.name) if row.name.isdigit() else int(_value("degree"))
        measured = approximation_errors([degree], table.columns, [FAMILY[row.method]])
        for column, cell, found in zip(table.columns, row.cells, measured, strict=True):
            assert isinstance(found["error"], float)
            records.append(
                {
                    "row": row.name,
                    "column": column,
                    "family": found["family"],
                    "degree": degree,
                    "printed": cell.text,
                    "published": cell.value,
                    "measured": found["error"],
                    "measured_float64": found["kernel_error"],
                    "at_or_below": at_or_below(found["error"], cell),
                }
            )
    below = sum(bool(r["at_or_below"]) for r in records)
    families = {str(r["family"]) for r in records}
    return Result(
        table.entry,
        table.claim,
        tuple(records),
        verdict_of(below == len(records) and _pade_beats_taylor(records)),
        f"Measured in exact arithmetic, the error is at or below the printed one in {below} of "
        f"{len(records)} cells, to the last printed digit. " + _sentences(records, families),
        {"arithmetic": "rational", "kernel": "float64"},
    )


def _pade_beats_taylor(records: list[Record]) -> bool:
    """Whether, near a ratio of one, Taylor is off by more than one and Pade only by rounding."""
    near = [r for r in records if r["column"] in ("0.99", "0.999")]
    return all((float(r["measured"] or 0) > 1) == (r["family"] == "taylor") for r in near)


def _sentences(records: list[Record], families: set[str]) -> str:
    parts = []
    if "taylor" in families:
        worst = max(float(r["measured"] or 0) for r in records if r["family"] == "taylor")
        parts.append(f"Taylor is off by up to {worst:.3g} near a ratio of one.")
    if "pade" in families:
        kernel = max(float(r["measured_float64"] or 0) for r in records if r["family"] == "pade")
        parts.append(
            "Pade has no error at any degree, because the approximant of 1/(1 - x) is 1/(1 - x) "
            f"itself; what float64 makes of it is off by rounding alone, at most {kernel:.1e}."
        )
    parts.append(
        "Printed errors below 1e-16 are finer than the spacing of float64 numbers there, and must come "
        "from longer arithmetic."
    )
    return " ".join(parts)


# --------------------------------------------------------------------------------------------------
# Speed


def measure_speed(
    table: Table,
    *,
    batch: int | None = None,
    rounds: int = 3,
    device: str | torch.device = "cpu",
) -> Result:
    """Seconds per batch of the paper, forward and backward, for the methods of the table and ours.

    Args:
        table: the speed table.
        batch: number of maps to time; by default the paper's, to which times of fewer are scaled up.
        rounds: repetitions of each method, of which the fastest counts.
        device: where to run.
    """
    full, side = int(_value("speed-batch")), int(_value("speed-side"))
    used = full if batch is None else batch
    shape = (used, int(_value("speed-channels")), side, side)
    names = [*table.trained, *OURS]
    timed = [
        {**record, "method": name}
        for name, record in zip(
            names,
            time_methods(shape, [run_method(n) for n in names], rounds=rounds, device=device),
            strict=True,
        )
    ]
    columns = {"FP (s)": "forward", "BP (s)": "backward", "Total (s)": "total"}
    rows = {row.method: row for row in table.rows}
    records: list[Record] = []
    for record in timed:
        row = rows.get(str(record["method"]))
        for column, part in columns.items():
            cell = row.cells[table.columns.index(column)] if row else None
            seconds = record[part]
            assert isinstance(seconds, float)
            records.append(
                {
                    "row": row.name if row else name_beside(str(record["method"])),
                    "method": record["method"],
                    "column": column,
                    "printed": cell.text if cell else None,
                    "published": cell.value if cell else None,
                    "measured": seconds * full / used,
                }
            )
    by_method = {str(r["method"]): r for r in timed}
    verdict, reason = _speed_verdict(by_method, table.members("svd"), full / used)
    setting = {k: v for k, v in timed[0].items() if k not in ("method", *columns.values())}
    return Result(table.entry, table.claim, tuple(records), verdict, reason, setting)


def _speed_verdict(timed: dict[str, Record], svd: list[str], scale: float) -> tuple[Verdict, str]:
    def seconds(method: str, part: str) -> float:
        return float(timed[method][part] or 0) * scale

    kernels = [method for method in svd if method != "svd-newton"]  # the claim leaves it out
    by_forward = all(seconds(m, "forward") > seconds(m, "backward") for m in kernels)
    faster_back = all(seconds(m, "backward") < seconds("isqrt-cov", "backward") for m in kernels)
    pade_first = seconds("svd-pade", "backward") < seconds("svd-taylor", "backward")
    gain = seconds("isqrt-cov", "total") / seconds("exact", "total")
    said = (
        f"The forward {'takes' if by_forward else 'does not take'} longer than the backward in every "
        f"SVD method but SVD-Newton; their backward is {'' if faster_back else 'not '}faster than "
        f"that of iSQRT-COV; that of SVD-Pade is {'' if pade_first else 'not '}faster than that of "
        f"SVD-Taylor. Our exact gradient takes {seconds('exact', 'total'):.2f} s, {gain:.1f} times less "
        f"than iSQRT-COV ({seconds('isqrt-cov', 'total'):.2f} s), on {timed['exact']['device']}"
    )
    scaled = "" if scale == 1 else f", scaled up from a batch of {timed['exact']['batch']}"
    return verdict_of(by_forward and faster_back and pade_first), f"{said}{scaled}."
