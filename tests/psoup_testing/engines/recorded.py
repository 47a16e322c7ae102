"""A history played on the product alone: its answer to each action, and its events.

    Player(history).said      one entry an action: rows and completeness, IDs, or the name of an error
    Player(history).psoup     an embedded engine that keeps its events, for `replayed`

Each maintenance of a history also changes a group of followers, which changes no answer.

For tests that compare the product with itself: other sizes, other cuts, the log played again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from psoup.admission import Admission
from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import PSoupError
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.events.events import Event
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.follower_groups import change_group
from psoup_testing.histories.histories import (
    BASE,
    Action,
    Advance,
    Alter,
    Heartbeat,
    History,
    Invoke,
    Maintain,
    Matches,
    Push,
    Register,
    Unregister,
)
from psoup_testing.oracles.altered_queries import parts_of
from psoup_testing.oracles.duckdb_answers import normal_rows
from psoup_testing.oracles.duel import to_table
from psoup_testing.oracles.questions import again, rows_of


class RecordingPSoup(LocalPSoup):
    """The embedded engine, with its log in `events`."""

    def __init__(self, config: EngineConfig, clock: VirtualClock) -> None:
        super().__init__(config, clock)
        self.events: list[Event] = []

    def submit(self, command: Command) -> Acknowledgement:
        """Prepare, keep and apply one command."""
        prepared = self.admission.prepare(command, self.clock.now())
        if prepared.events:
            self.events += prepared.events
            self.admission.give_back(self.engine.apply(prepared.events).freed_bytes)
        return prepared.acknowledgement


class Player:
    """A history, played. `query_ids` has an entry for each registration: its query, or None if it was refused."""

    def __init__(
        self,
        history: History,
        *,
        maintain_always: bool = False,
        make: Callable[[EngineConfig, VirtualClock], RecordingPSoup] = RecordingPSoup,
    ) -> None:
        self.declaration = history.declaration
        self.clock = VirtualClock(BASE)
        self.psoup = make(history.config, self.clock)
        self.psoup.execute(self.declaration.sql())
        self.query_ids: list[int | None] = []
        self.said: list[Any] = []
        self._gone: set[int] = set()
        for action in history.actions:
            self.said.append(self._act(action))
            if maintain_always:
                self.psoup.maintain()

    def standing(self) -> list[int]:
        """The queries that stand, ascending."""
        return [i for i in self.query_ids if i is not None and i not in self._gone]

    def _query(self, number: int) -> int | None:
        """The query of a registration if it stands."""
        query_id = self.query_ids[number] if number < len(self.query_ids) else None
        return None if query_id in self._gone else query_id

    def _act(self, action: Action) -> Any:
        try:
            return self._do(action)
        except PSoupError as problem:
            if isinstance(action, Register):
                self.query_ids.append(None)
            return type(problem).__name__

    def _do(self, action: Action) -> Any:
        name, psoup = self.declaration.name, self.psoup
        match action:
            case Push(rows):
                done = psoup.push(name, to_table(self.declaration, rows), refused="count")
                return done.accepted, done.late, done.ahead, done.watermark
            case Heartbeat(time):
                psoup.heartbeat(name, time)
            case Alter(number, change) if (query_id := self._query(number)) is not None:
                return psoup.alter_queries([query_id], **parts_of(change))
            case Register(query):
                self.query_ids.append(psoup.register(query.sql(), keeping=action.keeping))
                return self.query_ids[-1]
            case Unregister(number) if (query_id := self._query(number)) is not None:
                psoup.unregister(query_id)
                self._gone.add(query_id)
            case Invoke(number) if (query_id := self._query(number)) is not None:
                return self._ask(query_id, action)
            case Matches(place):
                return self._matches(place)
            case Maintain():
                psoup.maintain()
                change_group(psoup, name, len(self.said))
            case Advance(seconds):
                self.clock.advance(seconds=seconds)
        return None

    def _ask(self, query_id: int, action: Invoke) -> object:
        window = None if action.window is None else action.window.sql() or None
        return told(
            again(
                self.psoup.invoke,
                query_id,
                as_of=action.as_of,
                window=window,
                accept_truncation=action.accept_truncation,
            )
        )

    def _matches(self, place: int) -> object:
        view = next(iter(self.psoup.engine.snapshot().by_id.values()))
        tuple_id = place * view.next_id // 1000  # of all that there were: what is still in memory depends on sizes
        return self.psoup.matches(self.declaration.name, tuple_id) if view.next_id else None


def told(answer: Answer) -> object:
    """The part of an answer that sizes, cuts and maintenance must not change: rows and completeness."""
    said = answer.completeness
    (part,) = said.sources
    complete = (said.now, part.begin, part.end, part.final, part.late, part.ahead, part.pending, part.truncated)
    return normal_rows(rows_of(answer)), complete


def replayed(events: Sequence[Event], config: EngineConfig, run_length: int) -> tuple[Engine, Admission]:
    """A fresh engine and admission after `events`, applied in runs of `run_length`."""
    engine, admission = Engine(config), Admission(config)
    for start in range(0, len(events), run_length):
        run = events[start : start + run_length]
        for event in run:
            admission.replay(event)
        admission.give_back(engine.apply(run).freed_bytes)
    return engine, admission


def answers(engine: Engine, played: Player) -> list[object]:
    """The answers of `engine` to every query that stands at the end of a history."""
    results: list[object] = []
    for query_id in played.standing():
        now, snapshot = played.clock.now(), engine.snapshot()
        try:
            results.append(told(invoke(snapshot, query_id, tenant="default", now=now, accept_truncation=True)))
        except PSoupError as problem:
            results.append(type(problem).__name__)
    return results
