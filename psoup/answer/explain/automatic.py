"""The choice for an AUTO query, for EXPLAIN: the choice in force, since when, and the estimated costs of all choices.

chosen   NONE since 2026-03-01 10:00:00, by AUTO
         microseconds of processor time in a second, arrivals, the last window, …
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from psoup.answer.automatic.cost_model import CHOICES, COMPLETE, NEVER_S, NEW_TUPLE_S, NONE, PAIRS, PARTIAL
from psoup.model import time_text
from psoup.phrases import counted
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot

_SHOWN = (NONE, PARTIAL, COMPLETE, PAIRS)
"""The choices in the order in which EXPLAIN shows them."""


@dataclass(frozen=True, slots=True)
class ChoiceExplanation:
    """The choice for an AUTO query. `amount`: in force, `since`: as text in UTC, "" before the first round.

    `core_us`: estimated microseconds of a core in a second, by choice, without choices that the query may not have.
    `invocations`: in a second. `arrivals`: tuples that come in a second. `arrival_ns`: nanoseconds of the writer for
    each. `window`, `matches`: tuples in the window of the last invocation, and those that match. `pairs`: of a join,
    between all tuples of its windows, -1 if unknown. `pairs_kept`: whether they are kept by a choice. `rounds`:
    successive rounds in which `better` cost less than half. `answer_bytes`: of the kept answer. `dear`: whether the
    query took too much of the writer's time, so that it stays NONE until the next start.
    """

    amount: str
    since: str = ""
    core_us: dict[str, float] = field(default_factory=dict)
    invocations: float = 0.0
    arrivals: float = 0.0
    arrival_ns: float = 0.0
    window: int = 0
    matches: int = 0
    rounds: int = 0
    better: str = ""
    answer_bytes: int = 0
    dear: bool = False
    pairs: int = -1
    pairs_kept: bool = False

    def lines(self) -> list[str]:
        """The choice as text for a terminal."""
        if not self.since:
            return [f"  chosen   {self.amount}: the service begins with it, and has observed nothing yet"]
        why = "it took too much of the time in which tuples arrive (quarantine_share)" if self.dear else "by AUTO"
        costs = ", ".join(f"{cost:,.1f} {name.lower()}" for name, cost in self.core_us.items())
        costs = costs or "nothing to estimate: no tuples come, and the query is not invoked"
        arrivals = f"{counted(round(self.arrivals), 'tuple')} come in a second, each takes {self.arrival_ns:,.0f} ns"
        lines = [
            f"  chosen   {CHOICES[PAIRS] if self.pairs_kept else self.amount} since {self.since}, {why}",
            f"           microseconds of processor time in a second: {costs}",
            f"           invoked {self.invocations:,.2f} times a second; {arrivals}",
            f"           the last window: {counted(self.window, 'tuple')}, and {self.matches:,} match",
        ]
        if self.pairs >= 0:
            lines.append(f"           about {counted(self.pairs, 'pair')} of tuples in the windows satisfy the join")
        if self.answer_bytes:
            lines.append(f"           the kept answer takes {counted(self.answer_bytes, 'byte')}")
        if self.rounds:
            lines.append(f"           {self.better} cost less than half in the last {counted(self.rounds, 'round')}")
        return lines


def explain_choice(snapshot: Snapshot, record: QueryRecord) -> ChoiceExplanation | None:
    """The choice for a query. Returns None if it is not AUTO. O(log n)."""
    if not record.keeping.auto:
        return None
    rows, amount = snapshot.automatic.rows, record.keeping.amount.name
    at = rows.place(record.query_id)
    if at < 0:
        return ChoiceExplanation(amount)
    row, entry = rows.columns[at], snapshot.answers.look(record.query_id)
    seconds = {CHOICES[place]: float(row["costs"][place]) for place in _SHOWN}
    costs = {choice: 1e6 * cost for choice, cost in seconds.items() if cost < NEVER_S / 2}
    pairs = float(row["density"]) * float(row["window"]) ** 2
    return ChoiceExplanation(
        amount,
        time_text(int(row["since"])),
        costs if any(costs.values()) else {},
        float(row["rate"]),
        float(row["arrivals"]),
        1e9 * float(np.nan_to_num(row["work"], nan=NEW_TUPLE_S)),
        int(row["window"]),
        int(row["matches"]),
        int(row["streak"]),
        CHOICES[int(row["wanted"])],
        0 if entry is None else entry.nbytes,
        bool(row["dear"]),
        round(pairs) if np.isfinite(pairs) else -1,
        snapshot.pairs.chooses(record.query_id),
    )
