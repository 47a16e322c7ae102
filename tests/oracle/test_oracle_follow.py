"""Followers against an oracle: random registrations, pushes, removals, replaced keys, eviction, restarts, small pages.

The oracle releases tuples by the watermark itself, and notes for each query the tuples released before it. DuckDB
evaluates each WHERE over each tuple. Amounts change in between: a query with amount NONE is told if it is named. Each
page must be the beginning of what is left after the position of the page before: so nothing is told twice, and nothing
is missed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.follow import page as pages
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import (
    Follower,
    follow_page,
)
from psoup.answer.follow.told import FollowWanted
from psoup.config import EngineConfig
from psoup.plan.amounts import AS_USUAL, Amount, Keeping
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED, replayable, scaled

SECOND = 1_000_000
WHERES = ["a > 3", "a = 2 OR t = 'x'", "t LIKE 'x%' AND a < 6", "a IS NULL", "upper(t) = 'Y'", "a % 2 = 1", "TRUE"]
AGGREGATES = ["SELECT count(*) FROM s WHERE a > 1", "SELECT DISTINCT a FROM s"]
AGGREGATES += ["SELECT x.a FROM s x, s y WHERE x.a = y.a"]
WINDOWS = ["", "", "", " BEGIN (NOW - 2 ROWS)", " BEGIN (TIMESTAMP '1970-01-01 00:00:30')"]
WINDOWS += [" BEGIN (START) END (TIMESTAMP '1970-01-01 00:00:45')"]
ENDS = {WINDOWS[4]: (30 * SECOND, 2**62), WINDOWS[5]: (0, 45 * SECOND)}
WANTED = [
    FollowWanted(),
    FollowWanted(old=True),
    FollowWanted(labels=(("user", "u1"),)),
    FollowWanted(labels=(("user", "u2"), ("kind", "k")), keys=("key1",)),
    FollowWanted(keys=("key1", "key2"), old=True),
    FollowWanted(labels=(("user", "u1"),), keys=("key1", "key2")),
]
KEEPINGS = [AS_USUAL, Keeping(Amount.NONE), Keeping(Amount.NONE), Keeping(active=False)]


@dataclass
class Known:
    """A query of the oracle. `first`: how many tuples were released before it."""

    where: str
    window: str
    key: str
    labels: dict[str, str]
    first: int
    selects: bool = True
    keeping: Keeping = AS_USUAL

    def told_to(self, wanted: FollowWanted) -> bool:
        named = bool(self.key) and self.key in wanted.keys
        return self.selects and self.keeping.active and (named or self.keeping.amount is not Amount.NONE)

    @property
    def having(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.labels.items())


@dataclass
class Page:
    """A page of a follower, and the queries that stood then."""

    wanted: FollowWanted
    before: FollowPlace
    after: FollowPlace
    pairs: list[tuple[int, int]]
    released: int
    standing: dict[int, Known]


@dataclass
class Oracle:
    """The stream as the oracle knows it: `released` in stream order, `waiting` in order of arrival."""

    lateness: int
    released: list[tuple[int, int | None, str | None]] = field(default_factory=list)
    waiting: list[tuple[int, int | None, str | None]] = field(default_factory=list)
    watermark: int | None = None
    standing: dict[int, Known] = field(default_factory=dict)

    def push(self, rows: list[tuple[int, int | None, str | None]]) -> None:
        taken = [row for row in rows if self.watermark is None or row[0] >= self.watermark]
        if taken:
            mark = max(row[0] for row in taken) - self.lateness
            self.watermark = mark if self.watermark is None else max(mark, self.watermark)
        self.waiting += taken
        if self.watermark is not None:
            ready = [row for row in self.waiting if row[0] <= self.watermark]
            self.waiting = [row for row in self.waiting if row[0] > self.watermark]
            self.released += sorted(ready, key=lambda row: row[0])


class Play:
    """A random history of a stream and its followers."""

    def __init__(self, soup: RestartingPSoup, draw: random.Random) -> None:
        self.soup, self.draw = soup, draw
        lateness = draw.choice([0, 3])
        self.oracle, self.at = Oracle(lateness * SECOND), 20
        archive = draw.choice(["", " RETENTION 70 ROWS ARCHIVE 100000 ROWS"])
        sql = f"CREATE STREAM s (at TIMESTAMP, a BIGINT, t TEXT) TIMESTAMP BY at LATENESS {lateness} SECONDS{archive}"
        soup.execute(sql)
        self.places = [FollowPlace(0) for _ in WANTED]
        self.followers = [Follower(wanted) for wanted in WANTED]
        self.pages = list[Page]()

    def step(self) -> None:
        steps = [self.push] * 6 + [self.register] * 4 + [self.register_block, self.unregister, self.replace]
        steps += [self.alter] * 3
        self.draw.choice([*steps, self.soup.maintain, self.restart, *[self.read] * 8])()

    def push(self) -> None:
        rows = []
        for _ in range(self.draw.choice([1, 3, 20])):
            self.at += self.draw.choice([0, 0, 1])
            time = max(self.at - self.draw.choice([0, 0, 1, 5]), 0) * SECOND
            rows.append((time, self.draw.choice([None, *range(9)]), self.draw.choice([None, "x", "xy", "y"])))
        at, a, t = zip(*rows, strict=True)
        table = {"at": pa.array(at, pa.timestamp("us")), "a": pa.array(a, pa.int64()), "t": pa.array(t, pa.string())}
        self.soup.push("s", pa.table(table), refused="count")
        self.oracle.push(rows)

    def tag(self) -> tuple[str, dict[str, str]]:
        key = self.draw.choice(["", "", "key1", "key2"])
        free = all(standing.key != key for standing in self.oracle.standing.values())
        labels = self.draw.choice([{}, {"user": "u1"}, {"user": "u2", "kind": "k"}, {"user": "u2"}])
        return key if free else "", labels

    def register(self) -> None:
        (key, labels), where = self.tag(), self.draw.choice(WHERES)
        window, first = self.draw.choice(WINDOWS), len(self.oracle.released)
        if self.draw.random() < 0.15:
            other = self.soup.register(self.draw.choice(AGGREGATES), key=key, labels=labels)
            self.oracle.standing[other] = Known(where, "", key, labels, first, selects=False)
            return
        query = self.soup.register(f"SELECT a FROM s WHERE {where}{window}", key=key, labels=labels)
        self.oracle.standing[query] = Known(where, window, key, labels, first)

    def register_block(self) -> None:
        values = [self.draw.randrange(9) for _ in range(self.draw.choice([2, 300]))]
        table = pa.table({"a": values, "user": [f"u{value % 3}" for value in values]})
        queries = self.soup.register_many("SELECT * FROM s WHERE a = $a", table, labels=["user"])
        for query, value in zip(queries, values, strict=True):
            labels = {"user": f"u{value % 3}"}
            self.oracle.standing[query] = Known(f"a = {value}", "", "", labels, len(self.oracle.released))

    def unregister(self) -> None:
        if self.oracle.standing:
            query = self.draw.choice([*self.oracle.standing])
            self.soup.unregister(query)
            del self.oracle.standing[query]

    def alter(self) -> None:
        keyed = [query for query, standing in self.oracle.standing.items() if standing.key]
        some = self.draw.choice([keyed, keyed, [*self.oracle.standing]])
        if some:
            queries, keeping = self.draw.choices(some, k=self.draw.choice([1, 5])), self.draw.choice(KEEPINGS)
            self.soup.alter_queries(queries, amount=keeping.amount, active=keeping.active)
            for query in queries:
                self.oracle.standing[query].keeping = keeping

    def replace(self) -> None:
        for query, standing in [*self.oracle.standing.items()]:
            if standing.key:
                where = self.draw.choice(WHERES)
                sql = f"SELECT t FROM s WHERE {where}"
                new = self.soup.register(sql, key=standing.key, labels=standing.labels, replace=True)
                if new == query:  # the same call again changes nothing
                    return
                del self.oracle.standing[query]
                self.oracle.standing[new] = Known(where, "", standing.key, standing.labels, len(self.oracle.released))
                return

    def restart(self) -> None:
        self.soup.restart()
        self.followers = [Follower(wanted) for wanted in WANTED]

    def read(self) -> None:
        which, snapshot = self.draw.randrange(len(WANTED)), self.soup.engine.snapshot()
        view, before, wanted = snapshot.stream("s", "default"), self.places[which], WANTED[which]
        limit, size = self.draw.choice([1, 2, 7, 100, 10_000]), self.draw.choice([1, 200, 5_000, 10**7])
        page = follow_page(snapshot, view, self.followers[which], before, most_rows=limit, most_bytes=size)
        pairs = list(zip(page.tuple_ids.tolist(), page.queries.tolist(), strict=True))
        assert len(pairs) <= limit and view.next_id == page.end_id == len(self.oracle.released)
        assert page.tuples["_id"].to_pylist() == sorted({tuple_id for tuple_id, _ in pairs})
        shown = zip(page.tuples["_id"].to_pylist(), page.tuples["a"].to_pylist(), strict=True)
        assert all(self.oracle.released[tuple_id][1] == a for tuple_id, a in shown)
        tags = {row["query"]: (row["key"], dict(row["labels"])) for row in page.tags.to_pylist()}
        standing = self.oracle.standing
        assert tags == {query: (standing[query].key or None, standing[query].labels) for _, query in pairs}
        if not wanted.every:
            assert page.left_out == sum(
                not query.told_to(wanted) and bool(wanted.labels) and set(wanted.labels) <= set(query.having)
                for query in standing.values()
            )
        copied = {query: replace(oracle) for query, oracle in standing.items()}
        self.pages.append(Page(wanted, before, page.place, pairs, page.end_id, copied))
        self.places[which] = page.place

    def check(self) -> int:
        """Compare all pages with DuckDB; returns how many pairs there were."""
        duck = empty_database()
        numbered = [(number, *row) for number, row in enumerate(self.oracle.released)]
        columns = list(zip(*numbered, strict=True)) or [(), (), (), ()]
        types = (pa.int64(), pa.int64(), pa.int64(), pa.string())
        rows = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["id", "at", "a", "t"])
        duck.register("s", rows)
        matched: dict[str, set[int]] = {}
        for page in self.pages:
            for where in {standing.where for standing in page.standing.values()} - matched.keys():
                rows = again(lambda where=where: duck.sql(f"SELECT id FROM s WHERE {where}").arrow().read_all())
                matched[where] = set(rows["id"].to_pylist())
        for page in self.pages:
            expected = self.expected(page, matched)
            assert page.pairs == list(islice(expected, len(page.pairs)))
            left = next(expected, None)
            assert left is None or page.pairs
            assert left is None or left > page.after
            assert all(pair <= page.after for pair in page.pairs)
            assert left is not None or page.after == (page.released, -1)
        drop_database(duck)
        return sum(len(page.pairs) for page in self.pages)

    def expected(self, page: Page, matched: dict[str, set[int]]) -> Iterator[tuple[int, int]]:
        """The pairs after the place of a page, in order."""
        queries = dict(sorted(page.standing.items()))
        queries = {
            query: standing
            for query, standing in queries.items()
            if wanted_by(standing, page.wanted) and standing.told_to(page.wanted)
        }
        for tuple_id in range(page.before.next_id, page.released):
            time = self.oracle.released[tuple_id][0]
            for query, standing in queries.items():
                begin, end = ENDS.get(standing.window, (0, 2**62))
                late = tuple_id < standing.first and not page.wanted.old
                before = tuple_id == page.before.next_id and query <= page.before.after
                if tuple_id in matched[standing.where] and begin <= time <= end and not late and not before:
                    yield tuple_id, query


def wanted_by(standing: Known, wanted: FollowWanted) -> bool:
    """Whether a follower wants a query."""
    labelled = bool(wanted.labels) and set(wanted.labels) <= set(standing.having)
    return wanted.every or (bool(standing.key) and standing.key in wanted.keys) or labelled


@pytest.mark.seeded("a registration notes the next tuple of its stream")
def test_followers_are_told_what_the_oracle_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = 0
    for seed in range(SEED, SEED + scaled(7)):
        draw = random.Random(seed)
        monkeypatch.setattr(pages, "_FEW", draw.choice([1, 256]))
        every, hot = draw.choice([0, 0, 7]), draw.choice([1, 2**32])
        with replayable(seed), making(tmp_path / str(seed), every, hot) as made:
            config = EngineConfig(chunk_rows=64, results_bytes=draw.choice([1, 2**30]), ahead=10**12)
            play = Play(made(config, VirtualClock(10**9)), draw)
            for _ in range(90):
                play.step()
            for _ in range(40):
                play.read()
            pairs += play.check()
    assert pairs
