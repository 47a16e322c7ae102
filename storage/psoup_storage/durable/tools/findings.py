"""The result of an examination of a data directory: findings, and figures of what was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    DAMAGE = "damage"
    """Something acknowledged is lost or not as it was written."""
    REPLAY = "replay"
    """Nothing is lost, but a start would not come to its end, or not with this memory."""
    LEFTOVER = "leftover"
    """A thing that a crash left and nothing needs: nothing is wrong, and the next start removes it, as repair does."""
    NOTE = "note"
    """Good to know; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of the examination. `lost`: acknowledged data, in words, empty if none; `repair`: what helps."""

    severity: Severity
    place: str
    what: str
    lost: str = ""
    repair: str = ""
    repaired: bool = False


@dataclass(slots=True)
class Report:
    """All findings, in the order of the examination, and counts: streams, queries, events, chunks, tuples, bytes."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    """The tuples and queries that this examination set aside, so that no answer has them any more."""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.wrong

    @property
    def wrong(self) -> list[Finding]:
        """The findings of what is wrong (still)."""
        return [f for f in self.findings if f.severity in (Severity.DAMAGE, Severity.REPLAY) and not f.repaired]

    @property
    def left(self) -> int:
        """The number of files and rows that nothing needs."""
        return sum(finding.severity is Severity.LEFTOVER and not finding.repaired for finding in self.findings)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a figure."""
        self.figures[name] = self.figures.get(name, 0) + by
