"""Answers without tuple IDs: what a client is told of one makes what it holds the answer, or the first rows of it.

Histories are random, as those of `test_answer_since`: pushes, late tuples, clocks that step, ALTER, upkeep, expiry. The
queries group, join, tell rows apart, skip rows, and cut them in an order of their own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.copies import answer_again as module
from psoup.answer.copies.answer_again import Compared, Earlier, Unchanged, again, common, digest_of
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.invariants import Corrupt
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.copies.positions import PositionClient, answer, rows_of
from psoup_testing.suite.budget import Budget, unscaled
from psoup_testing.suite.sweeps import swept

pytestmark = [
    pytest.mark.seeded("an answer is computed again over a range that is partly lost"),
    pytest.mark.seeded("its digest is not looked at"),
    pytest.mark.seeded("NOW is that of now"),
    pytest.mark.seeded("a row that has moved is taken for one that stays"),
    pytest.mark.seeded("an answer is taken as unchanged when tuples have left it, or when HAVING reads NOW"),
]

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
STATEMENTS = [
    "SELECT b, a FROM s WHERE b < 90 ORDER BY b DESC, a LIMIT 7 {w}",
    "SELECT a, b FROM s ORDER BY x LIMIT 5 OFFSET 2 {w}",
    "SELECT a FROM s WHERE b >= 10 LIMIT 4 OFFSET 3 {w}",
    "SELECT DISTINCT a, x FROM s {w}",
    "SELECT DISTINCT b FROM s WHERE a > 2 ORDER BY b LIMIT 9 {w}",
    "SELECT a, count(*), sum(x), max(b) FROM s GROUP BY a {w}",
    "SELECT b % 9 AS k, count(*) AS n FROM s GROUP BY k HAVING count(*) > 2 ORDER BY n DESC, k LIMIT 4 {w}",
    "SELECT b % 5 AS k, count(*) FROM s GROUP BY k HAVING max(_time) > now() - INTERVAL 12 SECONDS {w}",
    "SELECT a FROM s GROUP BY a ORDER BY count(*) DESC, a {w}",
    "SELECT b % 3 AS k, last(x) FROM s WHERE b < 30 GROUP BY k {w}",
    "SELECT hop(_time, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) AS w, count(*), last(x) FROM s GROUP BY w {w}",
    "SELECT hop(_time, INTERVAL 3 SECONDS, INTERVAL 7 SECONDS) AS w, a, median(b) FROM s GROUP BY w, a {w}",
    "SELECT count(*), sum(b) FROM s {w}",
    "SELECT r.a, t.b FROM s AS r, s AS t WHERE r.a = t.a AND r.b + 90 < t.b {w}",
    "SELECT r.a, count(*) FROM s AS r, s AS t WHERE r.b = t.b GROUP BY r.a {w}",
    "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM s QUALIFY n < 9 {w}",
    "SELECT DISTINCT ON (a) a, b FROM s ORDER BY b {w}",
    "SELECT a, b FROM s [PARTITION BY a ROWS 3] WHERE b < 30",
    "SELECT a, b FROM s [PARTITION BY a ROWS 3 WHERE b < 60] WHERE b > 9 ORDER BY b DESC",
    "SELECT b % 5 AS k, count(*) FROM s [PARTITION BY x ROWS 9] GROUP BY k",
    "SELECT b, sum(b) OVER (ORDER BY b) FROM s QUALIFY max(_time) OVER () > now() - INTERVAL 12 SECONDS {w}",
]
WINDOWS = [
    "BEGIN (NOW - 20 SECONDS)",
    "BEGIN (NOW - 30 SECONDS) END (NOW - 10 SECONDS)",
    "BEGIN (START)",
    "BEGIN (NOW - 50 ROWS)",
    "BEGIN (NOW - 60 ROWS) END (NOW - 20 ROWS)",
]
VALUES = [None, 0.0, -0.0, float("nan"), 1.5]


class History:
    """One random history."""

    def __init__(self, seed: int, met: Counter[str]) -> None:
        self.random, self.met = random.Random(seed), met
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        self.soup = LocalPSoup(CONFIG, self.clock)
        self.event = self.random.random() < 0.5
        kept = self.random.choice(["", " RETENTION 40 SECONDS", " RETENTION 100 ROWS"])
        timed = ", at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS" if self.event else ")"
        self.soup.execute(f"CREATE STREAM s (a BIGINT, b BIGINT, x DOUBLE{timed}{kept}")
        self.push()
        drawn = [self.random.choice(STATEMENTS).format(w=self.random.choice(WINDOWS)) for _ in range(5)]
        self.clients = [PositionClient(self.soup, self.soup.register(statement)) for statement in drawn]
        self.added = 0

    def step(self) -> None:
        """Do one thing, and compare."""
        kind = self.random.random()
        if kind < 0.4:
            self.push()
        elif kind < 0.46:
            for way in (1, -1):  # NOW is never before the last tuple
                self.clock.advance(seconds=way * self.random.randint(5, 15))
                for client in self.clients:
                    self.compare(client)
        elif kind < 0.52:
            self.soup.maintain()
        elif kind < 0.54:
            self.added += 1
            self.soup.execute(f"ALTER STREAM s ADD COLUMN x{self.added} BIGINT")
        elif kind < 0.6:
            self.soup.engine.expire(self.clock.now())
        else:
            self.compare(self.random.choice(self.clients))

    def push(self) -> None:
        """Push up to twenty tuples, up to nine seconds behind the clock."""
        rows, draw = self.random.randint(1, 20), self.random
        self.clock.advance(seconds=draw.randint(0, 3))
        columns: dict[str, Any] = {
            "a": [draw.choice([None, *range(8)]) for _ in range(rows)],
            "b": [draw.randint(0, 99) for _ in range(rows)],
            "x": [draw.choice(VALUES) for _ in range(rows)],
        }
        if self.event:
            times = [self.clock.now() - draw.randint(0, 9 * SECOND) for _ in range(rows)]
            columns["at"] = pa.array(times, pa.timestamp("us", "UTC"))
        self.soup.push("s", pa.table(columns), refused="count")

    def compare(self, client: PositionClient) -> None:
        """Let a client ask, and compare what it holds with the answer."""
        before, held = client.rows, client.held.ranges
        most = self.random.choice([1, 3, 10**9, 10**9])
        change, whole = client.ask(most), answer(client)
        assert client.rows == whole[: len(client.rows)], "the answer has other rows"
        self.met["a page"] += len(client.rows) < len(whole)
        if isinstance(change, Unchanged):
            self.met["unchanged"] += 1
            return
        self.met["anew"] += change.anew and bool(before)
        self.met["rows move"] += bool(change.page(10**9).moved)
        self.met["some stay"] += 0 < len(change.at) < len(whole)
        self.met["a beginning steps back"] += bool(held and change.ranges[0][0] < held[0][0])
        if most > 3:
            assert client.rows == whole, "the copy is not complete"


def run_histories(seeds: Iterable[int], met: Counter[str]) -> None:
    for seed in seeds:
        history = History(seed, met)
        for _ in range(60):
            history.step()


@pytest.mark.parametrize("count", swept([2, 6, 24], fast=1))
def test_a_client_holds_the_answer_after_any_history(count: int) -> None:
    met, histories = Counter[str](), Budget("answers computed again: histories", unscaled(count))
    for seed in histories.rounds():
        run_histories([seed], met)
        histories.count()
    wanted = ["unchanged", "some stay", "rows move", "a page", "a beginning steps back"]
    wanted += ["anew"] if count >= 6 else []
    assert not [case for case in wanted if not met[case]], met


@pytest.mark.parametrize("seed", range(40))
def test_as_few_rows_move_as_may(seed: int) -> None:
    draw = random.Random(seed)
    tables = [some(draw, draw.randint(0, 30), unique=seed % 2 == 0) for _ in range(2)]
    stay, at = common(tables[0], tables[1], ReadBudget())
    first, second = map(rows_of, tables)
    assert [first[place] for place in stay] == [second[place] for place in at]
    assert len({*stay}) == len(stay) and sorted(at) == list(at)
    assert len(stay) == sum((Counter(first) & Counter(second)).values()), "rows come that the client has"
    rest = stay[~module._moves(stay)]
    assert sorted(rest) == list(rest)
    if seed % 2 == 0:
        assert len(rest) == longest(first, second)


def some(draw: random.Random, rows: int, *, unique: bool) -> pa.Table:
    keys = draw.sample(range(40), rows) if unique else [draw.randrange(4) for _ in range(rows)]
    values = [VALUES[key % len(VALUES)] for key in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "x": pa.array(values, pa.float64())})


def longest(first: list[str], second: list[str]) -> int:
    """The length of a longest common subsequence."""
    lengths = [0] * (len(second) + 1)
    for row in first:
        before = list(lengths)
        for place, other in enumerate(second):
            lengths[place + 1] = before[place] + 1 if row == other else max(lengths[place], before[place + 1])
    return lengths[-1]


def test_a_digest_is_of_what_rows_show() -> None:
    values = {
        "i": pa.array([1, None, 3], pa.int64()),
        "f": pa.array([True, None, False]),
        "d": pa.array(["1.5", None, "0.0"]).cast(pa.decimal128(18, 4)),
        "t": pa.array(["a", None, ""]),
        "w": pa.array([0, None, 5], pa.timestamp("us", "UTC")),
        "z": pa.array([0, None, 5], pa.int32()).cast(pa.date32()),
    }
    table = pa.table(values)
    twice = pa.concat_tables([table.slice(2), table])
    pieces = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert digest_of(table) == digest_of(twice.slice(1)) == digest_of(pieces)
    garbage = pa.Array.from_buffers(pa.int64(), 3, [values["i"].buffers()[0], pa.py_buffer(np.array([1, 7, 3]))])
    assert digest_of(table.set_column(0, "i", garbage)) == digest_of(table)
    for place, column in enumerate(table.columns):
        nulled = pa.array([None, *column.to_pylist()[1:]], column.type)
        assert digest_of(table.set_column(place, "c", nulled)) != digest_of(table)
    zeros = [digest_of(pa.table({"x": pa.array([zero], pa.float64())})) for zero in (0.0, -0.0, None)]
    assert len(set(zeros)) == 3


def soup_with(retention: str = "") -> LocalPSoup:
    soup = LocalPSoup(CONFIG, VirtualClock(1_700_000_000 * SECOND))
    soup.execute(f"CREATE STREAM s (a BIGINT, b BIGINT, x DOUBLE){retention}")
    return soup


def begun_anew(client: PositionClient) -> bool:
    change = client.ask(9)
    return isinstance(change, Compared) and change.anew


def test_what_cannot_be_computed_again_begins_anew() -> None:
    soup = soup_with(" RETENTION 100 ROWS")
    client = PositionClient(soup, soup.register("SELECT a, count(*) FROM s GROUP BY a BEGIN (NOW - 90 ROWS)"))
    soup.push("s", pa.table({"a": [1, 2, 2], "b": [0] * 3}))
    client.ask(9)
    soup.push("s", pa.table({"a": [1], "b": [0]}))
    held = client.held
    assert not begun_anew(client)
    client.held = Earlier(held.ranges, held.now, held.rows, bytes(16))
    assert begun_anew(client), "a digest of other rows"
    soup.push("s", pa.table({"a": [1] * 300, "b": [0] * 300}))
    soup.engine.expire(soup.clock.now())
    assert begun_anew(client), "tuples are gone"
    assert client.rows == answer(client)


@pytest.mark.seeded("NaN, NULL and the zeros are taken for one another, or NaN for another NaN")
def test_rows_are_compared_as_they_show() -> None:
    soup = soup_with()
    client = PositionClient(soup, soup.register("SELECT b % 3 AS k, last(x) FROM s GROUP BY k"))
    for value in (0.0, -0.0, float("nan"), float("nan"), None, None, 0.0):
        soup.push("s", pa.table({"b": [1, 2], "x": pa.array([1.5, value], pa.float64())}))
        before = list(client.rows)
        change = client.ask(9)
        assert client.rows == answer(client)
        assert (change.came if isinstance(change, Compared) else 0) == len(set(client.rows) - set(before))


@pytest.mark.seeded("a distinct row leaves with the first of its duplicates")
def test_a_distinct_row_stays_while_another_equal_one_is_there() -> None:
    soup = soup_with()
    client = PositionClient(soup, soup.register("SELECT DISTINCT a FROM s BEGIN (NOW - 3 ROWS)"))
    wanted = [["(1,)", "(2,)"], ["(2,)", "(1,)", "(3,)"], ["(1,)", "(3,)"], ["(3,)"]]
    for values, rows in zip(([1, 2, 1], [3], [3], [3]), wanted, strict=True):
        soup.push("s", pa.table({"a": values, "b": [0] * len(values)}))
        change = client.ask(9)
        assert isinstance(change, Compared) and change.came <= 2
        assert client.rows == answer(client) == rows


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = soup_with()
    client = PositionClient(soup, soup.register("SELECT DISTINCT a FROM s"))
    soup.push("s", pa.table({"a": pa.array(range(100))}))
    monkeypatch.setattr(module, "MOST_BYTES", 799)
    with pytest.raises(ResourceExhausted, match="has 800 bytes or more, and may have 799"):
        client.ask(1)
    monkeypatch.setattr(module, "MOST_BYTES", 800)
    client.ask(1)
    assert len(client.rows) == 1


def test_what_a_comparison_holds_is_given_back() -> None:
    soup = soup_with()
    query = soup.register("SELECT DISTINCT a FROM s")
    soup.push("s", pa.table({"a": pa.array(range(100))}))
    snapshot, budget = soup.engine.snapshot(), ReadBudget()
    record, held = snapshot.query(query, soup.tenant), module.NOTHING
    for values in (range(100, 110), range(5)):
        change = again(snapshot, record, held, Question(soup.clock.now(), budget=budget))
        held = change.first(100) if isinstance(change, Compared) else change.held
        assert (budget.joined, budget.held, budget.grouped) == (0, 0, 0)
        soup.push("s", pa.table({"a": pa.array(values)}))
        snapshot = soup.engine.snapshot()


def always_there(snapshot: Any, record: Any, sides: Any, held: Earlier, now: int, budget: Any) -> Any:
    """Computes over what is left of a range."""
    ranges = [(max(low, view.first_id), high) for (view, _), (low, high) in zip(sides, held.ranges, strict=True)]
    return computed(snapshot, record, sides, replace(held, ranges=ranges), now, budget)


def at_the_present(snapshot: Any, record: Any, sides: Any, held: Earlier, now: int, budget: Any) -> Any:
    """Computes as of now."""
    return computed(snapshot, record, sides, replace(held, now=now), now, budget)


def only_what_came(snapshot: Any, record: Any, sides: Any, before: Any, after: Any, budget: Any) -> bool:
    """Does not look at what has left."""
    pairs = zip(before, after, strict=True)
    return moved(snapshot, record, sides, [(max(old[0], new[0]), old[1]) for old, new in pairs], after, budget)


def never_now(plan: Any) -> bool:
    """Does not know of NOW in HAVING."""
    return False


def none_moves(stay: Any) -> Any:
    """Takes rows that have changed places for rows that stay where they are."""
    return np.zeros(len(stay), bool)


computed, moved = module._computed, module.any_moved


def no_digest(table: pa.Table) -> bytes:
    """Takes any rows for those that are held."""
    return b"any"


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "seeds"),
    [
        ({"_computed": always_there, "digest_of": no_digest}, 20),
        ({"digest_of": no_digest}, 20),
        ({"_computed": at_the_present, "digest_of": no_digest}, 20),
        ({"_moves": none_moves}, 20),
        ({"any_moved": only_what_came}, 20),
        ({"plan_reads_now": never_now}, 60),
    ],
    ids=["a lost range", "no digest", "NOW of now", "rows that move", "rows that leave", "NOW in HAVING"],
)
def test_a_planted_fault_is_found(changed: dict[str, Any], seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, planted in changed.items():
        monkeypatch.setattr(module, name, planted)
    with pytest.raises((AssertionError, Corrupt, RuntimeError, StopIteration)):
        run_histories(range(seeds), Counter())
