"""What was published since the paper: claims as data, and the trainings that they are judged by.

They are no part of the paper's own entries and verdicts, but judged by the same rules.
"""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import yaml

from rootpool.train import merge
from studies.paper.judge import Answer, answer, ask
from studies.paper.plan import Measured, Plan
from studies.paper.published import Source, check_entry, read_questions
from studies.paper.questions import Question
from studies.paper.rows import Row, endings

if TYPE_CHECKING:
    from rootpool.report.statistics import Comparison
    from rootpool.train.study import Trial

__all__ = [
    "SETTINGS",
    "FollowUp",
    "FollowUps",
    "Judged",
    "Setting",
    "follow_up_rows",
    "follow_up_trials",
    "judge",
    "load_follow_ups",
]

Setting: TypeAlias = Literal["miniature", "birds", "few-shot"]
SETTINGS: tuple[Setting, ...] = ("miniature", "birds", "few-shot")


@dataclass(frozen=True)
class FollowUp(Source):
    """A paper since, with its claim.

    Args:
        title: of its section.
        published: the numbers that it prints, as a sentence.
        differs: what is not the same here.
        asked: its questions by where they are asked.
        groups: names that stand for several methods.
    """

    kind: ClassVar[str] = "follow-up"
    title: str = ""
    published: str = ""
    differs: str = ""
    asked: Mapping[str, tuple[Question, ...]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def members(self, name: str) -> list[str]:
        """The methods that a name stands for."""
        return list(self.groups.get(name, (name,)))


@dataclass(frozen=True)
class FollowUps:
    """The whole file: trainings in miniature by name, and the claims."""

    runs: Mapping[str, Mapping[str, Any]]
    claims: Mapping[str, FollowUp]


def parse_follow_ups(text: str) -> FollowUps:
    """Read the text of ``follow_ups.yaml``; raise ``ValueError`` for what is wrong in it."""
    data = yaml.safe_load(text)
    check_entry(data, "follow_ups.yaml", "runs groups claims")
    claims = {}
    for id, entry in data["claims"].items():
        where = f"follow-up:{id}"
        check_entry(entry, where, "title reference claim published differs questions")
        unknown = sorted(set(entry["questions"]) - set(SETTINGS))
        if unknown:
            raise ValueError(
                f"{where}: questions are asked in {', '.join(SETTINGS)}, got {unknown[0]!r}"
            )
        asked = {
            setting: read_questions({"questions": questions}, where)
            for setting, questions in entry["questions"].items()
        }
        every = tuple(question for questions in asked.values() for question in questions)
        claims[id] = FollowUp(
            id,
            entry["reference"],
            entry["claim"],
            (),
            every,
            title=entry["title"],
            published=entry["published"],
            differs=entry["differs"],
            asked=asked,
            groups=data["groups"],
        )
    return FollowUps(data["runs"], claims)


@functools.cache
def load_follow_ups() -> FollowUps:
    """What was published since.

    >>> load_follow_ups().claims["seb"].asked["miniature"][0].text
    'SEB has a lower error than the root.'
    """
    file = importlib.resources.files(__package__) / "follow_ups.yaml"
    return parse_follow_ups(file.read_text(encoding="utf-8"))


# --------------------------------------------------------------------------------------------------
# Trainings in miniature


def follow_up_trials(plan: Plan) -> list[Trial]:
    """A standalone run for each training of the file and each seed of a plan.

    >>> [trial.label for trial in follow_up_trials(Plan(seeds=1))][:3]
    ['gap', 'covariance', 'isqrt-cov']
    """
    from rootpool.train.study import Trial

    return [
        Trial(name, merge(trial.config, change), {**trial.tags, "method": name})
        for name, change in load_follow_ups().runs.items()
        for trial in plan.trials([change["model"]["method"]], ["standalone"])
    ]


def follow_up_rows(study: Measured) -> list[Row]:
    """The final errors of the runs, and the logarithm of their condition in the last epoch."""
    runs = study.runs()
    return [
        {**row, "log_condition": _log_condition(run["spectrum"], study.plan.epochs)}
        for row, run in zip(endings(runs), runs, strict=True)
    ]


def _log_condition(spectrum: Sequence[Mapping[str, Any]], epochs: int) -> float | None:
    """Decimal logarithm of the largest eigenvalue over the smallest above rounding; None if unknown."""
    last = [
        math.log10(record["lambda_1"] / record["lambda_min_kept"])
        for record in spectrum
        if record["epoch"] == epochs - 1 and 0 < record["lambda_min_kept"] < math.inf
    ]
    return fmean(last) if last else None


# --------------------------------------------------------------------------------------------------
# Verdicts


@dataclass(frozen=True)
class Judged:
    """A question, what was compared for it, and the answer."""

    question: Question
    comparisons: Sequence[Comparison]
    answer: Answer


def judge(claim: FollowUp, setting: Setting, rows: Sequence[Row]) -> list[Judged]:
    """The answers to the questions of a claim in one setting, as far as there are runs for them."""
    found = []
    for question in claim.asked.get(setting, ()):
        known = [row for row in rows if row.get(question.value) is not None]
        comparisons = ask(question, claim, known)
        if comparisons:
            found.append(Judged(question, comparisons, answer(question, comparisons)))
    return found
