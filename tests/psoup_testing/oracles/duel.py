"""The product against the naive model and DuckDB, action by action.

    action ─┬─> LocalPSoup            acknowledgement, answer, or an error
            └─> ModelStream, Oracle   what it must be

Every difference is an AssertionError that shows the query, the window and the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.completeness import SourcePart
from psoup.answer.invoke import Answer
from psoup.answer.tuples.match_rows import Matched
from psoup.config import EngineConfig
from psoup.errors import OutOfRange, PSoupError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.tags import NO_TAG, Tag
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_AHEAD
from psoup.plan.amounts import AS_USUAL, Keeping
from psoup.work.clock import VirtualClock
from psoup_testing.engines.shards import Shards
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
from psoup_testing.histories.queries import Query
from psoup_testing.histories.values import arrow_array
from psoup_testing.histories.windows import Window
from psoup_testing.oracles.altered_queries import alter
from psoup_testing.oracles.duckdb_answers import Oracle, difference
from psoup_testing.oracles.match_bits import compare_bits, compare_tuple_ids
from psoup_testing.oracles.model import Declaration, ModelStream, Range, Refusal, Row
from psoup_testing.oracles.questions import TIMES, Told, asked_once, rows_of, same_answers
from psoup_testing.suite.coverage import COVERAGE
from psoup_testing.suite.kept_structures import KEPT

_ASKED = 6
"""Of so many invocations one is asked as a SELECT that is not registered, too."""
Make = Callable[[EngineConfig, VirtualClock], LocalPSoup]


@dataclass(frozen=True, slots=True)
class Standing:
    """A registered query, and the first tuple ID that came after it."""

    query_id: int
    query: Query
    born: int
    tag: Tag = NO_TAG


class Duel:
    """A stream that is driven twice. `number` of a registration counts from 0; refused ones have no entry.

    `Asked`: the oracle. `beside`: another duel, whose PSoup (and clock) this one's stream shares. `make` makes another
    kind of PSoup.
    """

    Asked = Oracle
    before_edge: type[PSoupError] | tuple[type[PSoupError], ...] = OutOfRange
    """The error for the tuple ID before the oldest kept one."""

    def __init__(
        self,
        declaration: Declaration,
        config: EngineConfig,
        beside: Duel | None = None,
        make: Make | None = None,
        shards: int = 1,
    ) -> None:
        self.declaration = declaration
        self.clock: VirtualClock = VirtualClock(BASE) if beside is None else beside.clock
        if beside is not None:
            self.psoup: LocalPSoup = beside.psoup
        elif make is not None:
            self.psoup = make(config, self.clock)
        else:
            self.psoup = LocalPSoup(config, self.clock, Shards(shards), verify="all")
        self.psoup.execute(declaration.sql())
        self.model = ModelStream(declaration, config.ahead or DEFAULT_AHEAD, capped=config.ahead is None)
        self.oracle = self.Asked(declaration.schema)
        self.coverage = COVERAGE
        self.standing: dict[int, Standing] = {}
        self.keeping, self.keepings = AS_USUAL, dict[int, Keeping]()
        """The keeping of the next query, and of each query by its ID."""
        self.registrations = 0
        self.compared = 0
        self.forgets = make is not None
        """Whether events are forgotten once their tuples are stored."""
        self.history = 0
        """The number of attached tuples: the first live tuple is at this place of the model, and has the ID 0."""
        self._loaded = -1
        self._released: list[tuple[int, int, int, Row]] = []

    def close(self) -> None:
        """Close the oracle's connection."""
        self.oracle.close()

    def run(self, actions: Sequence[Action]) -> None:
        """All actions, with every invariant checked after each."""
        for action in actions:
            self.act(action)
            if self.forgets:  # the others check themselves
                self.psoup.check()

    def act(self, action: Action) -> None:
        """Do one action on both sides."""
        match action:
            case Push():
                self.push(list(action.rows))
            case Heartbeat():
                self.heartbeat(action.time)
            case Register():
                self.keeping = action.keeping
                self.register(action.query)
            case Alter():
                alter(self.psoup, self.keepings, self.standing.get(action.number), action.change)
            case Unregister():
                self.unregister(action.number)
            case Invoke():
                self.invoke(action)
            case Matches():
                self.matches(action.place)
            case Maintain():
                self.psoup.maintain()
                self.psoup.update_answers()
            case Advance():
                self.clock.advance(seconds=action.seconds)

    def push(self, rows: list[Row]) -> None:
        """Push the same rows to both; the acknowledgement must have the model's counts."""
        would_match = self.psoup.match(self.declaration.name, to_table(self.declaration, rows))
        acknowledgement = self.psoup.push(self.declaration.name, to_table(self.declaration, rows), refused="count")
        accepted, late, ahead = self.model.push(rows, self.clock.now())
        actual = (acknowledgement.accepted, acknowledgement.late, acknowledgement.ahead, acknowledgement.watermark)
        assert actual == (accepted, late, ahead, self.model.watermark), f"acknowledged {actual}"
        self._count_arrival()
        self._compare_arrived(would_match, len(rows))
        self._compare_ids(acknowledgement)

    def _compare_ids(self, acknowledgement: PushAcknowledgement) -> None:
        compare_tuple_ids(self.psoup, self.model, acknowledgement, self.history, forgets=self.forgets)

    def _compare_arrived(self, would_match: Matched, rows: int) -> None:
        """Arrival finds what the rows of this push would match, as it was said before; refused rows match nothing."""
        released = self.released()
        edge = self.model.edge([entry[0] for entry in released], self.clock.now())
        mine = {entry[2] for entry in self.model.accepted if entry[1] == self.model.pushes}
        assert not any(would_match.of(row) for row in range(rows) if row not in mine)
        ids = {
            entry[2]: self.tuple_id(position)
            for position, entry in enumerate(released[edge:], edge)
            if entry[1] == self.model.pushes
        }
        if ids:
            matches = self.psoup.matches_many(self.declaration.name, list(ids.values()))
            wanted = [would_match.of(row) for row in ids]
            assert matches == wanted, f"of tuples {ids} arrival found {matches}, and {wanted} was said before"

    def heartbeat(self, time: int) -> None:
        """Raise the watermark, or be refused, on both sides."""
        outcome = expected_refusal(lambda: self.model.heartbeat(time, self.clock.now()))
        refusal = expected_refusal(lambda: self.psoup.heartbeat(self.declaration.name, time))
        assert refusal == outcome, f"heartbeat {time}: expected {outcome}, found {refusal}"
        self._count_arrival()

    def register(self, query: Query, tag: Tag = NO_TAG) -> None:
        """Register a standing query, under a key and with labels; both refuse it or none."""
        number, self.registrations = self.registrations, self.registrations + 1
        outcome = expected_refusal(lambda: self.model.check_window(query.window))
        outcome_once = self._ask_before(query, outcome)
        try:
            tags, keeping = dict(tag.labels), self.keeping
            query_id = self.psoup.register(query.sql(), key=tag.key, labels=tags, keeping=keeping)
        except PSoupError as problem:
            if query.folded() and problem.reason == "INVALID_VALUE":
                self.coverage.refused[problem.reason] += 1
                return
            error_name = type(problem).__name__
            assert error_name == outcome, f"refused ({problem.reason}): {query.sql()}\n{problem}"
            assert outcome_once == str(problem), f"registered: {problem}\nasked: {outcome_once}"
            return
        assert outcome is None, f"registered, but must be refused ({outcome}): {query.sql()}"
        self.standing[number] = Standing(query_id, query, len(self.released()), tag)
        record = self.psoup.engine.snapshot().queries.get(query_id)
        assert record is not None
        self.keepings[query_id] = record.keeping  # a test may ask for another one (`complete_answers`)
        if self.forgets:  # it may have started anew with this registration, and forgotten what was refused
            outcome_once = asked_once(self.psoup, query.sql())
        same_answers(lambda: self.psoup.invoke(query_id), outcome_once, query.sql())

    def _ask_before(self, query: Query, outcome: str | None) -> Told:
        """Ask a query that is not registered, for which nothing is evaluated, some times; returns what is told."""
        once = asked_once(self.psoup, query.sql())
        if isinstance(once, str) or outcome is not None:
            return once
        expected = self._expected(query, self.model.range(query.window, self.clock.now(), None, True))
        for _ in range(TIMES):
            with KEPT.compared():
                again = asked_once(self.psoup, query.sql())
                assert repr(again) == repr(once), f"at first: {once}\nlater: {again}\n{query.sql()}"
                problem = self.difference(query, expected, again[0])
                assert problem is None, f"{problem}\n{query.sql()}"
        return once

    def unregister(self, number: int) -> None:
        """Unregister a query; asking for it afterwards is an error."""
        standing = self.standing.pop(number, None)
        if standing is None:
            return
        self.psoup.unregister(standing.query_id)
        assert expected_refusal(lambda: self.psoup.invoke(standing.query_id)) == "NotFound"

    def invoke(self, action: Invoke) -> None:
        """The answer, its completeness, and the forms in which it was found."""
        standing = self.standing.get(action.number)
        if standing is None:
            return
        text = None if action.window is None else action.window.sql() or None
        window = standing.query.window if action.window is None or text is None else action.window
        try:
            wanted = self.model.range(window, self.clock.now(), action.as_of, action.accept_truncation)
        except Refusal as refusal:
            found = expected_refusal(lambda: self._ask(standing.query_id, action, text))
            assert found == str(refusal), f"expected {refusal}, found {found}: {standing.query.sql()} {action}"
            once = asked_once(self.psoup, standing.query.sql(), action.as_of, text, action.accept_truncation)
            same_answers(lambda: self._ask(standing.query_id, action, text), once, standing.query.sql())
            return
        forms, sql = self._forms(standing, wanted), standing.query.sql()
        expected, repeated = self._expected(standing.query, wanted), None
        for _ in range(TIMES):
            with KEPT.compared():
                answer = self._ask(standing.query_id, action, text)
                problem = self.difference(standing.query, expected, rows_of(answer))
                assert problem is None, f"{problem}\n{sql}\n{action}\n{wanted}"
                again = answer.completeness._replace(errors=0)  # a fold counts those of whole chunks
                assert repeated in (None, again), f"at first: {repeated}\nlater: {again}\n{sql}"
            repeated = again
        self._compare_told(answer, window, wanted, f"{sql}\n{action}")
        self.compared += 1
        for _ in range(TIMES if self.compared % _ASKED == 0 else 0):  # to bind a statement takes several milliseconds
            with KEPT.compared():
                once = asked_once(self.psoup, sql, action.as_of, text, action.accept_truncation)
                same_answers(lambda: answer, once, f"{sql} {action}")
        self.coverage.answered(standing.query, window.kind, forms, older=standing.born > wanted.first)

    def matches(self, place: int) -> None:
        """Check that a tuple matches exactly the queries whose WHERE it satisfies."""
        released = self.released()
        edge = self.model.edge([entry[0] for entry in released], self.clock.now())
        if edge >= len(released):
            return
        position = edge + place * (len(released) - edge) // 1000
        tuple_id, oldest = self.tuple_id(position), self.tuple_id(edge)
        self._load()
        active = (s for s in self.standing.values() if self.keepings[s.query_id].active)
        wanted = sorted(s.query_id for s in active if self.oracle.matching(s.query, position, position + 1))
        actual = self.psoup.matches(self.declaration.name, tuple_id)
        assert actual == wanted, f"tuple {tuple_id} {released[position][3]!r}: expected {wanted}, found {actual}"
        together = self.psoup.matches_many(self.declaration.name, [tuple_id, oldest, tuple_id])
        assert together[::2] == [wanted, wanted], f"tuple {tuple_id} with tuple {oldest}: expected {wanted}: {together}"
        compare_bits(self.psoup, self.declaration.name, tuple_id, [s.query_id for s in self.standing.values()])
        if edge:
            with pytest.raises(self.before_edge, match="kept"):
                self.psoup.matches(self.declaration.name, oldest - 1)

    def released(self) -> list[tuple[int, int, int, Row]]:
        """The model's released tuples, computed once after each change."""
        key = (len(self.model.accepted), self.model.watermark)
        if key != getattr(self, "_key", None):
            self._key, self._released, self._loaded = key, self.model.released(), -1
        return self._released

    def tuple_id(self, position: int) -> int:
        """The tuple ID of a released tuple of the model."""
        return position - self.history

    def _load(self) -> None:
        released = self.released()
        if self._loaded != len(released):
            ids = [self.tuple_id(position) for position in range(len(released))]
            self.oracle.load([entry[3] for entry in released], [entry[0] for entry in released], ids=ids)
            self._loaded = len(released)

    def _ask(self, query_id: int, action: Invoke, window: str | None) -> Answer:
        return self.psoup.invoke(
            query_id, as_of=action.as_of, window=window, accept_truncation=action.accept_truncation
        )

    def _expected(self, query: Query, wanted: Range) -> list[Row]:
        """The oracle's answer."""
        self._load()
        return self.oracle.answer(query, wanted.first, wanted.stop)

    def _compare_told(self, answer: Answer, window: Window, wanted: Range, statement: str) -> None:
        """The completeness of an answer is the model's."""
        (said,) = answer.completeness.sources
        final = wanted.end is not None and self.model.watermark is not None and wanted.end < self.model.watermark
        now = answer.completeness.now
        actual = (now, said.begin, said.end, said.truncated, said.final, said.late, said.ahead, said.pending)
        pending, of_model = len(self.model.accepted) - len(self.released()), (self.model.late, self.model.ahead)
        model = (wanted.now, wanted.begin, wanted.end, wanted.truncated, final, *of_model, pending)
        assert actual == model, f"completeness: expected {model}, found {actual}\n{statement}"
        self._compare_inside(said, self.model.inside(window, wanted, self.clock.now()), statement)

    def difference(self, query: Query, expected: Sequence[Row], actual: Sequence[Row]) -> str | None:
        """The excess or missing rows of an answer; None if it is right."""
        return difference(expected, actual)

    def _compare_inside(self, said: SourcePart, wanted: tuple[int | None, ...], statement: str) -> None:
        """The numbers of refused and waiting tuples in the window; a log that forgets them may not know."""
        actual = (said.late_inside, said.ahead_inside, said.pending_inside)
        pairs = zip(actual, wanted, strict=True)
        same = all(first == other or (first is None and self.forgets) for first, other in pairs)
        assert same, f"inside the window: expected {wanted}, found {actual}\n{statement}"

    def _forms(self, standing: Standing, wanted: Range) -> list[str]:
        """The forms of the kept columns of the chunks in the window, as the published root says."""
        snapshot = self.psoup.engine.snapshot()
        record = snapshot.query(standing.query_id, "default")
        return [
            entry.results.form(record.sqc_id, snapshot.clause(record.sqc_id).slot)
            for entry in snapshot.by_id[record.stream_id].chunks
            if entry.data.first_id + self.history < wanted.stop and entry.data.end_id + self.history > wanted.first
        ]

    def _count_arrival(self) -> None:
        snapshot = self.psoup.engine.snapshot()
        for standing in self.standing.values():
            record = snapshot.query(standing.query_id, "default")
            entry = snapshot.by_id[record.stream_id].chunks[-1]
            if entry.data.first_id + self.history >= standing.born:
                slot = snapshot.clause(record.sqc_id).slot
                self.coverage.arrived(standing.query, entry.results.form(record.sqc_id, slot))


