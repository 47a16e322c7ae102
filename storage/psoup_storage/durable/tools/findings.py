"""The result of an examination of a data directory: findings, and counts of the examined things."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    DAMAGE = "damage"
    """Acknowledged data are lost, or have changed since they were written."""
    REPLAY = "replay"
    """Nothing is lost, but a start would fail, at least with the present memory."""
    LEFTOVER = "leftover"
    """A file that a crash left and nothing needs. Nothing is wrong: `repair` or the next start removes it."""
    NOTE = "note"
    """A fact for the operator; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of the examination, in words.

    `lost`: the acknowledged data that are lost; empty if nothing is lost. `repair`: advice to the operator.
    """

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
        """Whether the directory has neither damage nor a failing start, or both were repaired."""
        return not self.wrong

    @property
    def wrong(self) -> list[Finding]:
        """The findings of damage and of failing starts that were not repaired."""
        return [f for f in self.findings if f.severity in (Severity.DAMAGE, Severity.REPLAY) and not f.repaired]

    @property
    def left(self) -> int:
        """The number of leftovers that were not removed."""
        return sum(finding.severity is Severity.LEFTOVER and not finding.repaired for finding in self.findings)

    def count(self, name: str, by: int = 1) -> None:
        """Add `by` to the figure `name`."""
        self.figures[name] = self.figures.get(name, 0) + by
