"""One entry of the report: a table, figure or text of the paper, or a statement of the theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rootpool.report import Picture, Text
from rootpool.report.records import Record

from .pictures import Draw
from .plan import Measured, Plan
from .published import Source, load_published
from .result import Result
from .theory import Statement

if TYPE_CHECKING:  # listing entries does not wait for Lightning
    from rootpool.train.study import Trial

__all__ = ["Elsewhere", "Entry", "FullSize", "entry_of_source", "entry_of_statement"]

# Words of ids as titles write them.
PROPER = {
    "alexnet": "AlexNet",
    "resnet": "ResNet",
    "fgvc": "fine-grained data",
    "taylor": "Taylor",
    "pade": "Pade",
    "appendix": "(appendix)",
}


@dataclass(frozen=True)
class FullSize:
    """A training of the paper's own experiment, for a reader to run.

    >>> FullSize("alexnet-imagenet", "hybrid").command("svd-pade")
    'rootpool train alexnet-imagenet --method svd-pade --hybrid --data imagenet'
    """

    family: str
    protocol: str = "standalone"
    overrides: tuple[str, ...] = ()
    data: str = "imagenet"
    fine_tuned: bool = False

    def command(self, method: str) -> str:
        """The command for one method."""
        parts = ["rootpool train", self.family, "--method", method]
        parts += ["--hybrid"] * (self.protocol == "hybrid")
        parts += ["--data", self.data]
        if self.fine_tuned:
            parts += ["--weights", f"runs/resnet50-imagenet-{method}-hybrid/last.ckpt"]
        return " ".join([*parts, *self.overrides])


@dataclass(frozen=True)
class Elsewhere:
    """What an entry needs that is not here, and a command for where it is, with what that makes."""

    needs: str
    command: str
    makes: str


def _always(plan: Plan) -> bool:
    return True


def _no_trials(plan: Plan) -> list[Trial]:
    return []


def _no_pictures(result: Result, plan: Plan) -> list[Picture]:
    return []


@dataclass(frozen=True)
class Entry:
    """One entry.

    Args:
        name: ``table:...``, ``figure:...``, ``text:...`` or ``theory:...``.
        title: for the report.
        claim: what the paper, or the theory, says.
        compute: from its trained runs to the result; there are no runs if it needs no training.
        section: where it stands in the paper; empty for the theory.
        caption: of the table of numbers.
        text: paragraphs that explain it.
        draw: the pictures of a result.
        trials: the runs that it rests on.
        suits: whether a plan can make it.
        elsewhere: what the report says if the plan cannot.
        full: the paper's own experiment.
        depends: what else the result depends on, such as the machine.
        form: format of the numbers in its table.
        rows: what the rows of its table are.
        remark: what a reader must know to read the numbers.
    """

    name: str
    title: str
    claim: str
    compute: Callable[[Measured], Result]
    section: str = ""
    caption: str = "Measured here."
    text: tuple[str, ...] = ()
    draw: Draw = _no_pictures
    trials: Callable[[Plan], list[Trial]] = _no_trials
    suits: Callable[[Plan], bool] = _always
    elsewhere: Elsewhere | None = None
    full: Sequence[FullSize] = ()
    depends: Callable[[], Record] = dict
    form: str = ".3g"
    rows: str = "row"
    remark: Text = ""

    @property
    def kind(self) -> str:
        """``table``, ``figure``, ``text`` or ``theory``."""
        return self.name.partition(":")[0]


def entry_of_statement(statement: Statement) -> Entry:
    """The entry of a statement of the theory."""

    def draw(result: Result, plan: Plan) -> list[Picture]:
        caption = statement.caption
        return [Picture.of(statement.figure, result, alt=caption, caption=caption)]

    return Entry(
        statement.entry,
        statement.title,
        statement.claim,
        lambda study: statement.result(),
        text=(statement.text,),
        draw=draw,
    )


def entry_of_source(name: str, measure: Callable[..., Result], **options: Any) -> Entry:
    """The entry of a table, figure or text of ``published.yaml``.

    Args:
        name: of the entry.
        measure: called with the table, figure or text, and with the runs if the entry has ``trials``.
        options: other arguments of :class:`Entry`.
    """
    source = load_published().find(name)
    if source is None:
        raise ValueError(f"published.yaml has no {name}")
    trained = "trials" in options

    def compute(study: Measured) -> Result:
        return measure(source, study) if trained else measure(source)

    caption = getattr(source, "caption", "Measured here.")
    return Entry(name, _title(source), source.claim, compute, source.section, caption, **options)


def _title(source: Source) -> str:
    number = f" {source.number}" if source.number is not None else ""
    words = (PROPER.get(word, word) for word in source.id.split("-"))
    return f"{source.kind.capitalize()}{number}: {' '.join(words)}"
