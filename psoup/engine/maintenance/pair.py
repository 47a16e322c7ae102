"""Pairing as maintenance: a task makes missing blocks of kept pairs, and removes blocks of dropped chunks.

left chunks   7  blocks 3 4 5 │ 6 is new            a task: some chunks on the left with some on the right,
              8  blocks 3 4 5 │ 6                   at most 32 blocks; chunk 3 has left memory
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.kept_pairs import KeptJoin, KeptJoins, Missing
from psoup.engine.stream.state import StreamState
from psoup.errors import ResourceExhausted
from psoup.joins.pairs_store import BYTES, PairRow, pairs_of
from psoup.work.read_budget import UNBOUNDED, ReadBudget
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class PairTask:
    """The task: rows of a kept join that get more blocks, or lose blocks of dropped chunks."""

    stream_id: int
    joins: KeptJoins
    kept: KeptJoin
    work: Missing
    name: str = "pair"

    @property
    def tenant(self) -> str:
        """The tenant of the join's streams."""
        return self.kept.tenant

    def compute(self, run: Runner = serial, budget: ReadBudget = UNBOUNDED) -> NewPairs | RefusedPairs:
        """Find the pairs of the chunks, within a budget of bytes and time. O(rows of the chunks + pairs).

        If the budget is too small for all rows, the task makes only the first half. A later task makes the rest.
        """
        count = len(self.work.lefts)
        while True:
            try:
                return NewPairs(self.stream_id, self, self._rows(count, budget))
            except ResourceExhausted as problem:
                if count == 1 or problem.facts.get("budget") not in BYTES:
                    return RefusedPairs(self.stream_id, self, _why(problem, budget))
            budget.close()
            count //= 2

    def _rows(self, count: int, budget: ReadBudget) -> list[PairRow | None]:
        """The new versions of the first `count` rows. Copies the existing pairs and the new ones."""
        work = self.work
        later: list[PairRow | None] = [None] * count
        if work.rights:
            budget.hold(sum(row.nbytes for row in work.rows[:count] if row is not None))
            later = [*pairs_of(self.kept.node, work.lefts[:count], work.rights, budget)]
            budget.hold(sum(row.nbytes for row in later if row is not None))
        return [_longer(row, new, work.least) for row, new in zip(work.rows[:count], later, strict=True)]


def _why(problem: ResourceExhausted, budget: ReadBudget) -> str:
    if problem.facts.get("budget") not in BYTES:
        return problem.message
    wanted = int(problem.facts["used"])
    return f"it needs at least {wanted:,} bytes, and {budget.sort_bytes:,} were free for it"


def _longer(row: PairRow | None, new: PairRow | None, first_right: int) -> PairRow | None:
    """A row without the blocks of dropped right chunks, followed by the blocks of `new`."""
    row = None if row is None or row.stop <= first_right else row.since(first_right)
    return new if row is None else row if new is None else row.followed_by(new)


@dataclass(frozen=True, slots=True)
class NewPairs:
    """The result of a task: new versions of its first rows."""

    stream_id: int
    task: PairTask
    rows: list[PairRow | None]

    def install(self, state: StreamState) -> bool:
        """Install the rows, if the join still exists. Returns False if it does not, or a chunk was thinned since."""
        task = self.task
        if not task.joins.stands(task.kept) or task.work.turns != task.kept.turns:
            return False
        task.joins.installed()
        return task.kept.install(task.work.first, task.work.rows[: len(self.rows)], self.rows)


@dataclass(frozen=True, slots=True)
class RefusedPairs:
    """The result of a task that was too large for its budget. `why`: the reason, for the operator."""

    stream_id: int
    task: PairTask
    why: str

    def install(self, state: StreamState) -> bool:
        """Record the reason in the join, if it still exists. Returns False if it does not."""
        if not self.task.joins.stands(self.task.kept):
            return False
        self.task.kept.refuse(self.why)
        self.task.joins.installed()
        return True


def due(joins: KeptJoins, stream_id: int) -> PairTask | None:
    """Find rows that lack blocks, or have blocks of dropped chunks."""
    work = joins.missing(stream_id)
    return None if work is None else PairTask(stream_id, joins, *work)
