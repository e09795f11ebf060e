"""What running one entry of the paper gives: records, and a sentence on whether its claim shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rootpool.analysis import Record
from rootpool.analysis.records import from_json, to_json

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """An entry of the paper, measured.

    Args:
        entry: ``table:...``, ``figure:...``, ``text:...`` or ``theory:...``.
        claim: what the paper, or the theory, says.
        records: published and measured side by side, or what a statement rests on.
        shows: whether the claim shows in the records; None where they cannot tell.
        verdict: the same as a sentence, with the numbers it rests on.
        settings: what made the records, to run it again.
        series: further records by name: what pictures are drawn from, and the ``answers`` that a
            verdict on several questions is made of.

    >>> result = Result("table:speed", "A is faster.", ({"a": 1.0},), None, "Who knows.")
    >>> Result.from_json(result.to_json()) == result
    True
    """

    entry: str
    claim: str
    records: tuple[Record, ...]
    shows: bool | None
    verdict: str
    settings: Record = field(default_factory=dict)
    series: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The whole result as strict JSON."""
        return to_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """What ``to_json`` wrote."""
        try:
            data: dict[str, Any] = from_json(text)
            data["records"] = tuple(data["records"])
            data["series"] = {name: tuple(records) for name, records in data["series"].items()}
            return cls(**data)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{text[:80]!r} is no result of an entry: {error!r}") from error
