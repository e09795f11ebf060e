"""What running one entry of the paper gives: records, and a sentence on whether its claim shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from rootpool.analysis import Record

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """An entry of the paper, measured.

    Args:
        entry: ``table:...``, ``figure:...`` or ``theory:...``.
        claim: what the paper, or the theory, says.
        records: published and measured side by side, or what a statement rests on.
        shows: whether the claim shows in the records.
        verdict: the same as a sentence, with the numbers it rests on.
        settings: what made the records, to run it again.
    """

    entry: str
    claim: str
    records: tuple[Record, ...]
    shows: bool
    verdict: str
    settings: Record = field(default_factory=dict)
