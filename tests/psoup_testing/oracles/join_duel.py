"""Random histories of one to four streams with joins over them: every answer against DuckDB and the naive model.

push, heartbeat, time goes on, register, unregister, ALTER, maintain, restart ──> invoke all: rows, NOW, windows
                                                                            ├──> ask the same: the same answer
                                                                            └──> as of NOW: the same rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.config import EngineConfig, Shape
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import BIGINT, Attribute
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import HOT, Made, RestartingPSoup
from psoup_testing.histories.histories import EAGER, draw_change, draw_keeping
from psoup_testing.histories.join_groups import GroupedJoin, draw_groups
from psoup_testing.histories.join_past import attach_history, cover_sides
from psoup_testing.histories.join_statements import SCHEMA, TIMED, Chance, JoinQuery, draw_join
from psoup_testing.histories.near_far import COLLIDING, FAR
from psoup_testing.histories.values import arrow_array
from psoup_testing.histories.windows import WINDOW_KINDS, Window, at, draw_window
from psoup_testing.oracles.altered_queries import alter_some, register_paired
from psoup_testing.oracles.duckdb_answers import difference
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.model import Declaration, Entry, ModelStream, Range
from psoup_testing.oracles.questions import TIMES, plain_rows, rows_of
from psoup_testing.suite.kept_structures import KEPT

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
SPAN = 60
AHEAD = 300 * SECOND
_NEAR = (0, 1, 2, 3, -1, 4, None)
_WORDS = ("", "a", "A", "ab", "b", "é")


class JoinDuel:
    """An engine, a model of each stream, and DuckDB with a table of each."""

    optimized = False
    """Whether DuckDB optimizes its queries."""
    refusals = ("WIDER_THAN", "DUPLICATE")
    """Reasons for which a query may be refused."""
    GROUPED = 30  # percent of the queries

    def __init__(self, seed: int, path: Path, idle: bool = False, jobs: bool = False, ends: bool = False) -> None:
        """Choose what the history has seldom otherwise.

        `idle`: all streams are idle when nothing comes for eight seconds; `jobs`: history can be attached to all;
        `ends`: most windows end at a fixed time that the streams have not reached.
        """
        self.make = make = Chance(seed)
        self.clock = VirtualClock(BASE)
        config = EngineConfig(chunk_rows=64, ahead=AHEAD, shape=make.pick((Shape(), EAGER, EAGER)))
        self.whole = make.pick((_NEAR, (*_NEAR, *[FAR + n for n in range(4)])))
        self.words = make.pick((_WORDS, (*_WORDS, *COLLIDING[0], *COLLIDING[1])))
        self.soup: LocalPSoup
        if make.likely(25) or jobs:
            self.soup = Made(path, hot_bytes=make.pick((HOT, 20_000)))(config, self.clock)
        else:
            self.soup = LocalPSoup(config, self.clock)
        self.path, self.jobs = path, 0
        self.timed = make.likely(65) or idle or jobs or ends
        self.ends = ends
        self.idle_after = (8,) if idle else (None, 8)
        self.kept = 0 if jobs else 40
        self.models: list[ModelStream] = []
        self.idle: list[int | None] = []
        self.heard: list[int] = []
        self.extra: set[int] = set()
        self.history: list[int] = []
        """Tuples of each stream that were attached: they have the IDs below zero."""
        self.standing: dict[int, JoinQuery] = {}
        self.compared = self.nonempty = self.grouped = self.idled = self.attached = self.covered = self.cut = 0
        self.duck = empty_database(optimized=self.optimized)
        for number in range(make.pick((1, 2, 2, 3, 4))):
            self._create(number)
        for _ in self.models:
            self._push()

    def close(self) -> None:
        """Close what is open."""
        if isinstance(self.soup, RestartingPSoup):
            self.soup.store.close()
        drop_database(self.duck)

    def run(self, events: int) -> None:
        """Play so many events, and invoke everything at the end."""
        steps = (self._push, self._push, self._push, self._register, self._go_on, self._other)
        for _ in range(events):
            self.make.pick(steps)()
        if self.make.likely(50):
            self.wake()
        else:
            self._compare_all()

    def wake(self) -> None:
        """Let time go on until all streams are idle that may be, wake one, and invoke everything."""
        self.clock.set(self.clock.now() + 9 * SECOND)
        self._push()
        self._compare_all()

    def work(self) -> None:
        """Let jobs attach history to every stream, and cover what no side was evaluated over."""
        for number in range(len(self.models)):
            self._attach(number)
            self._register()
            self._cover(number)
        self._compare_all()

    def _compare_all(self) -> None:
        for query_id, query in [*self.standing.items()]:
            self._compare(query_id, query)

    def _create(self, number: int) -> None:
        make = self.make
        keep: dict[str, int] = {}
        if make.likely(self.kept):
            unit = make.pick(("keep_rows", "keep_seconds"))
            keep = {unit: make.pick((100, 150)) if unit == "keep_rows" else 60}
            keep["archive"] = make.pick((0, keep[unit] // 2)) if isinstance(self.soup, RestartingPSoup) else 0
        declared = Declaration(
            f"s{number}",
            TIMED if self.timed else SCHEMA,
            len(SCHEMA.attributes) if self.timed else None,
            make.pick((0, 0, 5)) if self.timed else 0,
            **keep,
        )
        idle = make.pick(self.idle_after) if self.timed else None
        self.soup.execute(_with_idle(declared.sql(), idle))
        self.models.append(ModelStream(declared, AHEAD))
        self.idle.append(idle)
        self.heard.append(self.clock.now())
        self.history.append(0)
        self._load(number)

    def _push(self) -> None:
        make, number = self.make, self.make.number(0, len(self.models) - 1)
        model, now = self.models[number], self.clock.now()
        rows = [self._row(model, now) for _ in range(make.pick((1, 8, 30)))]
        schema = model.declaration.schema
        arrays = [arrow_array(a.type, [row[i] for row in rows]) for i, a in enumerate(schema.attributes)]
        self.soup.push(f"s{number}", pa.table(arrays, names=list(schema.names)), refused="count")
        model.push(rows, now)
        self.heard[number] = now
        self._load(number)

    def _row(self, model: ModelStream, now: int) -> tuple[Any, ...]:
        make = self.make
        row: list[Any] = []
        for attribute in model.declaration.schema.attributes:
            match attribute.name:
                case "at":
                    row.append(now + make.number(-8, 2) * SECOND)
                case "t":
                    row.append(make.pick(self.words))
                case "d":
                    row.append(make.pick((0.0, -0.0, 0.25, 1.0, 2.0, 3.0, float("nan"), None)))
                case "m":
                    row.append(make.pick((0, 25, 100, 200, 350, None)))
                case _:
                    row.append(make.pick(self.whole))
        return tuple(row)

    def _register(self) -> None:
        query = self._drawn()
        try:
            query_id = self._registered(query)
        except PSoupError as problem:
            assert any(word in problem.reason for word in self.refusals), f"{problem}\n{query.sql()}"
            return
        self.standing[query_id] = query
        self._compare(query_id, query)

    def _drawn(self) -> JoinQuery:
        """A new query."""
        query = draw_join(self.make, len(self.models), self.timed, BASE, SPAN, frozenset(self.extra))
        if self.ends:
            query = self._ending_later(query)
        return draw_groups(self.make, query) if self.make.likely(self.GROUPED) else query

    def _ending_later(self, query: JoinQuery) -> JoinQuery:
        """The query with fixed ends at most half a minute after the clock; those of some windows stay."""
        make, reached = self.make, self.clock.now() // SECOND * SECOND
        later = list[Window]()
        for window in query.windows:
            begin, end = window.lower, at(make, reached, 30)  # type: ignore[arg-type]
            later.append(Window(begin if begin.anchor == "at" and begin.amount <= end.amount else None, end))
        if not query.bracketed:
            return replace(query, windows=(later[0],) * len(later))
        some = [new if make.likely(70) else old for new, old in zip(later, query.windows, strict=True)]
        return replace(query, windows=tuple(some))

    def _registered(self, query: JoinQuery) -> int:
        """Register a query, sometimes with its pairs kept, if they can be. Or AUTO chooses it."""
        if len(query.streams) == 2 and self.make.likely(60):
            try:
                return self.soup.register(query.sql(), keep_pairs=True, keeping=draw_keeping(self.make))
            except PSoupError as problem:
                if "keep_pairs" not in str(problem):
                    raise
        return register_paired(self.soup, query.sql(), draw_keeping(self.make))

    def _go_on(self) -> None:
        self.clock.set(self.clock.now() + self.make.pick((1, 3, 9)) * SECOND)

    def _other(self) -> None:
        make = self.make
        step = make.number(0, 7)
        number = make.number(0, len(self.models) - 1)
        if step == 0 and self.standing:
            query_id = make.pick([*self.standing])
            self.soup.unregister(query_id)
            del self.standing[query_id]
        elif step == 1 and self.timed:
            time = self.clock.now() - make.number(0, 6) * SECOND
            self.soup.heartbeat(f"s{number}", time)
            self.models[number].heartbeat(time, self.clock.now())
            if self.idle[number] is not None:
                self.heard[number] = self.clock.now()
            self._load(number)
        elif step == 2:
            self.soup.maintain()
            self.soup.update_answers()
        elif step == 3 and isinstance(self.soup, RestartingPSoup):
            self.soup.restart()
        elif step == 4 and number not in self.extra:
            self._alter(number)
        elif step in (5, 6):
            self._attach(number) if step == 5 else self._cover(number)
        elif step == 7 and self.standing:
            alter_some(self.soup, [i for i in self.standing if make.likely(50)], draw_change(make))
        for query_id in list(self.standing)[-2:]:
            self._compare(query_id, self.standing[query_id])

    def _attach(self, number: int) -> None:
        """Attach some tuples of before, with what the sides match in them or without."""
        make, model = self.make, self.models[number]
        limited = model.declaration.keep_rows or model.declaration.keep_seconds
        if not isinstance(self.soup, RestartingPSoup) or not self.timed or limited:
            return
        first_time = min([self.clock.now(), *(entry[0] for entry in model.accepted)])
        times = sorted(first_time - make.number(0, 40) * SECOND for _ in range(make.pick((1, 20, 50))))
        rows = [(*self._row(model, 0)[: len(SCHEMA.attributes)], time) for time in times]
        rows = [row + (make.number(0, 3),) * (number in self.extra) for row in rows]
        entries = list(zip(times, rows, strict=True))
        attach_history(self.soup, self._job("history"), model.declaration, entries, known=make.likely(50))
        model.attach(entries)
        self.history[number] += len(rows)
        self.attached += 1
        self._load(number)

    def _cover(self, number: int) -> None:
        if isinstance(self.soup, RestartingPSoup):
            self.covered += cover_sides(self.soup, self._job("cover"), f"s{number}")

    def _job(self, kind: str) -> Path:
        """A directory for one more job."""
        self.jobs += 1
        return self.path.parent / f"{self.path.name}-{kind}{self.jobs}"

    def _alter(self, number: int) -> None:
        self.soup.execute(f"ALTER STREAM s{number} ADD COLUMN x BIGINT")
        model = self.models[number]
        schema = model.declaration.schema
        wider = replace(schema, attributes=(*schema.attributes, Attribute("x", BIGINT, True)))
        model.declaration = replace(model.declaration, schema=wider)
        model.accepted = [(*entry[:3], (*entry[3], None)) for entry in model.accepted]
        self.extra.add(number)
        self._load(number)

    def _load(self, number: int) -> None:
        """Give DuckDB the tuples of a stream."""
        model = self.models[number]
        entries = model.released()
        ids = self._ids(number, entries)
        arrays = [pa.array(range(len(entries)), pa.int64()), pa.array(ids, pa.int64())]
        arrays.append(pa.array([entry[0] for entry in entries], pa.int64()).cast(pa.timestamp("us")))
        attributes = model.declaration.schema.attributes
        arrays += [arrow_array(a.type, [entry[3][i] for entry in entries]) for i, a in enumerate(attributes)]
        self.duck.register("arrived", pa.table(arrays, names=["_pos", "_id", "_time", *(a.name for a in attributes)]))
        self.duck.execute(f"CREATE OR REPLACE TABLE s{number} AS SELECT * FROM arrived")
        self.duck.unregister("arrived")

    def _ids(self, number: int, entries: Sequence[Entry]) -> Sequence[int]:
        return range(-self.history[number], len(entries) - self.history[number])

    def _compare(self, query_id: int, query: JoinQuery) -> None:
        """Invoke the query and ask it, as it is, as of a time, or over other windows; both against DuckDB."""
        make, now = self.make, self._now(query)
        as_of = make.pick((None, None, BASE + make.number(0, SPAN) * SECOND))
        other = self._other_windows(query) if make.likely(25) else {}
        accept = make.likely(70)
        windows_asked = {alias: window.sql() or "BEGIN (START)" for alias, window in other.items()}
        windows = [other.get(alias, own) for alias, own in zip(query.aliases, query.windows, strict=True)]
        about = f"{query.sql()}\nas_of={as_of} windows={windows_asked} clock={self.clock.now()}"
        instant = now if as_of is None else as_of
        then = _said(lambda: self.soup.invoke(query_id, instant, windows_asked or None, accept))
        ranges = self._ranges(query, windows, now, as_of, accept)
        spans = [(range_.first, range_.stop) for range_ in ranges or ()]
        expected = [] if ranges is None else self._duck(query.duck_sql(spans))
        assert (then == "OutOfRange") if ranges is None else isinstance(then, Answer), (
            f"as of {instant}: {then}\n{about}"
        )
        if isinstance(then, Answer):
            problem = difference(expected, rows_of(then))
            assert problem is None, f"as of {instant}: {problem}\n{about}\n{spans}"
        for time in range(TIMES):
            with KEPT.compared():
                said = _said(lambda: self.soup.invoke(query_id, as_of, windows_asked or None, accept))
                if time in (0, TIMES - 1):
                    repeated = _said(lambda: self.soup.ask(query.sql(), as_of, windows_asked or None, accept))
                if ranges is None:
                    assert said == repeated == "OutOfRange", f"{said}, {repeated}\n{about}"
                    return
                assert isinstance(said, Answer) and isinstance(repeated, Answer), f"{said}, {repeated}\n{about}"
                for answer in (said, repeated) if time else (said, said.lean(), repeated):
                    problem = difference(expected, rows_of(answer))
                    assert problem is None, f"{problem}, asked for the {time + 1}. time\n{about}\n{spans}"
                self._check_told(said, ranges, query, about)
        self.compared += 1
        self.nonempty += bool(expected)
        self.grouped += isinstance(query, GroupedJoin) and len(expected) > 1
        sources = zip(query.streams, ranges, strict=True)
        self.cut += any(self.models[stream].goes_on(range_) for stream, range_ in sources)

    def _other_windows(self, query: JoinQuery) -> dict[str, Window]:
        """Windows that an invocation gives to some sources, by their names."""
        window = draw_window(self.make, self.make.pick(WINDOW_KINDS), BASE, SPAN)  # type: ignore[arg-type]
        return {self.make.pick(query.aliases): window}

    def _check_told(self, answer: Answer, ranges: list[Range], query: JoinQuery, about: str) -> None:
        """The completeness of an answer."""
        completeness, out = answer.completeness, self._left_out(query)
        assert [part.idle for part in completeness.sources] == out, f"{completeness}\n{about}"
        assert completeness.errors == answer.errors == 0, about
        for part, range_ in zip(completeness.sources, ranges, strict=True):
            wanted = range_.begin, range_.end, range_.truncated
            assert (part.begin, part.end, part.truncated) == wanted, f"{part}\n{about}"
            assert completeness.now == range_.now, f"{completeness}\n{about}"
            later = range_.end is not None and range_.now is not None and range_.end > range_.now
            assert not (part.final and later), f"{part}\n{about}"
        assert not (completeness.final and any(out)), about
        self.idled += any(out)

    def _ranges(
        self, query: JoinQuery, windows: list[Window], now: int | None, as_of: int | None, accept: bool
    ) -> list[Range] | None:
        """The tuples of each source, as the naive model says; None if that is refused."""
        if as_of is not None and (now is None or as_of > now):
            return None
        at, clock = now if as_of is None else as_of, self.clock.now()
        sources = zip(query.streams, windows, strict=True)
        ranges = [self.models[stream].range_at(window, clock, at, as_of) for stream, window in sources]
        return None if any(range_.truncated for range_ in ranges) and not accept else ranges

    def _left_out(self, query: JoinQuery) -> list[bool]:
        """The sources that are idle, unless all are."""
        clock, idle = self.clock.now(), list[bool]()
        for stream in query.streams:
            after = self.idle[stream]
            idle.append(after is not None and clock - self.heard[stream] > after * SECOND)
        return [False] * len(idle) if all(idle) else idle

    def _now(self, query: JoinQuery) -> int | None:
        times = [
            self.models[stream].now(self.clock.now())
            for stream, out in zip(query.streams, self._left_out(query), strict=True)
            if not out
        ]
        present = [time for time in times if time is not None]
        if len(present) < len(times):
            return None
        return min(present) if self.timed else max(present)

    def _duck(self, sql: str) -> list[tuple[Any, ...]]:
        return plain_rows(self.duck.sql(sql).to_arrow_table())


def _said(call: Any) -> Answer | str:
    try:
        answer: Answer = call()
    except PSoupError as problem:
        return type(problem).__name__
    return answer


def _with_idle(sql: str, idle: int | None) -> str:
    """The statement with IDLE AFTER, before its RETENTION."""
    head, word, tail = sql.partition(" RETENTION")
    return sql if idle is None else f"{head} IDLE AFTER {idle} SECONDS{word}{tail}"
