"""Preparation of a process before the first client: kernels are loaded, and libraries have run once.

To compile the kernels takes a minute the first time. Later the process loads them from disk in a second.
"""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa

from psoup.answer.copies.watched_clauses import WatchedClauses, clause_of
from psoup.answer.invoke import by_way
from psoup.config import EngineConfig
from psoup.execution.rows.record_batch import Message
from psoup.kernel_signatures import POSTGRES, compile_listed
from psoup.local import LocalPSoup
from psoup_service.process import late_kernels
from psoup_service.process.clock import GuardedClock
from psoup_service.process.kernel_compiler import compile_together

_STREAM = (
    "CREATE STREAM warm (a BIGINT, b DOUBLE, c TEXT, d DECIMAL(9,2), e DATE, f BOOLEAN, t TIMESTAMP) TIMESTAMP BY t"
)
_WHERE = (
    "a > 3",
    "a BETWEEN 2 AND 9 AND b < 0.5",
    "c = 'x1'",
    "c LIKE 'x%' AND a IN (1, 5, 7)",
    "d >= 1.5 OR f",
    "e IS NOT NULL AND a = 1",
    "a + 1 > 5 AND c LIKE '%1%'",
    "power(b, 2) > exp(b) AND atan2(b, 2.5) > 0",
    "c ILIKE '%X_1%' OR c ~ 'x[0-9]+'",
)
_JOINED = (
    "SELECT r.a, s.b, s.d FROM warm AS r, warm AS s WHERE r.a = s.a AND r.a < 9 AND s.a > 2 AND s.b < 0.9",
    "SELECT r.a, s.c FROM warm AS r, warm AS s WHERE r.a = s.a AND r.a < 9 AND s.a > 2 AND s.b < 0.9",
    "SELECT r.a, s.c FROM warm AS r, warm AS s WHERE r.c = s.c AND r.a < 3 AND r.t <= s.t AND r.a + s.a < 7",
    "SELECT r.a FROM warm AS r, warm AS s WHERE r.c = s.c AND r.a = s.a AND r.t <= s.t AND r.a < 3",
    "SELECT r.a FROM warm AS r, warm AS s, warm AS x WHERE r.t = s.t AND s.d = x.d AND s.a < 3 ORDER BY r.b LIMIT 9",
    "SELECT r.a FROM warm AS r, warm AS s, warm AS x WHERE r.t = s.t AND s.d = x.d AND r.a <= x.a AND s.a < 3",
    "SELECT count(*) AS n FROM warm AS r, warm AS s WHERE r.a = s.a",
    "SELECT count(*) AS n FROM warm AS r, warm AS s WHERE r.t <= s.t",
)
_HALVED = "SELECT r.a, s.t FROM warm AS r, warm AS s WHERE r.a = s.a AND r.a < 9 AND s.a > 2"
_TOGETHER = "SELECT r.a, s.b FROM warm AS r, warm AS s WHERE r.a = s.a AND r.a < ? AND s.a > ?"
_KEPT = "SELECT r.a FROM warm AS r, warm AS s WHERE r.t = s.t AND r.a < 9 AND s.a > 2"
_SHOWN = (
    "SELECT reverse(c), lpad(c, 9, 'x'), regexp_replace(c, '[0-9]', ''), epoch(t - t), sign(b), a % 5 FROM warm",
    "SELECT split_part(c, '1', 1) FROM warm",
    "SELECT count(*), sum(a), avg(b), min(a), max(b), first(c), last(a), max(c), stddev(b), sum(d) FROM warm WHERE f",
    "SELECT a, count(*), sum(d), avg(b), min(c), max(b), arg_max(a, b), approx_count_distinct(c) FROM warm GROUP BY a",
    "SELECT c, e, count(DISTINCT a), median(b), sum(a) AS n FROM warm GROUP BY c, e HAVING sum(a) > 3 ORDER BY n",
)
_RANKED = "SELECT max(a) AS a FROM warm WHERE a >= ? GROUP BY a % 5 ORDER BY count(*) DESC LIMIT 2"
_ROWS = 512
_START = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def warm_up(
    check: Callable[[], None] = lambda: None, tell: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Load all kernels, run a small workload on a separate engine, and tune the garbage collector. Returns the number
    of answer rows. Kernels that this process compiles afterwards are late. `check` is called before each kernel, and
    may raise. `tell` is called after each kernel if this start compiles them, with the number done, and of all.
    """
    compile_together(check, tell)
    soup, queries = _fed()
    rows = _select(soup, queries) + _answer(soup, _JOINED + _SHOWN) + _join(soup)
    _settle()
    late_kernels.watched()
    return rows


def load_postgres() -> None:
    """Load the kernels for clients of PostgreSQL, or compile them for some ten seconds, before a client waits for them.

    A service without their port leaves them out, and so keeps its time to start.
    """
    late = late_kernels.watched()
    late.expected = True
    try:
        compile_listed(listed=POSTGRES)
    finally:
        late.expected = False


_RARELY = 100
"""Collections of younger objects before a full one; Python's default is ten. A query leaves some 36 objects without
cycles. With the default, 3,000 statements made seven full collections of 10 to 70 ms (Zen 5); now 20,000 statements
make one.
"""


def _settle() -> None:
    """Exclude the present objects, mostly modules, which are never freed, from the garbage collector. Make full
    collections rare.

    A full collection stops all threads; with these objects it took 100 ms.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _RARELY)


