"""Rows `aggregate.many.100k.w2^24`, `arrival.q1m.eq.counters`: counters of very many users, over long windows and on
arrival.

    aggregate.many.100k.w2^24    count, sum and max of 100,000 users over 16 M tuples, beside the same over 1 M
    arrival.q1m.eq.counters      tuples that meet a million counters, beside a million selections of the same users

The counters' upkeep is in their time on arrival: what the first call for all of them takes longer than the next one, as
it folds all chunks that are there. In the embedded engine; both are checked against sums by NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

BATCH, OPEN, CHUNK, BLOCK = 8_192, 16_384, 65_536, 100_000
CREATE = "CREATE STREAM s (usr BIGINT NOT NULL, price BIGINT NOT NULL)"
COUNTERS = "SELECT count(*) AS n, sum(price) AS total, max(price) AS most FROM s WHERE usr = ?"


def rows(run: Run) -> Iterator[Row]:
    """Counters over a long window: a quick run has none."""
    if not run.quick or run.only:
        yield from run.part(partial(_long, run), "aggregate.many.100k.w2^24")


def arrival_rows(run: Run) -> Iterator[Row]:
    """A million counters on arrival: a quick run has none."""
    if not run.quick or run.only:
        yield from run.part(partial(_arrival, run), "arrival.q1m.eq.counters")


def _data(users: int, count: int) -> pa.Table:
    """So many tuples of twice as many users as have a query."""
    rng = np.random.default_rng(5)
    return pa.table({"usr": rng.integers(0, 2 * users, count), "price": rng.integers(0, 1_000, count)})


def _standing(statement: str, users: int) -> tuple[LocalPSoup, np.ndarray]:
    soup = LocalPSoup()
    soup.execute(CREATE)
    parts = [range(start, min(start + BLOCK, users)) for start in range(0, users, BLOCK)]
    ids = np.array([query for part in parts for query in soup.register_many(statement, pa.table({"usr": part}))])
    soup.maintain()
    return soup, ids


def _push(soup: LocalPSoup, data: pa.Table) -> None:
    for start in range(0, len(data), BATCH):
        soup.push("s", data.slice(start, BATCH))
    soup.maintain()


def _check(table: pa.Table, window: pa.Table, users: int) -> None:
    users_, price = window["usr"].to_numpy(), window["price"].to_numpy()
    counts, sums = np.bincount(users_, minlength=users)[:users], np.bincount(users_, price, users)[:users]
    greatest = np.full(2 * users, -1)
    np.maximum.at(greatest, users_, price)
    ours = [table[name].to_pylist() for name in ("n", "total", "most")]
    theirs = [counts.tolist(), [int(s) if n else None for s, n in zip(sums, counts, strict=True)]]
    if ours != [*theirs, [m if m >= 0 else None for m in greatest[:users].tolist()]]:
        raise AssertionError("NumPy disagrees with the counters")


def _long(run: Run) -> Iterator[Row]:
    users, window, repeats = run.of((100_000, 1 << 24, 9), (100_000, 1 << 22, 5), (64, 1 << 17, 1))
    data, short = _data(users, window + OPEN), window >> 4
    soup, ids = _standing(COUNTERS, users)
    _push(soup, data)
    times: dict[int, list[float]] = {window: [], short: []}
    for turn in range(repeats + 2):  # the first is read tuple by tuple, in the second the chunks are folded
        for rows in times:
            call = partial(_table, soup, ids, rows)
            call()
            times[rows].append(1e3 * seconds(call))
            if not turn:
                _check(call(), data.slice(len(data) - rows), users)
    long, near = (Sample.of(spent[2:]) for spent in times.values())
    target = Target(value_at_most=2 * 25)
    name, folded = "aggregate.many.100k.w2^24", soup.engine.snapshot().stream("s", "default").packs.held
    yield Row(name, long, "ms", "PSoup, a sixteenth of the window", near, target, details={"folds": folded})


def _table(soup: LocalPSoup, ids: np.ndarray, rows: int) -> pa.Table:
    return soup.invoke_table(ids, window=f"BEGIN (NOW - {rows} ROWS)").to_table()


def _arrival(run: Run) -> Iterator[Row]:
    users, chunks, repeats = run.of((1_000_000, 8, 5), (1_000_000, 4, 3), (300, 2, 1))
    data = _data(users, (chunks * repeats + 1) * CHUNK)
    (counted, ids), (plain, _) = (
        _standing(statement, users) for statement in (COUNTERS, "SELECT price FROM s WHERE usr = ?")
    )
    window, spent, alone = chunks * CHUNK, list[float](), list[float]()
    for turn in range(repeats):
        part = data.slice(turn * window, window)
        push = seconds(partial(_push, counted, part))
        if not turn:
            _table(counted, ids, window)  # notes what is asked for, and loads what is needed
        first, again = (seconds(partial(_table, counted, ids, window)) for _ in range(2))
        spent.append(window / (push + max(first - again, 0.0)))
        alone.append(window / seconds(partial(_push, plain, part)))
    _check(_table(counted, ids, window), data.slice((repeats - 1) * window, window), users)
    ours, theirs = Sample.of(spent), Sample.of(alone)
    yield Row("arrival.q1m.eq.counters", ours, "tuples/s", "PSoup, selections", theirs, Target(at_least=0.8))
