"""``python -m studies law``: features at several scales, which change nothing but the place of the floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy import stats

from rootpool.report import Block, Cell, Number, Picture, Record, Table, holm
from rootpool.report.records import read_records, write_records
from rootpool.report.statistics import show_p
from studies.engine.command import Found, Options, command_line, list_entries, run_study
from studies.engine.kept import Kept
from studies.engine.network import Network, all_trials
from studies.engine.questions import SURE, Finding, outcome_of, proportion
from studies.engine.study import Entry, Study, load_study
from studies.engine.training import Place, Run, fails, train

from .drawings import draw_law
from .layer import measure_layer

__all__ = ["judged", "law", "load_law", "main", "training_row"]

BELOW, ABOVE = (-6, -4), (0, 2)  # powers of two, on both sides of the threshold
CONTROL = "exact"
PADE = ("svd-pade-released", "float32")
BESIDE = (("mpn-cov-released", "float64"), ("mpn-cov-published", "float32"), PADE)
RECORDS = ("training.csv", "layer.csv")


def load_law() -> Study:
    """The study."""
    return load_study(Path(__file__).with_name("law.yaml"))


def main(*, seeds: int = 5, record: str | None = None, **where: Any) -> int:
    """Train what has no result yet, and write the page; or list the entries.

    Args:
        seeds: repetitions of every training.
        record: a folder with the numbers of an earlier study; its page is written again, and nothing is run.
        where: ``show`` to list the entries and stop, and the fields of :class:`Options`.
    """
    study = load_law()
    if where.get("show"):
        return list_entries(study)
    options = Options.given(command_line(study.command, record=record), where)
    folder = options.output / "record" if record is None else Path(record)
    if record is None:
        network = Network("patches-norm", seeds=seeds)
        trials = all_trials(study, network, list(study.runs))
        runs = train(trials, options.runs, options.workers)
        write_records([training_row(run) for run in runs.values()], folder / RECORDS[0])
        write_records(measure_layer(), folder / RECORDS[1])
    rows = read_records(folder / RECORDS[0])
    about = "patches-norm: three convolutions with batch norm, 64 channels, 49 positions"
    place = Place("law", "law", judged(rows, study.limit), folder=folder, about=about)
    alone = Place("layer", "layer", [], folder=folder, about="the layer alone, without training")
    run_study(study, (), [], options, [place, alone])
    return 0


def training_row(run: Run) -> Record:
    """The end of a run, with the mean largest eigenvalue of its scaled features, or None."""
    spectrum = [4.0 ** run.tags["k"] * row["lambda_1"] for row in run.folder.spectrum]
    return {**run.ending, "lambda_1": fmean(spectrum) if spectrum else None}


def judged(rows: Sequence[Record], limit: float) -> list[Record]:
    """The rows with ``failed``: not finite, or far above the control with the same seed and record."""
    good = {_twin(r): r["train_error"] for r in rows if r["method"] == CONTROL and r["k"] == 0}
    rows = [{"train_error": None, **row} for row in rows]
    return [{**row, "failed": fails({**row, "seed": _twin(row)}, good, limit)} for row in rows]


def _twin(row: Record) -> tuple[Any, Any]:
    """What a run shares with its control: records of several machines may be joined."""
    return row.get("record"), row["seed"]


# --------------------------------------------------------------------------------------------------
# Training


def _arms(rows: Sequence[Record]) -> dict[str, list[Record]]:
    """The rows of each method, form and precision."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        if row["method"] != CONTROL:
            name = f"{row['method']}, {row['form']}, {row['precision']}"
            found.setdefault(name, []).append(row)
    return found


def _count(rows: Sequence[Record], scales: Sequence[int]) -> tuple[int, int]:
    """How many runs fail at some scales, and how many do not."""
    own = [row["failed"] for row in rows if row["k"] in scales]
    return sum(own), len(own) - sum(own)


