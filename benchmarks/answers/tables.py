"""Rows `table.100k.alerts`, `aggregate.many.100k`, …: the answers of 100,000 queries of one statement, all at once.

    table.100k.alerts       SELECT item, price FROM s WHERE usr = ?      some rows for each user
    aggregate.many.100k     SELECT count(*) FROM s WHERE usr = ?         a row for each user; .sum: count, sum and max
    aggregate.many.1m       the same of a million users
    aggregate.rank.100k     … GROUP BY item ORDER BY count(*) DESC LIMIT 10     the top ten of each user

In the embedded engine as one Arrow table, `.sdk` from a service as one. DuckDB answers all queries with a statement: a
join of the window with the table of the queries, whose table holds the window and nothing else, and for `rank` a window
function over it. "A statement each" (`.each`), "an invocation each" and "InvokeMany" are a sample, scaled to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup_client import Client

WINDOW, OPEN, BATCH = 1 << 20, 16_384, 8_192
SAMPLE = 64
_BLOCK = 100_000
"""Queries that are registered together."""
_EACH = f"DuckDB, a statement each ({SAMPLE}, scaled)"
CREATE = "CREATE STREAM s (usr BIGINT NOT NULL, item BIGINT NOT NULL, price BIGINT NOT NULL)"


@dataclass(frozen=True)
class Form:
    """The output of each query, and the peers' statement for all of them. `{w}`: the tuples of the window."""

    select: str
    duckdb: str
    order: str
    polars: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
    end: str = ""
    users: int = 100_000
    served: bool = True
    each: bool = False
    """Whether DuckDB is asked for each query by itself, too."""
    targets: dict[str, Target] = field(default_factory=dict)


_JOINED = "SELECT place AS _query, {} FROM q LEFT JOIN s ON s.usr = q.usr GROUP BY ALL ORDER BY 1"
FORMS = {
    "table.100k.alerts": Form(
        "item, price",
        "SELECT place AS _query, item, price FROM s JOIN q ON s.usr = q.usr ORDER BY 1",
        "all",
        lambda q, s: q.join(s, on="usr").select("place", "item", "price").sort("place"),
        targets={"DuckDB": Target(at_least=1)},
    ),
    "aggregate.many.100k": Form(
        "count(*) AS n",
        _JOINED.format("count(s.usr) AS n"),
        "_query",
        lambda q, s: q.join(s.group_by("usr").len("n"), on="usr", how="left").select("place", pl.col("n").fill_null(0)),
        each=True,
        targets={"engine": Target(value_at_most=10), "sdk": Target(value_at_most=40), "DuckDB": Target(at_least=5)},
    ),
    "aggregate.many.1m": Form(
        "count(*) AS n",
        _JOINED.format("count(s.usr) AS n"),
        "_query",
        lambda q, s: q.join(s.group_by("usr").len("n"), on="usr", how="left").select("place", pl.col("n").fill_null(0)),
        users=1_000_000,
        served=False,
        targets={"engine": Target(value_at_most=120)},
    ),
    "aggregate.rank.100k": Form(
        "item, count(*) AS n",
        "SELECT place AS _query, item, count(*) AS n FROM s JOIN q ON s.usr = q.usr GROUP BY place, item"
        " QUALIFY row_number() OVER (PARTITION BY place ORDER BY n DESC, item) <= 10 ORDER BY 1",
        "all",
        lambda q, s: (
            q.join(s, on="usr")
            .group_by("place", "item")
            .len("n")
            .sort("place", "n", "item", descending=[False, True, False])
            .group_by("place", maintain_order=True)
            .head(10)
        ),
        end=" GROUP BY item ORDER BY count(*) DESC LIMIT 10",
        targets={"DuckDB": Target(at_least=3)},
    ),
    "aggregate.many.100k.sum": Form(
        "count(*) AS n, sum(price) AS total, max(price) AS most",
        _JOINED.format("count(s.usr) AS n, sum(price) AS total, max(price) AS most"),
        "_query",
        lambda q, s: q.join(
            s.group_by("usr").agg(pl.len().alias("n"), pl.sum("price"), pl.max("price").alias("most")),
            on="usr",
            how="left",
        ).drop("usr"),
        targets={"engine": Target(value_at_most=25)},
    ),
}


def rows(run: Run) -> Iterator[Row]:
    """Rows of selections, in the engine and through the SDK."""
    return _rows(run, "table.")


def aggregate_rows(run: Run) -> Iterator[Row]:
    """Rows of aggregates, in the engine and through the SDK."""
    return _rows(run, "aggregate.many")


def rank_rows(run: Run) -> Iterator[Row]:
    """Rows of rankings, in the engine and through the SDK."""
    return _rows(run, "aggregate.rank")


def _rows(run: Run, beginning: str) -> Iterator[Row]:
    for name, form in FORMS.items():
        if name.startswith(beginning):
            yield from run.part(partial(_measured, name, form, run), name, *([f"{name}.sdk"] if form.served else []))


