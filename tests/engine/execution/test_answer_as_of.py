"""Joins AS OF: each tuple meets the version of its own time, against a naive list of versions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from psoup.answer.copies.answer_again import NOTHING, Earlier, Unchanged
from psoup.answer.copies.answer_again import again as again_compared
from psoup.answer.copies.join_since import HeldBox, boxed, joined_since, paired
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.nodes import Node
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

MICROS = pa.timestamp("us")
KEYS = ["a", "b", "c", "d", "e", "f"]
SYSTEM, EVENT, BY_CLOCK = "", " TIMESTAMP BY t", " TIMESTAMP BY t WATERMARK BY CLOCK"

Row = tuple[object, ...]


@dataclass
class Model:
    """A stream of orders and a table of prices, as lists. Times are seconds."""

    from_arrival: bool = False
    orders: list[tuple[int, str | None, int]] = field(default_factory=list)
    entries: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    """For each key its entries in stream order: the time, and the price. None is a deletion."""

    def price(self, key: str | None, time: int) -> int | None:
        """The price of a key that held at a time."""
        entries = self.entries.get(key or "", [])
        past = [price for begin, price in entries if begin <= time]
        if past:
            return past[-1]
        return entries[0][1] if entries and not self.from_arrival else None

    def rows(self, now: int | None, floor: int, *, left: bool, width: int) -> list[Row]:
        """The rows of the join at NOW, with prices of at least `floor`. Only orders of the last `width` seconds."""
        rows = list[Row]()
        for number, key, time in self.inside(now, width):
            price = self.price(key, time)
            price = None if price is None or price < floor else price
            if left or price is not None:
                rows.append((number, price))
        return rows

    def inside(self, now: int | None, width: int) -> list[tuple[int, str | None, int]]:
        """The orders of the last `width` seconds at NOW."""
        return [o for o in self.orders if now is not None and now - width * SECOND <= o[2] * SECOND <= now]

    def unknown(self, now: int | None, width: int) -> int:
        """The orders whose keys have no version yet, and may get one that holds at their times."""
        return sum(key is not None and key not in self.entries for _, key, _ in self.inside(now, width))


@dataclass
class Copy:
    """The rows of a query at a client, which are compared with the current answer at each sync."""

    position: Earlier = NOTHING
    rows: list[Row] = field(default_factory=list)

    def sync(self, soup: LocalPSoup, query: int) -> None:
        snapshot = soup.engine.snapshot()
        change = again_compared(snapshot, snapshot.query(query, soup.tenant), self.position, Question(soup.clock.now()))
        if isinstance(change, Unchanged):
            self.position = change.held
            return
        rows = [tuple(row.values()) for row in change.table.to_pylist()]
        assert [self.rows[place] for place in change.stay] == [rows[place] for place in change.at]
        self.rows, self.position = rows, change.first(len(rows))


@dataclass
class BoxCopy:
    """The rows of a query at a client, by their tuple IDs. Only new rows come."""

    position: HeldBox | None = None
    rows: dict[tuple[int, ...], Row] = field(default_factory=dict)

    def sync(self, soup: LocalPSoup, query: int) -> list[Row]:
        snapshot, question = soup.engine.snapshot(), Question(soup.clock.now())
        record = snapshot.query(query, soup.tenant)
        assert boxed(snapshot, record, question)
        changes = joined_since(snapshot, record, self.position, question)
        stored = {
            ids: row
            for ids, row in self.rows.items()
            if all(low <= n < high for n, (low, high) in zip(ids, changes.keep, strict=True))
        }
        assert len(stored) == len(self.rows) or changes.any_leaves()
        for piece in changes.pieces(3, 1 << 20):
            for first, second, *row in (tuple(each.values()) for each in piece.rows.to_pylist()):
                assert (first, second) not in stored
                stored[first, second] = tuple(row)
        self.rows, self.position = stored, changes.all_held
        return [row for _, row in sorted(stored.items())]


def plan_of(soup: LocalPSoup, query: int) -> Node:
    return soup.engine.snapshot().query(query, soup.tenant).query.plan


def made(stream: str, table: str, options: str = "") -> tuple[LocalPSoup, VirtualClock]:
    clock = VirtualClock(1_000 * SECOND)
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), clock)
    time = ", t TIMESTAMP NOT NULL"
    soup.execute(f"CREATE STREAM orders (n BIGINT, k TEXT{time if stream else ''}){stream}")
    soup.execute(f"CREATE TABLE prices (k TEXT, price BIGINT{time if table else ''}, PRIMARY KEY (k)){table}{options}")
    return soup, clock


JOINS = {
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k": (0, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices AS OF o p USING (k)": (0, True),
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k WHERE p.price >= 5": (5, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k AND p.price >= 5": (5, True),
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON o.k = p.k AND p.price + o.n >= 5 + o.n": (5, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k AND p.price + o.n >= 5 + o.n": (5, True),
    "SELECT o.n, p.price FROM orders o [RANGE 3 SECONDS] JOIN prices p AS OF o ON p.k = o.k": (0, False),
    "SELECT n, price FROM (SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k) d": (0, False),
}


@pytest.mark.parametrize("stream", [SYSTEM, EVENT])
@pytest.mark.parametrize("table", [SYSTEM, EVENT, BY_CLOCK])
def test_each_tuple_meets_the_version_of_its_own_time(stream: str, table: str) -> None:
    for seed in range(scaled(4)):
        drawn = random.Random(seed)
        from_arrival = seed % 2 == 1
        soup, clock = made(stream, table, f" FIRST VERSION FROM {'ARRIVAL' if from_arrival else 'START'}")
        model = Model(from_arrival=from_arrival)
        queries = {soup.register(text): (*case, text) for text, case in JOINS.items()}
        shown = {query: list[Row]() for query in queries}
        copies = {query: Copy() for query in queries}
        boxes = {query: BoxCopy() for query, case in queries.items() if paired(plan_of(soup, query)) is not None}
        assert len(boxes) == 5
        for number in range(24):
            clock.advance(seconds=drawn.randint(0, 2))
            _push(soup, clock, model, drawn, number, stream, table)
            for query in drawn.sample(list(queries), 1):
                floor, left, text = queries[query]
                answer = again(soup.invoke, query)
                rows = [tuple(row.values()) for row in answer.to_table().to_pylist()]
                width = 3 if "RANGE" in text else 1_000_000
                assert rows == model.rows(answer.completeness.now, floor, left=left, width=width), (seed, number, text)
                assert answer.unknown == (model.unknown(answer.completeness.now, width) if table else 0), (seed, text)
                stay = (
                    shown[query] if from_arrival and not table else [row for row in shown[query] if row[1] is not None]
                )
                stay = [] if "RANGE" in text else stay
                assert [row for row in stay if row not in rows] == [], "a version never changes a row that was shown"
                shown[query] = rows
                copies[query].sync(soup, query)
                assert copies[query].rows == rows, (seed, number, text)
                assert query not in boxes or boxes[query].sync(soup, query) == rows, (seed, number, text)


def _push(
    soup: LocalPSoup, clock: VirtualClock, model: Model, drawn: random.Random, number: int, stream: str, table: str
) -> None:
    """Push an order, or one or two entries of prices."""
    now = clock.now() // SECOND
    key = drawn.choice(KEYS)
    if drawn.random() < 0.5:
        time = max([now - drawn.randint(0, 2), *(time for *_, time in model.orders)]) if stream else now
        columns = {"n": [number], "k": [key if drawn.random() < 0.9 else None]}
        model.orders.append((number, columns["k"][0], time))
        soup.push("orders", pa.table(columns | ({"t": _times([time])} if stream else {})))
        return
    entered = [time for entries in model.entries.values() for time, _ in entries]
    time = max([now - drawn.randint(0, 2), *entered]) if table else now
    if table == BY_CLOCK:
        time = now
    if table and key not in model.entries:  # a first version is never late
        time -= drawn.choice([0, 5, 15])
    keys = [key] * drawn.randint(1, 2) if table else [key]
    prices = [drawn.choice([None, *range(3, 8)]) for _ in keys]
    rows = {"k": keys, "price": prices, "_deleted": [price is None for price in prices]}
    times = [time + place for place in range(len(keys))] if table == EVENT else [time] * len(keys)
    for each, price, at in zip(keys, prices, times, strict=True):
        model.entries.setdefault(each, []).append((at, price))
    soup.push("prices", pa.table(rows | ({"t": _times(times)} if table else {})))


def _times(seconds: list[int]) -> pa.Array:
    return pa.array([second * SECOND for second in seconds], MICROS)


def pushed(soup: LocalPSoup, stream: str, **columns: list[object]) -> None:
    soup.push(stream, pa.table({name: _times(each) if name == "t" else each for name, each in columns.items()}))  # type: ignore[arg-type]


def asked(soup: LocalPSoup, text: str, **options: int) -> list[Row]:
    return [tuple(row.values()) for row in soup.ask(text, **options).to_table().to_pylist()]


@pytest.mark.seeded("a version of a table begins after its own time in a join AS OF")
@pytest.mark.seeded("a version of a table also holds at the time at which a deletion ends it")
def test_a_version_holds_from_its_time_until_the_next_and_not_at_it() -> None:
    """Both edges: the version of 10 holds at 10, and not at 20. The deletion of 30 ends the version of 20."""
    soup, _ = made(EVENT, EVENT, " FIRST VERSION FROM ARRIVAL")
    pushed(soup, "prices", k=["a", "a", "b"], price=[1, 2, 9], t=[10, 20, 30])
    pushed(soup, "prices", k=["a", "b"], price=[None, 9], _deleted=[True, False], t=[30, 40])
    pushed(soup, "orders", n=[9, 10, 19, 20, 29, 30], k=["a"] * 6, t=[9, 10, 19, 20, 29, 30])
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    assert asked(soup, join) == [(10, 1), (19, 1), (20, 2), (29, 2)]


@pytest.mark.seeded("a join AS OF shows a tuple at the watermark of the table")
def test_a_tuple_is_shown_only_below_the_watermark_of_the_table() -> None:
    """At the watermark another version may still come."""
    soup, _ = made(EVENT, EVENT)
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "orders", n=[1, 2], k=["a", "a"], t=[10, 12])
    assert asked(soup, join) == []  # the table has no watermark yet
    pushed(soup, "prices", k=["a"], price=[1], t=[10])
    assert asked(soup, join) == []
    pushed(soup, "prices", k=["a"], price=[2], t=[10])
    pushed(soup, "prices", k=["b"], price=[3], t=[11])
    assert asked(soup, join) == [(1, 2)]
    pushed(soup, "prices", k=["b"], price=[3], t=[13])
    assert asked(soup, join) == [(1, 2), (2, 2)]


def test_a_table_of_system_time_shows_tuples_before_the_clock() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "prices", k=["a"], price=[1])
    pushed(soup, "orders", n=[1], k=["a"])
    assert asked(soup, join) == []  # a price of this microsecond may follow
    pushed(soup, "prices", k=["a"], price=[2])
    clock.advance(seconds=1)
    assert asked(soup, join) == [(1, 2)]


@pytest.mark.seeded("a join AS OF reads the present versions of a table")
def test_an_upsert_does_not_rewrite_the_past() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    join = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    pushed(soup, "prices", k=["a"], price=[1])
    clock.advance(seconds=1)
    pushed(soup, "orders", n=[1], k=["a"])
    for price in (2, 3):
        clock.advance(seconds=1)
        pushed(soup, "prices", k=["a"], price=[price])
        assert soup.invoke(join).to_table()["price"].to_pylist() == [1]
    assert asked(soup, "SELECT o.n, p.price FROM orders o JOIN prices p ON p.k = o.k") == [(1, 3)]


def test_a_table_that_is_idle_does_not_hold_the_join() -> None:
    soup, clock = made(EVENT, " TIMESTAMP BY t IDLE AFTER 5 SECONDS")
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "prices", k=["a"], price=[1], t=[10])
    pushed(soup, "orders", n=[1], k=["a"], t=[12])
    assert asked(soup, join) == []
    clock.advance(seconds=6)
    pushed(soup, "orders", n=[2], k=["a"], t=[13])
    assert asked(soup, join) == [(1, 1), (2, 1)]
    query = soup.register(join)
    assert soup.explain(query).nodes[0].updates == "strict, time"


def test_a_deletion_ends_a_version_and_matches_nothing() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    for number, row in enumerate(({"price": [1], "_deleted": [False]}, {"price": [None], "_deleted": [True]})):
        pushed(soup, "prices", k=["a"], **row)
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[number], k=["a"])
        clock.advance(seconds=1)
    join = "FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k"
    assert asked(soup, f"SELECT o.n, p.price, p.k {join}") == [(0, 1, "a"), (1, None, None)]
    assert asked(soup, f"SELECT o.n {join} WHERE p.price IS NULL") == [(1,)]
    assert asked(soup, f"SELECT count(*), count(p.k) {join}") == [(2, 1)]
    assert asked(soup, "SELECT o.n FROM orders o JOIN prices p AS OF o ON p.k = o.k WHERE p.price IS NULL") == []


def test_joins_as_of_stand_among_other_joins() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    soup.execute("CREATE TABLE names (k TEXT, region BIGINT, name TEXT, PRIMARY KEY (k, region))")
    pushed(soup, "prices", k=["a", "b"], price=[1, 5])
    pushed(soup, "names", k=["a", "a", "b"], region=[1, 2, 1], name=["A1", "A2", "B1"])
    clock.advance(seconds=1)
    pushed(soup, "orders", n=[1, 2, 3], k=["a", "b", "c"])
    clock.advance(seconds=1)
    pushed(soup, "prices", k=["a"], price=[100])
    pushed(soup, "names", k=["a"], region=[1], name=["new"])
    clock.advance(seconds=1)
    both = "orders o JOIN prices p AS OF o ON p.k = o.k JOIN names x AS OF o ON x.k = o.k AND x.region = 1"
    assert asked(soup, f"SELECT o.n, p.price, x.name FROM {both}") == [(1, 1, "A1"), (2, 5, "B1")]
    mixed = "orders o LEFT JOIN names x AS OF o ON x.k = o.k AND x.region = o.n JOIN prices p ON p.k = o.k"
    assert asked(soup, f"SELECT o.n, p.price, x.name FROM {mixed}") == [(1, 100, "A1"), (2, 5, None)]
    inside = "SELECT 1 FROM orders y JOIN prices p AS OF y ON p.k = y.k WHERE y.n = o.n AND p.price < 5"
    assert asked(soup, f"SELECT o.n FROM orders o WHERE EXISTS ({inside})") == [(1,)]
    assert asked(soup, f"SELECT o.n FROM orders o WHERE NOT EXISTS ({inside})") == [(2,), (3,)]
    grouped = f"SELECT p.price, count(*) FROM {both} GROUP BY p.price ORDER BY 1"
    assert asked(soup, f"{grouped} LIMIT 1") == [(1, 1)]
    earlier = clock.now() - 1_500_000
    assert asked(soup, f"SELECT o.n, p.price FROM {both}", as_of=earlier) == [(1, 1), (2, 5)]


def test_why_and_explain_name_the_version_that_held() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    query = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    for price in (1, 2):
        pushed(soup, "prices", k=["a"], price=[price])
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[price], k=["a"])
        clock.advance(seconds=1)
    pushed(soup, "orders", n=[3], k=["b"])
    clock.advance(seconds=1)
    condition = "AS OF JOIN o.k = p.k AND p holds at o._time"
    for order, version in ((0, 0), (1, 1)):
        met = soup.why(query, order, source="o").steps[-1]
        assert (met.text, met.passed, met.partners) == (condition, True, (("p", version),))
        shown = soup.why(query, version, source="p")
        assert (shown.kept_out, shown.steps[-1].partners) == (None, (("o", order),))
    assert not soup.why(query, 2, source="o").steps[-1].passed
    nodes = soup.explain(query).nodes
    assert [node.updates for node in nodes] == ["monotonic"] * 4
    assert (nodes[1].operator, nodes[1].text) == ("as of join", condition)


def test_copies_of_joins_as_of_get_only_new_rows_until_history_may_lose_a_version() -> None:
    soup, clock = made(SYSTEM, SYSTEM, " HISTORY 1 MINUTE")
    query = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    assert "  copies   only new rows come, and the window tells which rows leave" in soup.explain(query).lines()
    copy = BoxCopy()
    for number in range(3):
        pushed(soup, "prices", k=["a"], price=[number])
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[number], k=["a"])
        clock.advance(seconds=1)
        assert copy.sync(soup, query) == [(each, each) for each in range(number + 1)]
    record = soup.engine.snapshot().query(query, soup.tenant)
    assert boxed(soup.engine.snapshot(), record, Question(clock.now()))
    clock.advance(seconds=60)
    assert soup.invoke(query).to_table().num_rows < 3
    assert not boxed(soup.engine.snapshot(), record, Question(clock.now()))


@pytest.mark.parametrize(
    ("joined", "problem", "reason"),
    [
        ("orders o JOIN prices p AS OF o ON p.price = o.n", "p AS OF o needs the whole primary key in ON; k", "KEY"),
        ("orders o JOIN prices p AS OF o ON upper(p.k) = o.k", "k has no equality", "KEY"),
        ("orders o JOIN prices p AS OF o ON p.k = p.k", "k has no equality", "KEY"),
        ("orders o JOIN numbers p AS OF o ON p.k = 0.5::DOUBLE", "k has no equality", "KEY"),
        ("orders o JOIN prices p AS OF o", "whole primary key", "KEY"),
        ("orders o JOIN orders p AS OF o ON p.k = o.k", "'p' is not a table", "AS_OF_WITHOUT_TABLE"),
        ("orders o JOIN (SELECT * FROM prices) p AS OF o ON p.k = o.k", "'p' is not a table", "AS_OF_WITHOUT_TABLE"),
        ("orders o JOIN prices p AS OF z ON p.k = o.k", "they are called o", "UNKNOWN_SOURCE"),
        ("prices o JOIN prices p AS OF o ON p.k = o.k", "it is a table", "AS_OF_WITHOUT_STREAM"),
        ("(SELECT k FROM orders LIMIT 1) o JOIN prices p AS OF o ON p.k = o.k", "a subselect", "AS_OF_WITHOUT_STREAM"),
        ("prices p AS OF o JOIN orders o ON p.k = o.k", "needs a JOIN before it", "SQL"),
        ("orders o, prices p AS OF o WHERE p.k = o.k", "needs a JOIN before it", "SQL"),
        ("orders o JOIN prices AS OF o p AS OF o ON p.k = o.k", "has one AS OF", "SQL"),
        ("orders o FULL JOIN prices p AS OF o ON p.k = o.k", "FULL JOIN with AS OF", "NOT_SUPPORTED"),
        ("orders o CROSS JOIN prices p AS OF o", "CROSS JOIN with AS OF", "NOT_SUPPORTED"),
    ],
)
def test_joins_as_of_that_are_refused(joined: str, problem: str, reason: str) -> None:
    soup, _ = made(SYSTEM, SYSTEM)
    soup.execute("CREATE TABLE numbers (k BIGINT, PRIMARY KEY (k))")
    with pytest.raises(SqlError) as refused:
        soup.ask(f"SELECT 1 AS one FROM {joined}")
    assert problem in str(refused.value) and reason in refused.value.reason
    assert refused.value.hint


def test_of_may_be_the_name_of_a_source() -> None:
    soup, _ = made(SYSTEM, SYSTEM)
    assert asked(soup, "SELECT of.k FROM orders o JOIN prices AS of ON of.k = o.k") == []
