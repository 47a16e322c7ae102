"""The kept answer of a COMPLETE query, for EXPLAIN: how it is brought up to date, its rows and bytes, or why there is
none.

    kept     new rows are added to the kept answer, …     1,024 rows, 24,576 bytes
             eager: updated after events of its streams, 12 times so far, at 2026-03-01 10:00:00 for the last time
             given up at 2026-03-01 10:00:00: 9,000 rows came and 8,000 left …; asked 3 times since
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from psoup.answer.kept_answers.kept_forms import kept_form
from psoup.answer.kept_answers.kept_values import KeptMessages, KeptSelection, KeptUnion
from psoup.model import time_text
from psoup.phrases import counted
from psoup.plan.amounts import Amount
from psoup.published.answer_room import GivenUp
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class KeptExplanation:
    """The kept answer of a COMPLETE query. `form`: how it is brought up to date, in words.

    `rows`, `bytes`: of the kept answer; 0 if none is kept. `given_up`: when it was given up, as text in UTC, else "".
    `why`: the reason why none is kept, else "". `invocations`: their number since it was given up. `eager`: whether
    it is updated after events of its streams; `updates`: how often it was since the start of the service; `updated`:
    when it was last, as text in UTC, else ""; `why_not`: the reason why it is not updated now, else "".
    """

    form: str
    rows: int = 0
    bytes: int = 0
    given_up: str = ""
    why: str = ""
    invocations: int = 0
    eager: bool = False
    updates: int = 0
    updated: str = ""
    why_not: str = ""

    def lines(self) -> list[str]:
        """The facts as text for a terminal."""
        lines = [f"  {'kept':9}{self.form}"]
        if self.given_up:
            times = f"; asked {counted(self.invocations, 'time')} since"
            lines.append(f"  {'':9}given up at {self.given_up}: {self.why}{times}")
        elif self.why:
            lines.append(f"  {'':9}{self.why}")
        elif self.bytes:
            lines.append(f"  {'':9}{counted(self.rows, 'row')}, {self.bytes:,} bytes")
        return [*lines, *([f"  {'':9}{self._eager_words()}"] if self.eager else [])]

    def _eager_words(self) -> str:
        if self.why_not and not self.updates:
            return f"eager: not updated: {self.why_not}"
        words = "eager: updated after events of its streams"
        if self.updates:
            words += f", {counted(self.updates, 'time')} so far, at {self.updated} for the last time"
        return f"{words}; not updated now: {self.why_not}" if self.why_not else words


def explain_kept(snapshot: Snapshot, record: QueryRecord) -> KeptExplanation | None:
    """The kept answer of a query. Returns None unless the query is COMPLETE and active. O(messages)."""
    explained, facts = _explain_answer(snapshot, record), snapshot.eager.facts.get(record.query_id)
    if explained is None or not record.keeping.ahead:
        return explained
    if facts is None:
        return replace(explained, eager=True)
    updated = "" if facts.updated is None else time_text(facts.updated)
    return replace(explained, eager=True, updates=facts.updates, updated=updated, why_not=facts.why_not)


def _explain_answer(snapshot: Snapshot, record: QueryRecord) -> KeptExplanation | None:
    if record.keeping.amount is not Amount.COMPLETE or not record.keeping.active:
        return None
    form = kept_form(record.query.plan)
    if not form.keeps:
        return KeptExplanation(form.value)
    if not snapshot.answers.most_of_one:
        return KeptExplanation(form.value, why="no answer is kept: there is no memory for kept answers")
    entry = snapshot.answers.look(record.query_id)
    value = None if entry is None else entry.value
    if isinstance(value, GivenUp):
        return KeptExplanation(form.value, given_up=time_text(value.time), why=value.why, invocations=value.invocations)
    if entry is None or not isinstance(value, KeptSelection | KeptUnion | KeptMessages):
        return KeptExplanation(form.value, why="none is kept yet: an invocation keeps it once it is read to its end")
    return KeptExplanation(form.value, value.rows, entry.nbytes)
