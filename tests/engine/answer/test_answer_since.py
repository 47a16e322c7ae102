"""Changes since a client's last request: after every reply the client has exactly the answer, or a part of it.

Histories are random: pushes, late tuples, clocks that step, ALTER, upkeep, expiry. A client asks with random room,
newest or oldest first, and applies what it is told to rows of its own; an invocation of the same snapshot says what it
must hold. What the histories met is counted: a case that none of them had would prove nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies import rows_since as module
from psoup.answer.copies.id_intervals import Intervals, check, union, within, without
from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.copies.rows_since import MOST_INTERVALS, Most, since
from psoup.answer.invoke import invoke
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import Budget, unscaled
from psoup_testing.suite.sweeps import swept

pytestmark = [
    pytest.mark.seeded("an end of an interval is off by one"),
    pytest.mark.seeded("a range below is ignored"),
    pytest.mark.seeded("what is held reaches beyond the window"),
]

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, shape=EAGER)
WINDOWS = [
    "BEGIN (NOW - 20 SECONDS)",
    "BEGIN (NOW - 30 SECONDS) END (NOW - 10 SECONDS)",
    "BEGIN (START)",
    "BEGIN (NOW - 50 ROWS)",
    "BEGIN (NOW - 60 ROWS) END (NOW - 20 ROWS)",
    "",
]
CONDITIONS = ["a > 3", "b < 50 OR a = 1", "a IS NULL", "b >= 0", "a / b > 2"]
NO_END = Most(10**9, 10**9)


class Client:
    """The rows that a client holds of a query, by tuple ID, and of which tuple IDs it holds all."""

    def __init__(self, soup: LocalPSoup, query: int) -> None:
        self.soup, self.query = soup, query
        self.have: Intervals = ()
        self.rows: dict[int, tuple[Any, ...]] = {}

    def ask(self, most: Most, *, oldest_first: bool = False) -> module.Since:
        """Ask what has changed, and apply it."""
        snapshot = self.soup.engine.snapshot()
        record = snapshot.query(self.query, self.soup.tenant)
        how = ranged(record.query.plan)
        assert isinstance(how, Ranged)
        change = since(
            snapshot,
            record,
            how,
            self.have,
            most,
            Question(self.soup.clock.now(), accept_truncation=True),
            oldest_first=oldest_first,
        )
        check(change.keep)
        check(change.have)
        left = {number for number in self.rows if not is_in(number, change.keep)}
        assert change.any_leaves() or not left, "rows leave, and the client is not told"
        self.rows = {number: row for number, row in self.rows.items() if number not in left}
        table = change.answer.to_table()
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            assert row[0] not in self.rows, "a row was sent that the client held"
            assert is_in(row[0], change.have)
            self.rows[row[0]] = row
        assert table.num_rows == change.rows <= most.rows
        self.have = change.have
        return change

    def shown(self) -> list[tuple[Any, ...]]:
        """The rows as the answer has them."""
        how = ranged(self.soup.engine.snapshot().query(self.query, self.soup.tenant).query.plan)
        assert how is not None
        rows = [self.rows[number] for number in sorted(self.rows)]
        for place, key in reversed(list(enumerate(how.order))):
            at = place - len(how.order)
            rows.sort(key=lambda row, at=at: (row[at] is not None, row[at] or 0), reverse=key.descending)
            rows.sort(key=lambda row, at=at: row[at] is None)
        return [row[2 : len(row) - len(how.order)] for row in rows]


def is_in(number: int, intervals: Intervals) -> bool:
    return any(low <= number < high for low, high in intervals)


def answer(client: Client) -> list[tuple[Any, ...]]:
    """What an invocation says."""
    soup = client.soup
    told = again(
        invoke, soup.engine.snapshot(), client.query, tenant=soup.tenant, now=soup.clock.now(), accept_truncation=True
    )
    return list(zip(*(column.to_pylist() for column in told.to_table().columns), strict=True))


class History:
    """One random history."""

    def __init__(self, seed: int, met: Counter[str]) -> None:
        self.random, self.met = random.Random(seed), met
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        closing = replace(CONFIG, shape=replace(EAGER, open_work=2_000))  # registrations close chunks
        config = CONFIG if seed % 2 else closing
        self.soup = LocalPSoup(config, self.clock)
        self.event = self.random.random() < 0.5
        kept = self.random.choice(["", " RETENTION 40 SECONDS", " RETENTION 100 ROWS", ""])
        timed = ", at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS" if self.event else ")"
        self.soup.execute(f"CREATE STREAM s (a BIGINT, b BIGINT{timed}{kept}")
        self.clients, self.added = list[Client](), 0

    def step(self) -> None:
        """Do one thing, and compare."""
        kind = self.random.random()
        if kind < 0.4:
            self.push()
        elif kind < 0.5 and len(self.clients) < 12:
            self.register()
        elif kind < 0.55:
            self.met["the clock steps"] += 1
            self.clock.advance(seconds=self.random.randint(-15, 15))
            for client in self.clients:
                self.compare(client)
            self.clock.advance(seconds=-self.random.randint(0, 15))
            for client in self.clients:
                self.compare(client)
        elif kind < 0.6:
            self.soup.maintain()
        elif kind < 0.63:
            self.added += 1
            self.soup.execute(f"ALTER STREAM s ADD COLUMN x{self.added} BIGINT")
        elif kind < 0.66:
            self.soup.engine.expire(self.clock.now())
        elif self.clients:
            self.compare(self.random.choice(self.clients))

    def push(self) -> None:
        """Push up to forty tuples, up to nine seconds behind the clock."""
        rows, draw = self.random.randint(1, 40), self.random
        self.clock.advance(seconds=draw.randint(0, 4))
        columns: dict[str, Any] = {
            "a": [draw.choice([None, *range(8)]) for _ in range(rows)],
            "b": [draw.randint(0, 99) for _ in range(rows)],
        }
        if self.event:
            times = [self.clock.now() - draw.randint(0, 9 * SECOND) for _ in range(rows)]
            columns["at"] = pa.array(times, pa.timestamp("us", "UTC"))
        self.soup.push("s", pa.table(columns), refused="count")

    def register(self) -> None:
        """Register a query, with a client or two."""
        where, window = self.random.choice(CONDITIONS), self.random.choice(WINDOWS)
        last = self.random.choice(["", "LIMIT 7", "LIMIT 0", "ORDER BY b DESC, a * 2", ""])
        try:
            query = self.soup.register(f"SELECT a, b, _id FROM s WHERE {where} {last} {window}")
        except PSoupError:
            return
        self.clients += [Client(self.soup, query) for _ in range(self.random.randint(1, 2))]

    def compare(self, client: Client) -> None:
        """Let a client ask, and compare what it holds with the answer."""
        draw, before = self.random, client.have
        most = Most(draw.choice([0, 1, 5, 10**9, 10**9]), draw.choice([10**9, 10**9, 10**9, 30]))
        change = client.ask(most, oldest_first=draw.random() < 0.3)
        whole = answer(client)
        self.met[f"{len(change.have)} intervals"] += 1
        self.met["rows leave"] += change.any_leaves()
        self.met["an end steps back"] += bool(before and change.keep and before[-1][1] > change.keep[-1][1])
        self.met["a beginning steps back"] += bool(before and change.have and change.have[0][0] < before[0][0])
        self.met["rows are left"] += change.left > 0
        if change.complete:
            self.met["complete"] += 1
            assert client.shown() == whole, "the answer has other rows"
        else:
            assert set(client.shown()) <= set(whole), "a row that is not in the answer"


def run_histories(seeds: Iterable[int], met: Counter[str]) -> None:
    for seed in seeds:
        history = History(seed, met)
        for _ in range(60):
            history.step()


@pytest.mark.parametrize("count", swept([4, 14], fast=1))
def test_a_client_holds_the_answer_after_any_history(count: int) -> None:
    met, histories = Counter[str](), Budget("what has changed since: histories", unscaled(count))
    for seed in histories.rounds():
        run_histories([seed], met)
        histories.count()
    wanted = ["complete", "rows leave", "rows are left"]
    if count == 14:
        wanted += ["an end steps back", "a beginning steps back"]
        wanted += [f"{number} intervals" for number in range(MOST_INTERVALS + 1)]
    assert not [case for case in wanted if not met[case]], met


def cut_one_too_far(low: int, high: int, matches: Any, oldest_first: bool) -> tuple[int, int]:
    first, end = cut(low, high, matches, oldest_first)
    return (first, end + 1) if oldest_first else (first - 1, end)


def held_beyond_the_end(intervals: Intervals, low: int, high: int) -> Intervals:
    return within(intervals, low, 10**9)


def held_before_the_beginning(intervals: Intervals, low: int, high: int) -> Intervals:
    return within(intervals, -(10**9), high)


def only_above(low: int, high: int, intervals: Intervals) -> Intervals:
    return without(max(low, intervals[-1][1]) if intervals else low, high, intervals)


def bridged(intervals: Any) -> Intervals:
    whole = union(intervals)
    return ((whole[0][0], whole[-1][1]),) if whole else whole


cut = module._cut


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("_cut", cut_one_too_far),
        ("within", held_beyond_the_end),
        ("within", held_before_the_beginning),
        ("without", only_above),
        ("union", bridged),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_found(name: str, planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError, match=r"the answer|is not told"):
        run_histories(range(20), Counter())


@pytest.mark.parametrize(
    ("statement", "copies"),
    [
        ("SELECT a FROM s WHERE b > 1 ORDER BY b", "new"),
        ("SELECT a FROM s LIMIT 3", "new"),
        ("SELECT a FROM s LIMIT 3 OFFSET 1", "again"),
        ("SELECT a FROM s ORDER BY b LIMIT 3", "again"),
        ("SELECT DISTINCT a FROM s", "again"),
        ("SELECT a, count(*) FROM s GROUP BY a", "again"),
        ("SELECT x.a FROM s AS x, s AS y WHERE x.a = y.b", "new"),
        ("SELECT x.a FROM s AS x, s AS y WHERE x.a > y.b ORDER BY x.b, y.a DESC", "new"),
        ("SELECT x.a FROM s AS x, s AS y WHERE x.a = y.b LIMIT 3", "again"),
        ("SELECT DISTINCT x.a FROM s AS x, s AS y WHERE x.a = y.b", "again"),
        ("SELECT count(*) FROM s AS x, s AS y WHERE x.a = y.b", "again"),
        ("SELECT x.a, now() AS t FROM s AS x, s AS y WHERE x.a = y.b", "always"),
        ("SELECT a, now() AS t FROM s", "always"),
        ("SELECT a FROM s ORDER BY now() - _time", "always"),
    ],
)
def test_a_plan_says_how_copies_are_kept(statement: str, copies: str) -> None:
    soup = LocalPSoup(CONFIG)
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
    told = soup.explain(soup.register(statement))
    assert told.copies == copies
    assert f"  copies   {module.Travel[copies.upper()].value}" in told.lines()


@pytest.mark.parametrize(
    ("window", "copies"),
    [
        ("BEGIN (START)", "whole"),
        ("BEGIN (NOW - 10 SECONDS)", "whole"),
        ("BEGIN (NOW - 9 SECONDS)", "again"),
        ("BEGIN (NOW - 50 ROWS)", "again"),
    ],
)
def test_a_window_where_tuples_leave_the_stream_has_no_earlier_answers(window: str, copies: str) -> None:
    soup = LocalPSoup(CONFIG)
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT) RETENTION 10 SECONDS")
    assert soup.explain(soup.register(f"SELECT DISTINCT a FROM s {window}")).copies == copies
    assert soup.explain(soup.register("SELECT a FROM s BEGIN (START)")).copies == "new"
