"""One table of all entries: every table and figure of the paper, its text on seeds, and the theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rootpool.analysis import Record, machine
from rootpool.report import Mono, Picture, Text
from rootpool.train.study import Trial
from rootpool.unknown import unknown_name

from . import pictures
from .bench import Bench, Study
from .dynamics import (
    measure_condition_numbers,
    measure_eigenvalue_ratio,
    measure_training_curves,
    measure_warm_up_curves,
)
from .numerical import NUMERICAL
from .published import Figure, Table, load_published
from .result import Result
from .smoothness import measure_precision, measure_smooth_gradients
from .tables import ERROR_TABLES, measure_fine_grained, measure_seeds, measure_warm_ups
from .theory import THEORY
from .theory.explained import EXPLAINED

__all__ = ["ENTRIES", "Entry", "choose"]

FINE_GRAINED = ("birds", "dogs", "cars")


def _nothing(bench: Bench) -> list[Trial]:
    return []


def _no_picture(result: Result, bench: Bench) -> list[Picture]:
    return []


@dataclass(frozen=True)
class Elsewhere:
    """What an entry needs that is not here, and a command for where it is, with what that makes."""

    needs: str
    command: str
    makes: str


@dataclass(frozen=True)
class Entry:
    """One entry.

    Args:
        compute: from a study to the result; a study without runs where no training is needed.
        draw: the pictures of a result.
        trials: the runs that it rests on.
        suits: whether the recipes of a bench can make it.
        elsewhere: what the report says where they cannot.
        full: recipes of the paper's own experiment, as patterns for a reader to run.
        depends: what else the result depends on, such as the machine.
        form: of the numbers in its table.
        remark: what a reader must know to read the numbers.
    """

    compute: Callable[[Study], Result]
    draw: pictures.Draw = _no_picture
    trials: Callable[[Bench], list[Trial]] = _nothing
    suits: Callable[[Bench], bool] = lambda bench: True
    elsewhere: Elsewhere | None = None
    full: Sequence[str] = ()
    depends: Callable[[], Record] = dict
    form: str = ".3g"
    remark: Text = ""


def source(name: str) -> Table | Figure | None:
    """The table or figure of the paper that an entry is about."""
    kind, _, id = name.partition(":")
    published = load_published()
    if kind == "table":
        return published.tables.get(id)
    return published.figures.get(id) if kind == "figure" else None


def title(name: str) -> str:
    """How the report calls an entry.

    >>> title("table:speed"), title("theory:pade-rank")
    ('Table 5: speed', 'Padé approximants of 1/(1 − x) are 1/(1 − x)')
    """
    if name in EXPLAINED:
        return EXPLAINED[name].title
    kind, _, id = name.partition(":")
    found = source(name)
    number = f" {found.number}" if found else ""
    words = (PROPER.get(word, word) for word in id.split("-"))
    return f"{kind.capitalize()}{number}: {' '.join(words)}"


PROPER = {
    "alexnet": "AlexNet",
    "resnet": "ResNet",
    "fgvc": "fine-grained data",
    "taylor": "Taylor",
    "pade": "Pade",
    "appendix": "(appendix)",
}


def claim(name: str) -> str | None:
    """What the paper claims there; None where the result says it."""
    found = source(name)
    return found.claim if found else None


def _has_stages(bench: Bench) -> bool:
    return bench.switch is not None


def _of_table(id: str, measure: Callable[[Table, Study], Result]) -> Callable[[Study], Result]:
    return lambda study: measure(load_published().tables[id], study)


def _of_figure(id: str, measure: Callable[[Figure, Study], Result]) -> Callable[[Study], Result]:
    return lambda study: measure(load_published().figures[id], study)


def _numerical(
    name: str, draw: pictures.Draw, form: str, depends: Callable[[], Record] = dict
) -> Entry:
    return Entry(lambda study: NUMERICAL[name](), draw, form=form, depends=depends)


def _statement(name: str) -> Entry:
    return Entry(lambda study: THEORY[name](), pictures.statement)


def _trained(
    compute: Callable[[Study], Result],
    draw: pictures.Draw,
    trials: Callable[[Bench], list[Trial]] = Bench.comparison,
    full: Sequence[str] = ("alexnet-imagenet-{method}",),
    form: str = ".1f",
    remark: str = "",
) -> Entry:
    return Entry(
        compute,
        draw,
        trials,
        _has_stages,
        IN_MINIATURE,
        full,
        form=form,
        remark=remark,
    )


def _seeds(bench: Bench) -> list[Trial]:
    count = int(load_published().statements["seeds"].value)
    runs = bench.comparison(count, ["svd-pade"])
    return [trial for trial in runs if trial.tags["protocol"] == "standalone"]


def _of_mpn(bench: Bench) -> list[Trial]:
    return bench.comparison(methods=["mpn-cov"])


BOTH = ("alexnet-imagenet-{method}", "alexnet-imagenet-{method}-hybrid")
RESNETS = tuple(f"resnet{n}-imagenet-{{method}}{end}" for n in (50, 101) for end in ("", "-hybrid"))
BOUNDS = pictures.two_dots(
    "largest kernel entry, logarithmic",
    "Bounds as printed (hollow) and found by search here (filled).",
)

IN_MINIATURE = Elsewhere(
    "a schedule with stages, which these recipes do not have",
    "rootpool paper {name}",
    "All methods in miniature, with this report about them:",
)
FINE_TUNED = Elsewhere(
    "data and pretrained networks that are not part of this package, and a GPU",
    "rootpool paper {name} --data CUB_200_2011 --weights resnet50.ckpt --seeds 1",
    "All methods, with this report about them:",
)

FROZEN = (
    "Without a GPU, all methods can be compared on the birds behind a frozen network, with a report of its "
    "own: ",
    Mono("rootpool birds --data CUB_200_2011 --methods"),
)
FUSED = (
    "The MPN-COV measured here is not quite that of the paper. It has the same kernel, but put "
    "together with the root, so that ties, which are infinite in the paper's equations, have their "
    "right limit (see the statement on ties below). What the paper reports of MPN-COV in single "
    "precision and of its rough gradients may well come from there."
)
CLAMPED = (
    "With fewer positions than channels (49 and 64 here, 169 and 256 in AlexNet) the smallest "
    "eigenvalues are zero and are raised to eps = 2.2e-16. This condition number is then λ₁ / eps, "
    "and says how large the features are, not how well conditioned they are; the other rows say that."
)

ENTRIES: dict[str, Entry] = {
    "figure:training-curves": _trained(
        _of_figure("training-curves", measure_training_curves),
        pictures.chain(
            pictures.curves(
                "train_error", "Training error, standalone; the other methods in grey."
            ),
            pictures.curves("val_error", "Validation error, standalone."),
        ),
        form=".2f",
    ),
    "figure:precision-and-smoothness": _trained(
        _of_figure("precision-and-smoothness", measure_precision),
        pictures.chain(
            pictures.curves(
                "train_error", "Training error; dashed: the root in float32.", crowded=False
            ),
            pictures.smoothness,
        ),
        Bench.precisions,
        ("alexnet-imagenet-mpn-cov model.compute_dtype=float32",),
        form=".2f",
        remark=FUSED,
    ),
    "figure:eigenvalue-ratio": _trained(
        _of_figure("eigenvalue-ratio", measure_eigenvalue_ratio),
        pictures.spectrum(
            "eigenvalue_ratio", "First eigenvalue over the second, mean over a batch."
        ),
        _of_mpn,
        ("alexnet-imagenet-mpn-cov spectrum_every=100",),
        form=".3f",
    ),
    "figure:smooth-gradients": _trained(
        _of_figure("smooth-gradients", measure_smooth_gradients),
        pictures.chain(pictures.smoothness, pictures.comparisons),
        form=".2f",
        remark=FUSED,
    ),
    "figure:warm-up-curves": _trained(
        _of_figure("warm-up-curves", measure_warm_up_curves),
        pictures.chain(
            pictures.curves(
                "val_error", "Validation top-1 error from the switch on.", last_stage=True
            ),
            pictures.curves(
                "val_error5", "Validation top-5 error from the switch on.", last_stage=True
            ),
            pictures.comparisons,
        ),
        full=("alexnet-imagenet-{method}-hybrid",),
    ),
    "table:condition-number": _trained(
        _of_table("condition-number", measure_condition_numbers),
        pictures.spectrum(
            "condition_mean", "Condition number with eigenvalues raised to eps, mean over a batch."
        ),
        _of_mpn,
        ("alexnet-imagenet-mpn-cov spectrum_every=100",),
        form=".3g",
        remark=CLAMPED,
    ),
    "table:alexnet": _trained(
        _of_table("alexnet", ERROR_TABLES["alexnet"]),
        pictures.chain(
            pictures.endings("Final validation error of each run and seed; hollow: hybrid."),
            pictures.comparisons,
        ),
        full=BOTH,
    ),
    "table:resnet": _trained(
        _of_table("resnet", ERROR_TABLES["resnet"]), pictures.comparisons, full=RESNETS
    ),
    "table:fgvc": Entry(
        _of_table("fgvc", measure_fine_grained),
        pictures.chain(pictures.endings("Final error of each run and seed."), pictures.comparisons),
        Bench.comparison,
        lambda bench: bench.family in FINE_GRAINED,
        FINE_TUNED,
        tuple(f"{family}-{{method}}" for family in FINE_GRAINED),
        form=".2f",
        remark=FROZEN,
    ),
    "table:speed": _numerical("table:speed", pictures.seconds, ".2f", machine),
    "table:approximation-error": _numerical("table:approximation-error", pictures.errors, ".3g"),
    "table:upper-bounds": _numerical("table:upper-bounds", BOUNDS, ".2e"),
    "table:taylor-degrees": _numerical("table:taylor-degrees", pictures.errors, ".3g"),
    "table:pade-degrees": _numerical("table:pade-degrees", pictures.errors, ".3g"),
    "table:upper-bounds-appendix": _numerical("table:upper-bounds-appendix", BOUNDS, ".2e"),
    "table:warm-up-epochs": _trained(
        _of_table("warm-up-epochs", measure_warm_ups),
        pictures.chain(
            pictures.endings("Final validation error of each run and seed."), pictures.comparisons
        ),
        Bench.warm_ups,
        ("alexnet-imagenet-svd-pade-hybrid hybrid.switch_epoch=18 hybrid.warmup_epochs=2",),
    ),
    "text:seeds": _trained(
        measure_seeds,
        pictures.endings("Final validation error of SVD-Pade, standalone, for each seed."),
        _seeds,
        ("alexnet-imagenet-svd-pade seed=1",),
        form=".2f",
    ),
    **{name: _statement(name) for name in THEORY},
}


def choose(names: Sequence[str]) -> list[str]:
    """Entries by name, or by the kind before the colon; all without a name.

    >>> choose(["theory:ties", "text"])
    ['text:seeds', 'theory:ties']
    """
    kinds = {name.partition(":")[0] for name in ENTRIES}
    for name in names:
        if name not in ENTRIES and name not in kinds:
            raise ValueError(
                unknown_name("entry", name, [*ENTRIES, *sorted(kinds)], "rootpool paper --list")
            )
    return [n for n in ENTRIES if not names or n in names or n.partition(":")[0] in names]