def law(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """Failures and the layer alone: a picture of both, and the tables."""
    trained, alone = places[0].rows, read_records(places[0].folder / RECORDS[1])
    sizes = _sizes(trained, sorted({row["k"] for row in trained}))
    counted = {
        name: [(sizes[k], *_count(own, [k])) for k in sizes if sum(_count(own, [k]))]
        for name, own in _arms(trained).items()
    }
    picture = Picture.of(
        draw_law,
        [r for r in alone if r["method"] == "mpn-cov-published" and r["precision"] == "float64"],
        counted,
        alt="The share of the null space above the floor, and of runs that fail, by the largest eigenvalue",
        caption=entry.caption,
    )
    failed, tables = _failures(trained, sizes)
    found, table = _layer(alone)
    return Found({"law": failed, "layer": found}, [picture, *tables, table])


def _failures(
    rows: Sequence[Record], sizes: Mapping[int, float]
) -> tuple[dict[str, Finding], list[Block]]:
    """Failures by scale with their intervals, and the test of each arm."""
    arms, scales = _arms(rows), list(sizes)
    cells: list[list[Cell]] = [
        [name, *(_shown(*_count(own, [k])) for k in scales)] for name, own in arms.items()
    ]
    headers = ["failed runs", *(f"λ₁ ≈ {sizes[k]:.2g}" for k in scales)]
    caption = (
        "Runs that fail, by the largest eigenvalue of the scaled features, with 95 % intervals (Clopper and "
        "Pearson) of the share that fails; –: not run. Every run is in training.csv beside this page."
    )
    tested, sides = _tests(arms)
    return {**tested, **_controls(rows)}, [Table(headers, cells, caption), sides]


def _shown(failed: int, rest: int) -> str | None:
    if not failed + rest:
        return None
    low, high = proportion(failed, failed + rest)
    return f"{failed} of {failed + rest} ({low:.2f} to {high:.2f})"


def _sizes(rows: Sequence[Record], scales: Sequence[int]) -> dict[int, float]:
    """The largest eigenvalue by scale, from the control, whose training does not depend on it."""
    at_zero = fmean(r["lambda_1"] for r in rows if r["method"] == CONTROL and r["k"] == 0)
    return {k: at_zero * 4.0**k for k in scales}


def _tests(arms: Mapping[str, Sequence[Record]]) -> tuple[dict[str, Finding], Table]:
    """Fisher's exact test of each arm; Holm's correction is over the arms of a precision."""
    found, cells = {}, []
    for precision in ("float64", "float32"):
        own = {name: rows for name, rows in arms.items() if precision in name}
        counts = {name: [_count(r, ABOVE), _count(r, BELOW)] for name, r in own.items()}
        more, less = (
            holm([float(stats.fisher_exact(t, side).pvalue) for t in counts.values()])
            for side in ("greater", "less")
        )
        for (name, ((a, b), (c, d))), p, q in zip(counts.items(), more, less, strict=True):
            above, below = f"{a} of {a + b}", f"{c} of {c + d}"
            said = f"{above} above and {below} below (p {show_p(p)})"
            holds = True if p < SURE else False if q < SURE else None
            found[name] = Finding(outcome_of(holds), said)
            cells.append([name, below, above, show_p(p).removeprefix("= ")])
            if precision == "float32":
                every = all(_count(own[name], [k])[0] for k in (*BELOW, *ABOVE))
                found[f"{name}, everywhere"] = Finding(outcome_of(every or None), said)
        rows = [row for each in own.values() for row in each]
        (a, b), (c, d) = _count(rows, ABOVE), _count(rows, BELOW)
        cells += [[f"all, {precision}", f"{c} of {c + d}", f"{a} of {a + b}", None]] if own else []
    headers = ["failed runs", "at the two smallest scales", "at the two largest", "p"]
    caption = "Fisher's exact test, one-sided, with Holm's correction over the arms of a precision."
    return found, Table(headers, cells, caption)


def _controls(rows: Sequence[Record]) -> dict[str, Finding]:
    control = [row for row in rows if row["method"] == CONTROL]
    by_seed = {
        seed: {r.get("train_error") for r in control if _twin(r) == seed}
        for seed in {_twin(r) for r in control if r["k"] != 0}
    }
    same = sum(len(errors) == 1 for errors in by_seed.values())
    said = f"training errors are equal to the last digit at three scales, {same} of {len(by_seed)} seeds"
    return {"control": Finding(outcome_of(same == len(by_seed)), said)}


# --------------------------------------------------------------------------------------------------
# The layer alone


def _layer(rows: Sequence[Record]) -> tuple[dict[str, Finding], Table]:
    """What is above the floor, gaps and gradients: measured and predicted."""
    published = [r for r in rows if r["method"] == "mpn-cov-published"]
    double = [r for r in published if r["precision"] == "float64"]
    worst = max(abs(r["above"] - r["predicted_above"]) for r in published)
    findings = {
        "share": Finding(
            outcome_of(worst < 0.2), f"the predicted share is off by {worst:.2f} at most"
        ),
        "gap": _within(double, "gap"),
        "error": _within(double, "error"),
        "threshold": _threshold(double),
        "pade": _pade(rows),
        "zeroed": _zeroed(published),
    }
    return findings, _table(rows, double)


def _within(rows: Sequence[Record], name: str) -> Finding:
    """By which factor measured and predicted numbers differ, where there are both."""
    pairs = [(r.get(name), r.get(f"predicted_{name}")) for r in rows]
    factors = [max(a / b, b / a) for a, b in pairs if a and b]
    middle, worst = sorted(factors)[len(factors) // 2], max(factors)
    said = f"within a factor of {middle:.1f} (median) and {worst:.0f} (worst of {len(factors)})"
    return Finding(outcome_of(middle < 10), said)


def _threshold(rows: Sequence[Record]) -> Finding:
    """Gradient errors on both sides, of the full-size layer in float64."""
    large = [r for r in rows if r["features"] != "small"]
    low = [r["error"] for r in large if r["k"] in BELOW]
    high = [r["error"] for r in large if r["k"] in ABOVE]
    said = f"{min(low):.0e} to {max(low):.0e} below, {min(high):.0e} to {max(high):.0e} above"
    return Finding(outcome_of(min(high) > max(low)), said)


def _pade(rows: Sequence[Record]) -> Finding:
    own = [r["error"] for r in rows if (r["method"], r["precision"]) == PADE]
    said = f"the error is {min(own):.0f} to {max(own):.0e} times the gradient"
    return Finding(outcome_of(min(own) > 1), said)


def _zeroed(rows: Sequence[Record]) -> Finding:
    """Eigenvalues that are not zero and end at the floor, of the full-size layer in float32."""
    own = [r for r in rows if r["precision"] == "float32" and r["features"] != "small"]
    shares = [max(r["zeroed"] for r in own if r["k"] == k) for k in (*BELOW, *ABOVE)]
    usual = min(shares) > 0.01 or (None if max(shares) > 0.01 else False)
    said = ", ".join(f"{share:.1%}" for share in shares)
    return Finding(outcome_of(usual), f"at most {said} of them, from the smallest scale up")


def _table(rows: Sequence[Record], double: Sequence[Record]) -> Table:
    keys = ("features", "k", "method", "precision")
    errors = {tuple(r[key] for key in keys): Number(r["error"], form=".1e") for r in rows}
    cells: list[list[Cell]] = []
    for r in double:
        kind = "small network" if r["features"] == "small" else "photographs"
        size = f"{kind}, {r['channels']} × {r['positions']}"
        gaps = [r.get(key) for key in ("gap", "predicted_gap")]
        cells.append(
            [
                size if r["k"] == min(q["k"] for q in double) else "",
                Number(r["lambda_1"], form=".2g"),
                f"{r['above']:.2f} / {r['predicted_above']:.2f}",
                " / ".join("–" if gap is None else f"{gap:.1e}" for gap in gaps),
                f"{r['error']:.1e} / {r['predicted_error']:.1e}",
                *(errors.get((r["features"], r["k"], *form)) for form in BESIDE),
            ]
        )
    headers = ["features, channels × positions", "λ₁", "share above eps", "smallest gap"]
    headers += ["gradient error, MPN-COV published", "MPN-COV released"]
    headers += ["MPN-COV published, float32", "SVD-Pade released, float32"]
    caption = (
        "The layer alone in float64 (the last two columns: float32), measured / predicted. Errors are "
        "relative to the exact gradient; the released form has another centring, thus another function."
    )
    return Table(headers, cells, caption)
