"""The table of all entries: every table and figure of the paper, its text on seeds, and the theory.

A new entry is a line here; :func:`register` adds one from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rootpool.machine import machine
from rootpool.report import Mono
from rootpool.suggest import unknown_name

from . import pictures
from .convergence import measure_rescue
from .dynamics import (
    measure_condition_numbers,
    measure_eigenvalue_ratio,
    measure_training_curves,
    measure_warm_up_curves,
)
from .entry import Elsewhere, Entry, FullSize, entry_of_source, entry_of_statement
from .kernel_bounds import measure_bound_occurrences, measure_upper_bounds
from .numerical import measure_approximation_errors, measure_speed
from .plan import Plan
from .published import load_published
from .result import Result
from .smoothness import measure_precision, measure_smooth_gradients
from .tables import measure_errors, measure_seeds
from .theory import THEORY

if TYPE_CHECKING:  # listing entries does not wait for Lightning
    from rootpool.train.study import Trial

__all__ = ["ENTRIES", "choose", "register"]

FINE_GRAINED = {"birds": "CUB_200_2011", "dogs": "stanford-dogs", "cars": "stanford-cars"}

ALEXNET = "alexnet-imagenet"
STANDALONE, HYBRID = FullSize(ALEXNET), FullSize(ALEXNET, "hybrid")
RESNETS = tuple(
    FullSize(f"resnet{depth}-imagenet", protocol)
    for depth in (50, 101)
    for protocol in ("standalone", "hybrid")
)
SPECTRA = FullSize(ALEXNET, overrides=("spectrum_every=100",))

IN_MINIATURE = Elsewhere(
    "a schedule with stages, which these recipes do not have, and the methods of the paper",
    "python -m studies paper {name}",
    "All methods in miniature, with this report about them:",
)
FINE_TUNED = Elsewhere(
    "images that are not part of this package",
    "python -m studies paper {name} --data CUB_200_2011",
    "All methods on a small network, without a GPU (with --weights resnet50.ckpt, on the paper's own), with "
    "this report about them:",
)

FROZEN = (
    "Without a GPU, all methods can be compared on the birds behind a frozen network, with a report of its "
    "own: ",
    Mono("python -m studies birds --data CUB_200_2011 --methods"),
)
FUSED = (
    "MPN-COV stands here as published, with its infinities replaced as the paper's code does it. In our "
    "form, ‘mpn-cov, fused’, it has the same kernel, but combined with the root, so that ties have their "
    "correct limit (see the statement on ties below). What differs between the two is rounding: two terms "
    "that cancel are multiplied by the kernel before they meet in the one, and after in the other."
)
CLAMPED = (
    "With fewer positions than channels (49 and 64 here, 169 and 256 in AlexNet) the smallest "
    "eigenvalues are zero and are raised to eps = 2.2e-16. This condition number is then λ₁ / eps, "
    "and says how large the features are, not how well conditioned they are; the other rows say that."
)
BOUNDS = pictures.two_dots(
    "largest kernel entry, logarithmic",
    "Bounds as printed (hollow) and found by search here (filled).",
)


# --------------------------------------------------------------------------------------------------
# Kinds of entries


def _numerical(name: str, measure: Callable[..., Result], **options: Any) -> Entry:
    """An entry that needs no training."""
    return entry_of_source(name, measure, **options)


def _errors(name: str, **options: Any) -> Entry:
    """A table of approximation errors."""
    return _numerical(name, measure_approximation_errors, draw=pictures.errors, **options)


def _trained(
    name: str,
    measure: Callable[..., Result],
    draw: pictures.Draw,
    trials: Callable[[Plan, Sequence[str]], list[Trial]] = Plan.comparison,
    needs: Sequence[str] = (),
    **options: Any,
) -> Entry:
    """An entry that compares trainings with two protocols.

    Args:
        trials: from a plan and the methods of the entry to the runs.
        needs: methods that a comparison of others cannot do without; other trials need all.
    """
    source = load_published().find(name)
    methods = source.trained if source else ()
    if trials is not Plan.comparison:
        needs = methods

    def suits(plan: Plan) -> bool:
        chosen = methods if plan.methods is None else plan.methods
        return plan.switch is not None and set(needs) <= set(chosen)

    options = {"full": (STANDALONE,), "form": ".1f", "suits": suits, **options}
    return entry_of_source(
        name,
        measure,
        draw=draw,
        trials=lambda plan: trials(plan, methods),
        elsewhere=options.pop("elsewhere", IN_MINIATURE),
        **options,
    )


def _ordinary_alone(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    return plan.trials(["mpn-cov"])


def _only_its_own(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    return plan.trials(methods)


def _both_precisions(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    trials = [*plan.precisions(["mpn-cov", "isqrt-cov"]), *plan.comparison(methods)]
    return list({trial.key: trial for trial in trials}.values())


def _with_averages(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    """The methods beside the exact root, and what covariances and their roots are worth at all.

    A run takes minutes here: MPN-COV in our form, whose gradient is the exact one but for ties, is left out.
    """
    ours = plan.trials([*methods, "exact"]) if plan.methods is None else plan.comparison(methods)
    return [*ours, *plan.trials(["gap", "covariance"], ["standalone"])]


def _with_warm_ups(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    method, baseline = methods
    return plan.warm_ups(method, baseline)


def _seeds(plan: Plan, methods: Sequence[str]) -> list[Trial]:
    count = int(load_published().statements["seeds"].value)
    return plan.trials(methods, ["standalone"], count)


# --------------------------------------------------------------------------------------------------

ENTRIES: dict[str, Entry] = {}


def register(entry: Entry) -> Entry:
    """Add an entry: the command line and the report then know it."""
    if entry.name in ENTRIES:
        raise ValueError(f"there is already an entry {entry.name!r}")
    ENTRIES[entry.name] = entry
    return entry


for _entry in (
    _trained(
        "figure:training-curves",
        measure_training_curves,
        pictures.chain(
            pictures.curves(
                "train_error", "Training error, standalone; the other methods in grey."
            ),
            pictures.curves("val_error", "Validation error, standalone."),
        ),
        needs=("isqrt-cov", "svd-pade"),
        form=".2f",
    ),
    _trained(
        "figure:precision-and-smoothness",
        measure_precision,
        pictures.chain(pictures.precisions, pictures.smoothness),
        Plan.precisions,
        full=(FullSize(ALEXNET, overrides=("model.compute_dtype=float32",)),),
        form=".2f",
        remark=FUSED,
    ),
    _trained(
        "figure:eigenvalue-ratio",
        measure_eigenvalue_ratio,
        pictures.spectrum(
            "eigenvalue_ratio", "First eigenvalue over the second, mean over a batch."
        ),
        _only_its_own,
        full=(SPECTRA,),
        form=".3f",
    ),
    _trained(
        "figure:smooth-gradients",
        measure_smooth_gradients,
        pictures.chain(pictures.smoothness, pictures.comparisons),
        needs=("isqrt-cov", "svd-pade", "mpn-cov"),
        form=".2f",
        remark=FUSED,
    ),
    _trained(
        "figure:warm-up-curves",
        measure_warm_up_curves,
        pictures.chain(
            pictures.curves(
                "val_error", "Validation top-1 error from the switch on.", last_stage=True
            ),
            pictures.curves(
                "val_error5", "Validation top-5 error from the switch on.", last_stage=True
            ),
            pictures.comparisons,
        ),
        needs=("isqrt-cov", "svd-pade"),
        full=(HYBRID,),
    ),
    _trained(
        "table:condition-number",
        measure_condition_numbers,
        pictures.spectrum(
            "condition_mean", "Condition number with eigenvalues raised to eps, mean over a batch."
        ),
        _only_its_own,
        full=(SPECTRA,),
        form=".3g",
        remark=CLAMPED,
    ),
    _trained(
        "table:alexnet",
        measure_errors,
        pictures.chain(
            pictures.endings("Final validation error of each run and seed; hollow: hybrid."),
            pictures.comparisons,
        ),
        full=(STANDALONE, HYBRID),
    ),
    _trained("table:resnet", measure_errors, pictures.comparisons, full=RESNETS),
    _trained(
        "table:fgvc",
        measure_errors,
        pictures.chain(
            pictures.endings("Final error of each run and seed."),
            pictures.curves("train_error", "Training error of each method."),
            pictures.curves("val_error", "Error on the test images of each method."),
            pictures.comparisons,
        ),
        _with_averages,
        suits=lambda plan: plan.reported_as in FINE_GRAINED,
        elsewhere=FINE_TUNED,
        full=[FullSize(f, data=data, fine_tuned=True) for f, data in FINE_GRAINED.items()],
        form=".2f",
        remark=FROZEN,
    ),
    _numerical("table:speed", measure_speed, draw=pictures.seconds, form=".2f", depends=machine),
    _errors("table:approximation-error"),
    _numerical("table:upper-bounds", measure_upper_bounds, draw=BOUNDS, form=".2e"),
    _errors("table:taylor-degrees", rows="degree"),
    _errors("table:pade-degrees", rows="degree"),
    _trained(
        "table:upper-bounds-appendix",
        measure_bound_occurrences,
        BOUNDS,
        _ordinary_alone,
        form=".3g",
    ),
    _trained(
        "table:warm-up-epochs",
        measure_errors,
        pictures.chain(
            pictures.endings("Final validation error of each run and seed."), pictures.comparisons
        ),
        _with_warm_ups,
        full=(FullSize(ALEXNET, "hybrid", ("hybrid.switch_epoch=18", "hybrid.warmup_epochs=2")),),
    ),
    _trained(
        "text:rescue",
        measure_rescue,
        pictures.endings("Final training error of each run and seed.", "train_error"),
        _both_precisions,
        full=(STANDALONE, HYBRID),
        form=".0f",
        rows="run",
    ),
    _trained(
        "text:seeds",
        measure_seeds,
        pictures.endings("Final validation error of SVD-Pade, standalone, for each seed."),
        _seeds,
        full=(FullSize(ALEXNET, overrides=("seed=1",)),),
        form=".2f",
    ),
    *map(entry_of_statement, THEORY),
):
    register(_entry)


def choose(names: Sequence[str]) -> list[Entry]:
    """Entries by name, or by the kind before the colon; all without a name.

    >>> [entry.name for entry in choose(["theory:ties", "text"])]
    ['text:rescue', 'text:seeds', 'theory:ties']
    """
    kinds = {entry.kind for entry in ENTRIES.values()}
    for name in names:
        if name not in ENTRIES and name not in kinds:
            raise ValueError(
                unknown_name(
                    "entry", name, [*ENTRIES, *sorted(kinds)], "python -m studies paper --list"
                )
            )
    return [e for e in ENTRIES.values() if not names or e.name in names or e.kind in names]
