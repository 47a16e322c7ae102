"""Looks for news of watched clauses: each clause that a new tuple matched is named, whatever has become of its chunk.

Histories are random; what a clause matched since the last look is asked of its matches, one clause at a time.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import pyarrow as pa
import pytest

from psoup.answer.copies import watched_clauses
from psoup.answer.copies.watched_clauses import WatchedClauses, clause_of, slides_of
from psoup.config import EngineConfig
from psoup.execution.select.clause_matches import matches_in
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.published.snapshot import StreamView
from psoup.results.sets import WantedClauses
from psoup.sql import window_clause
from psoup.work.clock import VirtualClock
from psoup.work.gc_pause import without_collector
from psoup_testing.suite.budget import Budget, unscaled
from psoup_testing.suite.sweeps import swept

pytestmark = [
    pytest.mark.seeded("the first new tuple is left out of a look for news"),
    pytest.mark.seeded("a run that was merged is taken for one that was looked at"),
    pytest.mark.seeded("a clause that was not evaluated has no match"),
]

CONFIG = EngineConfig(chunk_rows=64, piece_rows=32)
CONDITIONS = ["a > 3", "b < 50 OR a = 1", "a IS NULL", "b >= 0", "a = 7", "b = 13 AND a = 2", "b = 99"]


class Rig:
    """A stream, queries over it of which some are watched, and what each look must find."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.clock = draw, VirtualClock(10**9 * SECOND)
        self.soup = LocalPSoup(CONFIG, self.clock)
        self.soup.execute("CREATE STREAM s (a BIGINT, b BIGINT) RETENTION 300 ROWS")
        self.push(draw.randrange(90))
        self.watched = WatchedClauses(self.view)
        self.seen = self.view.next_id
        self.clauses: dict[int, int] = {}
        """Queries by SQC ID."""
        self.met = Counter[str]()

    @property
    def view(self) -> StreamView:
        return self.soup.engine.snapshot().stream("s", self.soup.tenant)

    def push(self, count: int) -> None:
        pick = self.draw.randrange
        rows = {
            "a": pa.array([pick(9) if pick(5) else None for _ in range(count)], pa.int64()),
            "b": pa.array([pick(200) - 50 for _ in range(count)], pa.int64()),
        }
        self.soup.push("s", pa.table(rows))

    def watch(self) -> None:
        query = self.soup.register(f"SELECT * FROM s WHERE {self.draw.choice(CONDITIONS)}")
        snapshot = self.soup.engine.snapshot()
        clause = clause_of(snapshot, snapshot.query(query, self.soup.tenant), None)
        assert clause is not None
        if clause.sqc_id not in self.clauses:
            self.clauses[clause.sqc_id] = query
            self.watched.add(clause)

    def leave(self) -> None:
        if self.clauses:
            sqc_id = self.draw.choice([*self.clauses])
            query = self.clauses.pop(sqc_id)
            if self.draw.randrange(2):  # else the clause stays, and may be watched again before the next look
                self.soup.unregister(query)
            self.watched.drop(sqc_id)

    def look(self) -> None:
        view, snapshot = self.view, self.soup.engine.snapshot()
        looked = self.watched.look(view)
        found, unsure = set(looked.found.tolist()), set(looked.unsure.tolist())
        assert not found & unsure and found | unsure <= set(self.clauses)
        for sqc_id in self.clauses:
            new = matches_in(view, snapshot.clause(sqc_id), self.seen, view.next_id)
            if any(match.count for match in new):
                assert sqc_id in found | unsure, "a clause matched a new tuple, and is not named"
            else:
                assert sqc_id not in found, "a clause matched no new tuple"
        self.met.update(found=len(found), unsure=len(unsure), quiet=len(self.clauses) - len(found | unsure))
        self.met["chunks"] += view.next_id - self.seen > 64
        self.met["sealed"] += any(entry.results.packs and entry.data.end_id > self.seen for entry in view.chunks)
        self.seen = view.next_id


@pytest.mark.parametrize("count", swept([4, 12], fast=1))
def test_each_clause_with_a_new_match_is_named(count: int) -> None:
    met, histories = Counter[str](), Budget("news of watched clauses: histories", unscaled(count))
    for seed in histories.rounds():
        rig = Rig(random.Random(seed))
        for _ in range(40):
            match rig.draw.randrange(8):
                case 0 | 1 | 2:
                    rig.push(rig.draw.choice([1, 3, 20, 70, 150]))
                case 3:
                    rig.watch()
                case 4:
                    rig.soup.maintain()
                case 5:
                    rig.leave() if rig.draw.random() < 0.3 else rig.watch()
                case _:
                    rig.look()
        met += rig.met
        histories.count()
    assert all(met[case] for case in ("found", "unsure", "quiet", "chunks", "sealed")), met


def _calls(soup: LocalPSoup, watched: WatchedClauses) -> int:
    """Python functions that a look calls."""
    count, view = 0, soup.engine.snapshot().stream("s", soup.tenant)

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with without_collector():  # it calls finalizers
        sys.setprofile(counted)
        try:
            assert len(watched.look(view).found) == 1
        finally:
            sys.setprofile(None)
    return count


