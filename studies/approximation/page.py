"""The page on the question of the title: what breaks, which half matters, how approximate is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

import torch
from torch import Tensor

import rootpool
from rootpool.machine import machine
from rootpool.nn import METHODS
from rootpool.report import (
    Block,
    Cell,
    Code,
    Facts,
    Heading,
    Link,
    Note,
    Number,
    Page,
    Paragraph,
    Picture,
    Table,
    comparison_table,
)
from rootpool.report.records import Record
from rootpool.report.statistics import describe
from studies.approximation.filters import (
    ACCURATE,
    CONVERGED,
    EXACT,
    EXPONENTS,
    ITERATIONS,
    NEWTON,
    VARIANTS,
    spectral_response,
    usual_filters,
)
from studies.paper.judge import what_seeds_tell

from .answers import LEARNED, answers, in_words, shown
from .drawings import draw_filters, draw_sweep
from .failure_page import failure_blocks
from .setting import ROOT, Setting, Tone, cell_run, half_effect, iteration_runs, tone

__all__ = ["approximation_page"]

SCHULZ = "isqrt-cov"
SPECTRUM = torch.logspace(-6, 0, 40, dtype=torch.float64)


def approximation_page(
    settings: Sequence[Setting],
    traces: Mapping[str, Sequence[Record]],
    tested: Setting | None = None,
    command: str = "python -m studies approximation",
) -> Page:
    """The page.

    Args:
        settings: the networks; choices are made on these.
        traces: trainings that were watched step by step, by name.
        tested: the variants of the last setting on images that no choice has seen.
        command: that makes the page.
    """
    page = Page(
        "Why would an approximate root be better?",
        lead="The paper asks why an approximate square root outperforms accurate SVD. Here the "
        "approximation is taken apart: the gradient from the value, and the value as a filter of the "
        "spectrum, which can also be learned.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    page.add(
        *in_words(settings, traces),
        *answers(settings),
        Code(command, "sh"),
        *failure_blocks(traces),
        *_two_by_two(settings),
        *_sweep(settings),
        *_learned(settings, tested),
        *_settings(settings),
    )
    return page


# --------------------------------------------------------------------------------------------------
# Two by two


def _two_by_two(settings: Sequence[Setting]) -> list[Block]:
    blocks: list[Block] = [
        Heading("Which half carries the effect"),
        Paragraph(
            "iSQRT-COV replaces the square root twice: by the value of five Newton-Schulz steps, and by the "
            "gradient of these steps. SVD-Newton replaces the gradient alone. What was missing is "
            "newton-exact, which replaces the value alone and has the gradient of the exact root at the same "
            "covariance. All four have the same seeds, data and schedule."
        ),
    ]
    for setting in settings:
        blocks.append(_cells(setting))
        for half, what in (("forward", "value"), ("backward", "gradient")):
            effect = half_effect(setting, half)
            if effect is not None:
                text = f"{setting.name}: with the {what} of Newton-Schulz, {describe(effect)}."
                blocks.append(Note(text, tone=tone(effect)))
    return blocks


def _cells(setting: Setting) -> Table:
    def cell(forward: str, backward: str) -> Cell:
        values = list(setting.errors(cell_run(forward, backward)).values())
        if not values:
            return None
        return Number(fmean(values), stdev(values) if len(values) > 1 else None)

    rows: list[list[Cell]] = [
        [f"value: {forward}", cell(forward, EXACT), cell(forward, NEWTON)]
        for forward in (ACCURATE, NEWTON)
    ]
    return Table(
        [setting.name, "gradient: exact", "gradient: Newton-Schulz"],
        rows,
        f"Error in %, mean and standard deviation over {len(setting.errors(ROOT))} seeds; {setting.about}",
    )


# --------------------------------------------------------------------------------------------------
# The sweep


def _points(setting: Setting, places: Mapping[str, float]) -> list[dict[str, float | None]]:
    """Differences to the exact root at the places of some runs; zero at its own."""
    found: dict[str, dict[str, float | None]] = {
        c.run: {"mean": c.difference.mean, "low": c.difference.low, "high": c.difference.high}
        for c in setting.against(places)
    }
    found[ROOT] = {"mean": 0.0, "low": None, "high": None}
    return [{"place": places[run], **found[run]} for run in places if run in found]


def _sweep(settings: Sequence[Setting]) -> list[Block]:
    by_iterations = {run: float(k) for k, (_, run) in enumerate(iteration_runs())}
    ticks = {
        float(k): "converged" if n == CONVERGED else str(n)
        for k, (n, _) in enumerate(iteration_runs())
    }
    by_exponent = {v.label: float(v.tags["exponent"]) for v in VARIANTS if "exponent" in v.tags}
    by_exponent = dict(sorted(by_exponent.items(), key=lambda item: item[1]))
    return [
        Heading("How approximate is best"),
        Paragraph(
            "Newton-Schulz after k steps is a polynomial of the covariance, so it acts on each eigenvalue "
            "alone: it is a filter. It follows the square root for large eigenvalues; those below about "
            "(4/9)^k of the trace it has not reached yet, and they come out smaller than their roots, in "
            "proportion to the eigenvalue itself. Few steps therefore damp the small eigenvalues, which a "
            "power above one half does too, and a power below one half lifts them."
        ),
        _filters(settings),
        Picture.of(
            draw_sweep,
            {s.name: _points(s, by_iterations) for s in settings},
            ticks,
            "iterations of Newton-Schulz",
            alt="Error against the exact root by the number of iterations, one line per network",
            caption="The number of iterations. ‘Converged’ is the exact root with its exact gradient.",
        ),
        Picture.of(
            draw_sweep,
            {s.name: _points(s, by_exponent) for s in settings},
            {p: f"{p:g}" for p in by_exponent.values()},
            "exponent",
            alt="Error against the exact root by the exponent, one line per network",
            caption="The exponent, with the norm of the result kept at that of the square root.",
        ),
        *(_ranking(setting) for setting in settings),
    ]


def _filters(settings: Sequence[Setting]) -> Picture:
    usual = spectral_response(usual_filters(), SPECTRUM)
    powers = {f"exponent {p:g}" for p in EXPONENTS}
    newton = [r for r in usual if r["run"] not in {*powers, "square root"}]
    learned = {
        f"{run}, {setting.name}": _filter(run, setting.learned[run])
        for setting in settings
        for run in LEARNED
        if setting.learned.get(run)
    }
    others = [
        r for r in usual if r["run"] in powers and r["run"] in ("exponent 0.3", "exponent 0.7")
    ]
    return Picture.of(
        draw_filters,
        newton,
        [*others, *spectral_response(learned, SPECTRUM)],
        alt="Filters over the eigenvalue in units of the trace, relative to the square root",
        caption="Filters relative to the square root, on a spectrum that falls evenly over six decades "
        f"({min(ITERATIONS)} to {max(ITERATIONS)} iterations, light to dark). What was learned is the mean "
        "over the seeds of its parameters.",
    )


def _filter(run: str, found: Sequence[Mapping[str, float]]) -> Callable[[Tensor], Tensor]:
    names = list(found[0])
    logs = [fmean(math.log(max(values[name], 1e-300)) for values in found) for name in names]
    module = METHODS[run]().build().double()
    module.logs.data = torch.tensor(logs, dtype=torch.float64)
    return module


def _ranking(setting: Setting) -> Table:
    # Not a set, whose order would decide between equals, and change.
    order = sorted(dict.fromkeys(str(row["run"]) for row in setting.rows), key=setting.offset)
    against = {c.run: c.difference for c in setting.against(order)}
    rows: list[list[Cell]] = []
    for run in order:
        values = list(setting.errors(run).values())
        spread = stdev(values) if len(values) > 1 else None
        rows.append([run, Number(fmean(values), spread), shown(against.get(run)), len(values)])
    return Table(
        [setting.name, "error, %", "against exact, points", "seeds"],
        rows,
        f"Best first; {setting.about} Differences are over the seeds that both have, with their 95 % "
        "intervals, not corrected for the number of comparisons.",
    )


# --------------------------------------------------------------------------------------------------
# Learned filters


_TUNED = (
    " On the birds it is the best of four on the held-out images (one seed), the slowest: a faster one takes "
    "the exponent far above one half, for the sake of the training loss, and is several points worse."
)


def _learned(settings: Sequence[Setting], tested: Setting | None) -> list[Block]:
    blocks: list[Block] = [
        Heading("A filter that is learned"),
        Paragraph(
            "If damping is what helps, the network can find how much: learned-power trains the exponent, "
            "learned-mixture the weights of eleven saturating filters, both from the square root on, with "
            "their exact gradients and the norm of the square root. In the networks their rate is that of "
            "the pooling, and nothing was tuned for them." + (_TUNED if tested is not None else "")
        ),
    ]
    for setting in settings:
        found = [*setting.against(LEARNED, ROOT), *setting.against(LEARNED, SCHULZ)]
        if not found:
            continue
        for comparison in setting.against(LEARNED, ROOT):
            text = f"{setting.name}: {comparison.run} is {describe(comparison)} against the exact root."
            blocks.append(Note(text, tone=tone(comparison)))
        exponents = [values["exponent"] for values in setting.learned.get("learned-power", ())]
        caption = f"{setting.name}; {setting.about}"
        if exponents:
            spread = f" ± {stdev(exponents):.2f}" if len(exponents) > 1 else ""
            caption += f" The exponent becomes {fmean(exponents):.2f}{spread}."
        blocks.append(comparison_table(found, caption=caption))
    if tested is not None:
        blocks += _on_test(settings[-1], tested)
    return blocks


def _on_test(chosen_on: Setting, tested: Setting) -> list[Block]:
    """The variant that the held-out images choose, on images that no choice has seen."""
    runs = [v.label for v in VARIANTS if chosen_on.errors(v.label) and tested.errors(v.label)]
    best = min(runs, key=chosen_on.offset)
    found = tested.against([best], ROOT) if best != ROOT else []
    said = describe(found[0]) + " against the exact root" if found else "the exact root itself"
    mark: Tone = tone(found[0]) if found else "unclear"
    return [
        Note(f"Chosen on {chosen_on.name}: {best}. On {tested.name}: {said}.", tone=mark),
        _ranking(tested),
    ]


def _settings(settings: Sequence[Setting]) -> list[Block]:
    return [
        Heading("How this was made"),
        Paragraph(
            (
                "Every variant is the same recipe with another method; seeds share weights and order, so "
                "differences are paired over seeds, by Student's t. The two-by-two and the learned filters, "
                "on which the answers rest, can have more seeds. In the record that comes with rootpool four "
                "seeds of the miniatures were first; their spread gave the number of those, twelve, and it "
                "was kept. The tables of the paper, measured again, are in ",
                Link("the report", "paper.md"),
                ".",
            )
        ),
        Facts(
            {
                setting.name: f"{setting.about} {setting.seeds}{_power(setting)}."
                for setting in settings
            }
        ),
        Facts({key: str(value) for key, value in machine().items()}),
    ]


def _power(setting: Setting) -> str:
    """What the two-by-two of a network could have told."""
    halves = [half_effect(setting, half) for half in ("forward", "backward")]
    told = what_seeds_tell([half for half in halves if half is not None])
    return "" if told is None else f". In the two-by-two they tell {told}"
