"""The work of an invocation on disk: the tuples to evaluate, the expected seconds, and the refusal if it is too much.

    1,200,000,000 tuples in 18,311 chunks, of a clause over 1 column   about 41 s, and 10 s is the most   refused
       10,000,000 tuples in    153 chunks                              about 0.4 s                        evaluated

The engine has no clock. The host measures how fast readers evaluate tuples on disk (`psoup.work.read_budget.Archive`).
It also measures each read while it runs. The engine refuses a read that turns out to take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psoup.budgets import ARCHIVE_ROWS, ARCHIVE_SECONDS
from psoup.errors import ResourceExhausted
from psoup.phrases import counted
from psoup.work.read_budget import ReadBudget

COVER = "`psoup spark cover ID`"
"""The command that a refusal recommends. The SDK replaces it by a command with the client's own name of the query."""


@dataclass(frozen=True, slots=True)
class ArchiveWork:
    """The numbers of tuples on disk to evaluate for a clause, and of their chunks. `kind`: see `Search.kind`."""

    kind: str
    tuples: int
    chunks: int

    def expected(self, budget: ReadBudget) -> float | None:
        """The expected seconds. None if the host has measured nothing yet."""
        return None if budget.archive is None else budget.archive.expected(self.kind, self.tuples)

    def problem(self, archive_rows: int, budget: ReadBudget) -> str:
        """The reason why the work is too much, as a part of a sentence. Empty if it is not too much."""
        if self.tuples > archive_rows:
            return f"one invocation may evaluate {archive_rows:,} (archive_rows)"
        expected = self.expected(budget)
        if budget.archive is not None and expected is not None and expected > budget.archive.seconds:
            return _too_long(expected, budget.archive.seconds)
        return ""

    def refuse(self, archive_rows: int, budget: ReadBudget) -> None:
        """Raise ResourceExhausted, reason ARCHIVE_BUDGET, if the work is too much."""
        problem = self.problem(archive_rows, budget)
        if problem and self.tuples > archive_rows:
            raise self._refusal(problem, ARCHIVE_ROWS.over(self.tuples, archive_rows))
        if problem and budget.archive is not None:
            raise self._refusal(problem, _figures(self.expected(budget) or 0.0, budget.archive.seconds))

    def begin(self, budget: ReadBudget) -> Callable[[int], None] | None:
        """Start the measurement of a read. The read passes the numbers of tuples that it has evaluated to the result.

        The result raises as `refuse`, if the read takes too long. None if there is nothing to measure.
        """
        archive = budget.archive
        if archive is None or not self.tuples:
            return None
        measured = archive.start(self.kind, self.tuples)

        def progress(count: int) -> None:
            seconds = measured(count)
            if seconds > archive.seconds:
                raise self._refusal(_too_long(seconds, archive.seconds), _figures(seconds, archive.seconds))

        return progress

    def _refusal(self, problem: str, facts: dict[str, str | int]) -> ResourceExhausted:
        return ResourceExhausted(
            f"{self.tuples:,} tuples of the window are on disk, in {counted(self.chunks, 'chunk')}, and were never"
            f" evaluated for this query, and {problem}; have a job do it once with {COVER}, or narrow the window",
            reason="ARCHIVE_BUDGET",
            rows=self.tuples,
            chunks=self.chunks,
            **facts,
        )


def refuse_together(works: Sequence[tuple[str, ArchiveWork]], archive_rows: int, budget: ReadBudget) -> None:
    """Raise ResourceExhausted, reason ARCHIVE_BUDGET, if the sum of the work on all streams is too much."""
    for _, work in _by_stream(works):
        work.refuse(archive_rows, budget)
    tuples, chunks = sum(work.tuples for _, work in works), sum(work.chunks for _, work in works)
    expected = sum(work.expected(budget) or 0.0 for _, work in works)
    facts = ARCHIVE_ROWS.over(tuples, archive_rows)
    problem = f"one invocation may evaluate {archive_rows:,} (archive_rows)" if tuples > archive_rows else ""
    if not problem and budget.archive is not None and expected > budget.archive.seconds:
        problem = _too_long(expected, budget.archive.seconds)
        facts = _figures(expected, budget.archive.seconds)
    if problem:
        shares = ", ".join(f"{work.tuples:,} of stream {name}" for name, work in _by_stream(works) if work.tuples)
        raise ResourceExhausted(
            f"{tuples:,} tuples of the windows are on disk ({shares}), in {counted(chunks, 'chunk')}, and were never"
            f" evaluated for this query, and {problem}; have a job do it once with {COVER}, or narrow the windows",
            reason="ARCHIVE_BUDGET",
            rows=tuples,
            chunks=chunks,
            **facts,
        )


def _by_stream(works: Sequence[tuple[str, ArchiveWork]]) -> list[tuple[str, ArchiveWork]]:
    """Sum the work for each stream and kind of clause."""
    together = dict[tuple[str, str], ArchiveWork]()
    for name, work in works:
        before = together.get((name, work.kind), ArchiveWork(work.kind, 0, 0))
        sizes = before.tuples + work.tuples, before.chunks + work.chunks
        together[name, work.kind] = ArchiveWork(work.kind, *sizes)
    return [(name, work) for (name, _), work in together.items()]


def _too_long(expected: float, seconds: float) -> str:
    return f"that would take about {expected:,.1f} s where one invocation may take {seconds:g} s (archive_seconds)"


def _figures(expected: float, seconds: float) -> dict[str, str | int]:
    said = ARCHIVE_SECONDS.over(f"{expected:.1f}", f"{seconds:g}")
    return {**said, "expected_seconds": f"{expected:.1f}", "archive_seconds": f"{seconds:g}"}