def test_a_look_takes_no_step_of_python_for_a_clause() -> None:
    """The same calls for ten clauses and for a thousand; the first look makes the tables."""
    calls = set[int]()
    for clauses in (10, 1_000):
        soup = LocalPSoup(EngineConfig(chunk_rows=4_096))
        soup.execute("CREATE STREAM s (a BIGINT)")
        queries = soup.register_many("SELECT a FROM s WHERE a = ?", [(n,) for n in range(clauses)])
        snapshot = soup.engine.snapshot()
        watched = WatchedClauses(snapshot.stream("s", soup.tenant))
        for query in queries:
            clause = clause_of(snapshot, snapshot.query(query, soup.tenant), None)
            assert clause is not None
            watched.add(clause)
        watched.look(snapshot.stream("s", soup.tenant))
        soup.push("s", pa.table({"a": [1]}))
        calls.add(_calls(soup, watched))
    assert len(calls) == 1


def test_clauses_that_are_dropped_between_two_looks_are_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are made for each look, not for each drop. A clause that is dropped and added again stays watched."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT)")
    queries = soup.register_many("SELECT a FROM s WHERE a = ?", [(n,) for n in range(100)])
    snapshot = soup.engine.snapshot()
    records = [snapshot.query(query, soup.tenant) for query in queries]
    clauses = [clause for record in records if (clause := clause_of(snapshot, record, None)) is not None]
    watched = WatchedClauses(snapshot.stream("s", soup.tenant))
    for clause in clauses[:90]:
        watched.add(clause)
    watched.look(snapshot.stream("s", soup.tenant))
    tables = list[int]()
    monkeypatch.setattr(watched_clauses, "WantedClauses", lambda ids: (tables.append(len(ids)), WantedClauses(ids))[1])
    for clause in clauses[90:]:
        watched.add(clause)
    for clause in clauses[5:95]:
        watched.drop(clause.sqc_id)
    for clause in clauses[50:52]:
        watched.add(clause)
    watched.drop(clauses[51].sqc_id)
    assert (len(watched), tables) == (11, [])
    soup.push("s", pa.table({"a": [*range(100)]}))
    looked = watched.look(soup.engine.snapshot().stream("s", soup.tenant))
    assert tables == [11]
    assert looked.found.tolist() == [clause.sqc_id for clause in (*clauses[:5], clauses[50], *clauses[95:])]


@pytest.mark.parametrize(
    ("statement", "window", "found", "slides"),
    [
        ("SELECT a FROM s WHERE a > 1 BEGIN (NOW - 10 ROWS)", None, True, False),
        ("SELECT a FROM s WHERE a > 1 BEGIN (NOW - 1 HOUR)", None, True, True),
        ("SELECT a FROM s WHERE a > 1 BEGIN (NOW - 1 HOUR) END (NOW - 1 MINUTE)", None, False, True),
        (
            "SELECT a FROM s WHERE a > 1 BEGIN (START) END (NOW)",
            "BEGIN (NOW - 9 ROWS) END (NOW - 3 ROWS)",
            False,
            False,
        ),
        ("SELECT a FROM s ORDER BY a BEGIN (START)", None, True, False),
        ("SELECT a FROM s ORDER BY a LIMIT 3 BEGIN (START)", None, False, False),
        ("SELECT count(*) FROM s BEGIN (START)", None, False, False),
        ("SELECT a, now() AS t FROM s BEGIN (START)", None, False, True),
        ("SELECT x.a FROM s AS x, s AS y WHERE x.a = y.a", None, False, False),
    ],
)
def test_some_answers_only_asking_tells_about(statement: str, window: str | None, found: bool, slides: bool) -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT)")
    query, snapshot = soup.register(statement), soup.engine.snapshot()
    record, chosen = snapshot.query(query, soup.tenant), None if window is None else window_clause(window)
    assert (clause_of(snapshot, record, chosen) is not None) == found
    assert slides_of(snapshot, record, chosen) == slides


def test_a_stream_in_event_time_stands_still() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM e (a BIGINT, t TIMESTAMP) TIMESTAMP BY t")
    query, snapshot = soup.register("SELECT a FROM e BEGIN (NOW - 1 HOUR)"), soup.engine.snapshot()
    assert not slides_of(snapshot, snapshot.query(query, soup.tenant), None)


@pytest.mark.parametrize(
    ("statement", "slides"),
    [
        ("SELECT x.a FROM idle AS x, e AS y WHERE x.a = y.a", True),
        ("SELECT x.a FROM e AS x, idle AS y WHERE x.a = y.a BEGIN (0) END (60)", True),
        ("SELECT count(*) FROM e [ROWS 5] AS x, idle [ROWS 5] AS y WHERE x.a = y.a", True),
        ("SELECT x.a FROM e AS x, e AS y WHERE x.a = y.a", False),
        ("SELECT x.a FROM idle AS x, idle AS y WHERE x.a = y.a", False),
        ("SELECT a FROM idle BEGIN (NOW - 1 HOUR)", False),
    ],
)
def test_a_join_changes_when_one_of_its_streams_becomes_idle(statement: str, slides: bool) -> None:
    """No event says so: NOW of the join goes on with the clock alone. NOW of one stream does not."""
    soup = LocalPSoup()
    for name, option in (("e", ""), ("idle", " IDLE AFTER 1 MINUTE")):
        soup.execute(f"CREATE STREAM {name} (a BIGINT, t TIMESTAMP) TIMESTAMP BY t{option}")
    query, snapshot = soup.register(statement), soup.engine.snapshot()
    assert slides_of(snapshot, snapshot.query(query, soup.tenant), None) == slides
