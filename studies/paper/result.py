"""What measuring one entry of the paper gives: records, and whether they support its claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from rootpool.report.records import Record, from_json, to_json

__all__ = ["Result", "Verdict", "together", "verdict_of"]

Verdict: TypeAlias = Literal["supported", "contradicted", "inconclusive"]


def verdict_of(holds: bool | None) -> Verdict:
    """The verdict on a claim that holds, or does not, or about which the records cannot tell.

    >>> verdict_of(True), verdict_of(None)
    ('supported', 'inconclusive')
    """
    if holds is None:
        return "inconclusive"
    return "supported" if holds else "contradicted"


def together(parts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim from those on its parts: one contradiction decides.

    >>> together(["supported", "inconclusive"]), together(["inconclusive", "contradicted"])
    ('inconclusive', 'contradicted')
    """
    found = set(parts)
    if "contradicted" in found:
        return "contradicted"
    return "supported" if found == {"supported"} else "inconclusive"


@dataclass(frozen=True)
class Result:
    """An entry of the paper, measured.

    Args:
        entry: ``table:...``, ``figure:...``, ``text:...`` or ``theory:...``.
        claim: what the paper, or the theory, says.
        records: published and measured side by side, or what a statement rests on.
        verdict: whether the records support the claim.
        reason: why, in a sentence with the numbers.
        settings: what made the records, to run it again.
        series: further records by name: what pictures are drawn from, and the ``answers`` that a
            verdict on several questions is made of.

    >>> result = Result("table:speed", "A is faster.", ({"a": 1.0},), "inconclusive", "One run.")
    >>> Result.from_json(result.to_json()) == result
    True
    """

    entry: str
    claim: str
    records: tuple[Record, ...]
    verdict: Verdict
    reason: str
    settings: Record = field(default_factory=dict)
    series: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The whole result as strict JSON."""
        return to_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what ``to_json`` wrote."""
        try:
            data: dict[str, Any] = from_json(text)
            data["records"] = tuple(data["records"])
            data["series"] = {name: tuple(records) for name, records in data["series"].items()}
            return cls(**data)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{text[:80]!r} is not the result of an entry: {error!r}") from error
