"""Explanation of a source of a query: its window now, its clause, and the form of its results in each chunk."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.answer.coverage import ChunkTimes
from psoup.answer.explain.factors import FactorExplanation
from psoup.answer.plan_nodes import Findings
from psoup.phrases import counted, verb
from psoup.plan.source_roles import SourceRole


@dataclass(frozen=True, slots=True)
class SourceExplanation:
    """The explanation of one source. Times are text in UTC.

    `kind`: `stream` or `table`. `alias`: its name in FROM of a join, else "". `uncovered`: chunks on disk that were not
    evaluated for the query. `to_evaluate`: the tuples of these chunks that an invocation would evaluate. They lie in
    `chunks_to_evaluate` chunks, and take `expected_seconds` (None: not measured). `problem`: the reason why an
    invocation would be refused, else "".

    `counted`: whether EXPLAIN evaluated the uncovered chunks. It does not if that takes more than a moment. `folded`:
    tuples of uncovered chunks whose aggregates are folded already. `matches_in_window` leaves out folded chunks, and
    uncovered chunks that EXPLAIN did not evaluate.
    """

    stream: str
    kind: str
    alias: str
    time_domain: str
    clause: str
    shared_by: int
    window: str
    window_kind: str
    begin: str
    end: str
    factors: tuple[FactorExplanation, ...]
    tuples_in_window: int
    matches_in_window: int
    chunks: int
    chunks_covered: int
    chunks_archived: int
    column_forms: dict[str, int]
    errors: int
    archived_in_window: int
    archived_covered: int
    uncovered: tuple[ChunkTimes, ...]
    to_evaluate: int
    chunks_to_evaluate: int
    expected_seconds: float | None
    problem: str
    counted: bool
    folded: int = 0
    outside: tuple[str, ...] = ()
    """The reasons why the clause is outside of the index: its expression, and the damage. Empty if it is in
    the index.
    """
    sample: int = 0
    """The number of tuples in the sample for the factors; see `psoup.answer.explain.sample`."""
    idle: bool = False
    """Whether the stream has been silent for longer than its IDLE AFTER: NOW of the join does not wait for it."""
    role: str = SourceRole.ROWS.value
    """The use of its tuples: a value of `SourceRole`."""
    may_take_away: bool = False
    """Whether its tuples may take rows away from the answer."""
    derived_by: str = ""
    """The SELECT that a derived stream is derived by."""
    derived_status: tuple[str, ...] = ()
    """The status of a derived stream and of its pump, line by line."""

    @property
    def name(self) -> str:
        """The stream, and its name in the statement: `flights AS f`."""
        return f"{self.stream} AS {self.alias}" if self.alias and self.alias != self.stream else self.stream

    @property
    def per_key(self) -> bool:
        """Whether the window has the last rows of each key. `tuples_in_window` then counts all tuples up to NOW."""
        return self.window.startswith(("PARTITION BY", "ROWS"))

    @property
    def refused(self) -> bool:
        """Whether an invocation is refused, as it would have to evaluate too many tuples on disk."""
        return bool(self.problem)

    @property
    def findings(self) -> Findings:
        """The same facts for the node of the plan, without lines: the source has a section of its own."""
        figures: dict[str, float] = {
            "tuples_in_window": self.tuples_in_window,
            "matches_in_window": self.matches_in_window,
            "shared_by": self.shared_by,
            "chunks": self.chunks,
            "chunks_covered": self.chunks_covered,
            "chunks_in_memory": self.chunks - self.chunks_archived,
            "chunks_on_disk": self.chunks_archived,
            "tuples_on_disk_in_window": self.archived_in_window,
            "errors": self.errors,
            "to_evaluate": self.to_evaluate,
            "sample": self.sample,
        }
        if self.tuples_in_window and self.counted and not (self.folded or self.outside):
            figures["selectivity"] = self.matches_in_window / self.tuples_in_window
        tried = sorted((f.passes, f.text) for f in self.factors if f.passes is not None)
        figures.update((f"factor_{number}_passes", share) for number, (share, _) in enumerate(tried, 1))
        derived = {"derived": self.derived_by, "derived_status": "; ".join(self.derived_status)}
        facts = {
            "stream": self.stream,
            "alias": self.alias or self.stream,
            "clause": self.clause,
            "window": self.window,
            "begin": self.begin,
            "end": self.end,
            "idle": "yes" if self.idle else "no",
            "role": self.role,
            "may_take_away": "yes" if self.may_take_away else "no",
            **(derived if self.derived_by else {}),
            **{f"factor_{number}": text for number, (_, text) in enumerate(tried, 1)},
        }
        return Findings(figures, facts)

    def _window_lines(self) -> list[str]:
        if self.kind == "table":
            return [f"  rows     {self.window}"]
        return [f"  window   {self.window}  ({self.window_kind})", f"           now from {self.begin} to {self.end}"]

    def _tuples_held(self) -> str:
        if self.kind == "table":
            return f"table has {counted(self.tuples_in_window, 'row' if self.window_kind == 'table' else 'version')}"
        if self.per_key:
            return f"stream has {counted(self.tuples_in_window, 'tuple')} up to NOW"
        return f"window holds {counted(self.tuples_in_window, 'tuple')}"

    def head_lines(self) -> list[str]:
        """The window and the clause as text for a terminal."""
        lines = [
            *([f"  derived  by {' '.join(self.derived_by.split())}"] if self.derived_by else []),
            *(f"           {line}" for line in self.derived_status),
            *self._window_lines(),
            f"  clause   {self.clause}",
            f"           shared by {counted(self.shared_by, 'query')}",
        ]
        if self.may_take_away:
            lines.append("           its tuples may take rows away")
        if self.idle:
            lines.append("           the stream is idle: NOW does not wait for it")
        for number, factor in enumerate(self.factors, 1):
            lines += factor.lines(number)
        return lines

    def result_lines(self, name: str) -> list[str]:
        """The matches and the stored results, as text for a terminal. `name`: the name of the query."""
        forms = ", ".join(f"{count} {form}" for form, count in sorted(self.column_forms.items()))
        bound = "" if self.counted and not self.outside and not self.folded else "at least "
        covered = f"{self.chunks_covered:,} of {counted(self.chunks, 'chunk')} covered"
        lines = [
            f"  {self._tuples_held()}, {bound}{self.matches_in_window:,}"
            f" {verb(self.matches_in_window, 'matches', 'match')}; {counted(self.errors, 'evaluation error')}",
            f"  results  {covered}; kept as {forms or 'nothing'}",
        ]
        if self.outside:
            lines += [f"  outside  {self.outside[0]}", *(f"           {text}" for text in self.outside[1:])]
            lines.append("           not in the index: new tuples do not meet it, each answer evaluates it row by row")
        return [*lines, *self._archive_lines(name)]

    def _archive_lines(self, name: str) -> list[str]:
        if not self.chunks_archived:
            return []
        lines = [
            f"  archive  {self.chunks_archived:,} of the chunks {verb(self.chunks_archived, 'is', 'are')} on disk,"
            f" {self.archived_covered:,} of them covered; {counted(self.archived_in_window, 'tuple')} of the window"
            f" {verb(self.archived_in_window, 'is', 'are')} in them"
        ]
        if self.uncovered:
            lines += [f"           not covered: {span}" for span in self.uncovered[:_SHOWN]]
            if len(self.uncovered) > _SHOWN:
                lines.append(f"           and {len(self.uncovered) - _SHOWN:,} more such parts")
            lines.append(f"           {self._work(name)}")
        if self.folded:
            lines.append(f"           {counted(self.folded, 'tuple')} of these are folded, and not read again")
        return lines

    def _work(self, name: str) -> str:
        """The work of an invocation on disk, and the job that could do it, if it is worth a job."""
        if not self.to_evaluate:
            return "an invocation evaluates none of these tuples"
        job = f"; psoup spark cover {name} has a job do it once"
        work = f"{self.to_evaluate:,} of these tuples, in {counted(self.chunks_to_evaluate, 'chunk')}"
        if self.refused:
            return f"an invocation is refused: it would have to evaluate {work}, and {self.problem}{job}"
        if self.expected_seconds is None:
            return f"an invocation evaluates {work}{job}"
        if self.expected_seconds < _WORTH_A_JOB_S:
            return f"an invocation evaluates {work}, in less than {_WORTH_A_JOB_S} s"
        return f"an invocation evaluates {work}, in about {self.expected_seconds:.1f} s{job}"


_WORTH_A_JOB_S = 0.1
"""The fewest seconds of evaluation for which a Spark job is worth its start."""

_SHOWN = 8
"""The most uncovered parts that the text lists."""