def _fed() -> tuple[LocalPSoup, list[int]]:
    """An engine whose tuples met queries as they came, and the IDs of these queries."""
    soup = LocalPSoup(EngineConfig(chunk_rows=256), GuardedClock())
    soup.execute(_STREAM)
    queries = [soup.register(f"SELECT * FROM warm WHERE {where}") for where in _WHERE]
    queries += [soup.register(f"SELECT a FROM warm WHERE a = {value} AND b > 0.1") for value in range(192)]
    queries.append(soup.register(_JOINED[0]))  # before its tuples: they meet its sides as they come
    watched = _watched(soup, queries)
    for number in range(3):
        soup.push("warm", _batch(_START + dt.timedelta(hours=number)))
        watched.look(soup.engine.snapshot().stream("warm", soup.tenant))
    return soup, queries


def _select(soup: LocalPSoup, queries: list[int]) -> int:
    """Invoke queries one by one and many at once, with maintenance in between. Returns the number of answer rows."""
    block = soup.register_many("SELECT a FROM warm WHERE a >= ? AND c = ?", [(n % 9, f"x{n}") for n in range(512)])
    soup.unregister(block[0])
    rows = soup.invoke_table(block).to_table().num_rows
    named = pa.table({"a": range(600), "key": [f"k{n % 300}-{n}" for n in range(600)], "user": ["u"] * 600})
    for _ in range(2):
        soup.register_many("SELECT a FROM warm WHERE a < ?", named, key="key", labels=("user",), replace=True)
        soup.queries(labels={"user": "u"})
        soup.query("k0-0")
        soup.unregister_many(key_prefix="k1")
    soup.maintain()
    queries.append(soup.register("SELECT a, c FROM warm WHERE a > 2 ORDER BY a, c LIMIT 5 BEGIN (NOW - 600) END (NOW)"))
    rows += sum(soup.invoke(query).to_table().num_rows for query in queries)
    return rows + soup.invoke_table(block).to_table().num_rows


def _answer(soup: LocalPSoup, statements: Sequence[str]) -> int:
    """Register and invoke statements. Returns the number of answer rows."""
    return sum(soup.invoke(soup.register(statement)).to_table().num_rows for statement in statements)


def _join(soup: LocalPSoup) -> int:
    """Invoke many joins and groups at once, a join with kept pairs, and a join in halves. Returns the number of answer
    rows. Also match tuples with queries.
    """
    joins = soup.register_many(_TOGETHER, [(5 + n, n) for n in range(16)])
    tops = soup.register_many(_RANKED, [(n % 9,) for n in range(512)])
    rows = sum(soup.invoke_table(some).to_table().num_rows for some in (joins, tops))
    soup.register(_KEPT, keep_pairs=True)
    soup.maintain()
    rows += _answer(soup, [_KEPT])
    answer = soup.invoke(soup.register(_HALVED))
    rows += sum([len(part.gathered()) for part in by_way(answer, "parallel_join") if isinstance(part, Message)])
    soup.matches("warm", 0)
    soup.match("warm", _batch(_START + dt.timedelta(hours=3)))
    return rows


def _watched(soup: LocalPSoup, queries: list[int]) -> WatchedClauses:
    """The clauses of some queries, all watched."""
    snapshot = soup.engine.snapshot()
    watched = WatchedClauses(snapshot.stream("warm", soup.tenant))
    for query in queries:
        clause = clause_of(snapshot, snapshot.query(query, soup.tenant), None)
        if clause is not None:
            watched.add(clause)
    return watched


def _batch(start: dt.datetime) -> pa.Table:
    numbers = range(_ROWS)
    return pa.table(
        {
            "a": [n % 64 for n in numbers],
            "b": [n / _ROWS if n % 7 else None for n in numbers],
            "c": [f"x{n % 9}" for n in numbers],
            "d": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
            "e": [(start + dt.timedelta(days=n % 30)).date() for n in numbers],
            "f": [n % 2 == 0 for n in numbers],
            "t": [start + dt.timedelta(seconds=n) for n in numbers],
        }
    )