def _measured(name: str, form: Form, run: Run) -> Iterator[Row]:
    users, window, repeats = run.of((form.users, WINDOW, 9), (form.users, WINDOW, 5), (64, 4 * BATCH, 1))
    data, queries = _data(users, window + OPEN)
    statement = f"SELECT {form.select} FROM s WHERE usr = ?{form.end} BEGIN (NOW - {window} ROWS)"
    soup = LocalPSoup()
    soup.execute(CREATE)
    parts = [queries.slice(start, _BLOCK) for start in range(0, users, _BLOCK)]
    ids = np.concatenate([soup.register_many(statement, part) for part in parts])
    soup.maintain()
    for start in range(0, len(data), BATCH):
        soup.push("s", data.slice(start, BATCH))
    soup.maintain()
    window_rows = data.slice(len(data) - window)
    peer = duckdb.connect()
    peer.register("kept", window_rows)
    peer.register("asked", queries.append_column("place", pa.array(np.arange(users))))
    peer.execute("CREATE TABLE s AS SELECT * FROM kept; CREATE TABLE q AS SELECT * FROM asked")
    frames = pl.from_arrow(peer.sql("FROM q").to_arrow_table()), pl.from_arrow(window_rows)
    together = partial(_table, soup, ids)
    _check(name, together(), peer.sql(form.duckdb).to_arrow_table(), form)
    few = ids[:SAMPLE].tolist()
    turns: dict[str, Callable[[], Any]] = {
        "": together,
        "DuckDB, one join with the queries": lambda: peer.sql(form.duckdb).to_arrow_table(),
        "Polars, one join with the queries": lambda: form.polars(*frames),  # type: ignore[arg-type]
        f"PSoup, an invocation each ({SAMPLE}, scaled)": lambda: [soup.invoke(query).to_table() for query in few],
    }
    if form.each:
        turns[_EACH] = partial(_each, peer, form, queries["usr"][:SAMPLE].to_pylist())
    times = _in_turns(turns, repeats, dict.fromkeys(list(turns)[3:], users / len(few)))
    ours, theirs = times.pop(""), list(times.items())
    target = form.targets.get("engine") or form.targets.get("DuckDB")
    yield from beside(name, ours, "ms", theirs, [], target, details={"rows": together().num_rows})
    if "DuckDB" in form.targets and "engine" in form.targets:
        yield Row(f"{name}.join", ours, "ms", *theirs[0], form.targets["DuckDB"])
    if form.each:
        yield Row(f"{name}.each", ours, "ms", _EACH, times[_EACH], Target(at_least=500))
    if form.served:
        yield from _served(f"{name}.sdk", form, statement, queries, data, repeats, peer)


def _data(users: int, count: int) -> tuple[pa.Table, pa.Table]:
    """So many tuples of twice as many users as have a query, and the parameters of the queries."""
    rng = np.random.default_rng(5)
    spans = {"usr": 2 * users, "item": 10_000, "price": 1_000}
    data = pa.table({name: rng.integers(0, span, count) for name, span in spans.items()})
    return data, pa.table({"usr": rng.permutation(2 * users)[:users]})


def _served(
    name: str, form: Form, statement: str, queries: pa.Table, data: pa.Table, repeats: int, peer: Any
) -> Iterator[Row]:
    with processes.service() as address, Client(address, timeout=120) as client:
        client.create_stream(CREATE)
        standing = client.register_many(statement, queries)
        done = client.push("s", data)
        client.wait_for(done.sequence)
        _check(name, client.invoke_table(standing).to_arrow(), peer.sql(form.duckdb).to_arrow_table(), form)
        few = standing[:SAMPLE]
        many = f"PSoup, InvokeMany ({SAMPLE}, scaled)"
        turns: dict[str, Callable[[], Any]] = {
            "": lambda: client.invoke_table(standing).to_arrow(),
            "DuckDB, one join with the queries": lambda: peer.sql(form.duckdb).to_arrow_table(),
            many: lambda: list(client.invoke_many(few)),
        }
        times = _in_turns(turns, repeats, {many: len(standing) / len(few)})
    yield from beside(name, times.pop(""), "ms", list(times.items()), [], form.targets.get("sdk"))


def _each(peer: Any, form: Form, users: list[int]) -> None:
    """DuckDB's answers to some queries, a statement each."""
    for user in users:
        peer.sql(f"SELECT {form.select} FROM s WHERE usr = {user}{form.end}").to_arrow_table()


def _table(soup: LocalPSoup, ids: Any) -> pa.Table:
    return soup.invoke_table(ids).to_table()


def _in_turns(turns: dict[str, Callable[[], Any]], repeats: int, scales: dict[str, float]) -> dict[str, Sample]:
    """Milliseconds of each, which take turns; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(repeats + 1):
        for name, call in turns.items():
            times[name].append(1e3 * seconds(call) * scales.get(name, 1.0))
    return {name: Sample.of(values[1:]) for name, values in times.items()}


def _check(name: str, ours: pa.Table, theirs: pa.Table, form: Form) -> None:
    """Compare all rows, whatever the order of those of a query."""
    columns = ours.column_names
    keys = [(column, "ascending") for column in columns]
    mine, other = (pa.table({c: pc.cast(t[i], pa.int64()) for i, c in enumerate(columns)}) for t in (ours, theirs))
    if not mine.sort_by(keys).equals(other.sort_by(keys)):
        raise AssertionError(f"{name}: {ours.num_rows} rows of ours and {theirs.num_rows} of DuckDB's differ")
