"""A stream of orders and a table of prices on both sides: the engine, and lists with a version for each entry.

A push is an order, or some prices. A first version of a key may lie below the watermark.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

from psoup.answer.copies.answer_again import NOTHING, Earlier, Unchanged
from psoup.answer.copies.answer_again import again as again_compared
from psoup.answer.copies.join_since import HeldBox, boxed, joined_since
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.nodes import Node
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again

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


def push(
    soup: LocalPSoup, clock: VirtualClock, model: Model, drawn: random.Random, number: int, stream: str, table: str
) -> None:
    """Push an order, or one or two entries of prices."""
    now = clock.now() // SECOND
    key = drawn.choice(KEYS)
    if drawn.random() < 0.5:
        time = max([now - drawn.randint(0, 2), *(time for *_, time in model.orders)]) if stream else now
        columns = {"n": [number], "k": [key if drawn.random() < 0.9 else None]}
        model.orders.append((number, columns["k"][0], time))
        soup.push("orders", pa.table(columns | ({"t": times_of([time])} if stream else {})))
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
    soup.push("prices", pa.table(rows | ({"t": times_of(times)} if table else {})))


def times_of(seconds: list[int]) -> pa.Array:
    return pa.array([second * SECOND for second in seconds], MICROS)


def pushed(soup: LocalPSoup, stream: str, **columns: list[object]) -> None:
    soup.push(stream, pa.table({name: times_of(each) if name == "t" else each for name, each in columns.items()}))  # type: ignore[arg-type]


def asked(soup: LocalPSoup, text: str, **options: int) -> list[Row]:
    return [tuple(row.values()) for row in again(soup.ask, text, **options).to_table().to_pylist()]