def to_table(declaration: Declaration, rows: Sequence[Row]) -> pa.Table:
    """Rows as the Arrow table that a client would push."""
    attributes = declaration.schema.attributes
    arrays = [arrow_array(a.type, [row[i] for row in rows]) for i, a in enumerate(attributes)]
    return pa.table(arrays, names=[a.name for a in attributes])


def expected_refusal(call: Any) -> str | None:
    """The name of the error that `call` raises on purpose, or None if it raises none."""
    try:
        call()
    except Refusal as refusal:
        return str(refusal)
    except PSoupError as problem:
        return type(problem).__name__
    return None


def play(history: History, make: Make | None = None, kind: type[Duel] = Duel) -> int:
    """A whole history against the model; returns how many answers were compared."""
    duel = kind(history.declaration, history.config, make=make, shards=history.shards)
    try:
        duel.run(history.actions)
        return duel.compared
    finally:
        duel.close()


def play_together(one: History, two: History) -> int:
    """Two histories on two streams of one PSoup, action by action in turn; the first one's configuration holds."""
    first = Duel(one.declaration, one.config, shards=one.shards)
    second = Duel(two.declaration, one.config, first)
    try:
        for left, right in zip_longest(one.actions, two.actions):
            if left is not None:
                first.run([left])
            if right is not None:
                second.run([right])
        return first.compared + second.compared
    finally:
        first.close()
        second.close()
