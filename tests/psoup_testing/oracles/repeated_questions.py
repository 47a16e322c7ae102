"""Streams of values that are near and far, and questions that are asked again and again: each answer is DuckDB's.

few 9 rows      i v g        so few that more than the rows of the stream may be looked up
r   200 rows    i v g        v: one type, values of `near_far`, also NULL; i: numbers the rows; g: one of few
s   400 rows    i v g        chunks of 64, all but the last closed; all that is kept is made at once
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import BIGINT, TEXT, Attribute, DataType, Schema
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.histories.near_far import near_and_far
from psoup_testing.histories.values import Value, arrow_array, duck_literal, psoup_literal
from psoup_testing.oracles.altered_queries import register_paired
from psoup_testing.oracles.duckdb_answers import difference
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.questions import TIMES, plain_rows, rows_of
from psoup_testing.suite.kept_structures import KEPT

ROWS = {"few": 9, "r": 200, "s": 400}
LATEST = 150
"""Rows of a window that counts rows."""
FORMS = (
    "v = {0}",
    "v <> {0}",
    "v IN ({all})",
    "v IN ({all}) OR v = {low}",
    "v NOT IN ({all})",
    "v < {low} OR v > {high}",
    "v >= {low}",
)
SHOWN = ("i", "DISTINCT i % 7 AS i", "count(*) AS n, sum(i) AS t", "g, count(*) AS n, max(i) AS t")
JOINED = ("r.i AS i, s.i AS j", "count(*) AS n, sum(s.i) AS t", "r.g AS g, count(*) AS n, min(s.i) AS t")


Make = Callable[[EngineConfig, VirtualClock], LocalPSoup]


class AskedAgain:
    """An engine and DuckDB, with the same rows."""

    def __init__(self, data_type: DataType, seed: int, make: Make = LocalPSoup, ends: str = "") -> None:
        """`make`: makes the engine; `ends`: of CREATE STREAM."""
        self.source, self.type = random.Random(seed), data_type
        self.values = near_and_far(data_type, self.source, self.source.choice((8, 300)))
        self.schema = Schema((Attribute("i", BIGINT, False), Attribute("v", data_type), Attribute("g", BIGINT)))
        self.standing = list[tuple[Any, list[Any], str]]()
        """Queries that stay registered together, what they answer, and their form."""
        self.soup = make(EngineConfig(chunk_rows=64, list_limit=8, shape=EAGER), VirtualClock(0))
        self.duck: duckdb.DuckDBPyConnection = empty_database()
        for name, rows in ROWS.items():
            self.soup.execute(f"CREATE STREAM {name} (i BIGINT NOT NULL, v {data_type}, g BIGINT){ends}")
            self._fill(name, rows)

    def close(self) -> None:
        """Close DuckDB."""
        self.soup.check()
        drop_database(self.duck)

    def _fill(self, name: str, rows: int) -> None:
        source = self.source
        values = [source.choice((*self.values, None) if source.random() < 0.1 else self.values) for _ in range(rows)]
        columns: list[list[Value]] = [list(range(rows)), values, [source.randrange(4) for _ in range(rows)]]
        arrays = [arrow_array(a.type, own) for a, own in zip(self.schema.attributes, columns, strict=True)]
        table = pa.table(arrays, names=list(self.schema.names))
        self.duck.register("pushed", table)
        self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM pushed")
        self.duck.unregister("pushed")
        for start in range(0, rows, 100):
            self.soup.push(name, table.slice(start, 100), refused="count")
        self.soup.maintain()

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Conditions on `v`, for PSoup and for DuckDB, one of each form: most of them have several intervals."""
        ordered: list[Any] = list(dict.fromkeys(self.values))
        if self.type != TEXT:  # of which the pairs lie side by side
            ordered.sort()
        for form in FORMS:
            count, first = self.source.choice((2, 5)), self.source.randrange(len(ordered))
            near = ordered[first : first + count]
            some = near if self.source.random() < 0.8 else self.source.choices(self.values, k=count)
            low, high = self.source.choices(self.values, k=2)
            bounds = some, low, high
            yield self._written(form, *bounds, psoup_literal), self._written(form, *bounds, duck_literal)

    def _written(self, form: str, some: Sequence[Value], low: Value, high: Value, literal: Any) -> str:
        shown = [literal(self.type, value) for value in some]
        bounds = {"low": literal(self.type, low), "high": literal(self.type, high)}
        return form.format(shown[0], all=", ".join(shown), **bounds)

    def single(self, where: str, duck: str) -> None:
        """Ask a question over one stream, and invoke it as a standing query."""
        for name, shown in (("few", SHOWN[0]), ("s", SHOWN[0]), ("s", self.source.choice(SHOWN[1:]))):
            ended = " GROUP BY g" if shown.startswith("g,") else ""
            wanted = self._wanted(f"SELECT {shown} FROM {name} WHERE {duck}{ended}")
            self._compare(f"SELECT {shown} FROM {name} WHERE {where}{ended}", wanted)

    def joined(self, where: str, duck: str) -> None:
        """A join of both streams by `v`, over all rows and over the latest."""
        on, other = (f"r.v = s.v AND ({text.replace('v ', 's.v ')})" for text in (where, duck))
        latest = " AND ".join(f"{name}.i >= {rows - LATEST}" for name, rows in ROWS.items() if name != "few")
        for shown in JOINED:
            ended = " GROUP BY r.g" if shown.startswith("r.g") else ""
            if self.source.random() < 0.5:
                wanted = self._wanted(f"SELECT {shown} FROM r, s WHERE {other}{ended}")
                self._compare(f"SELECT {shown} FROM r, s WHERE {on}{ended}", wanted, keep_pairs=True)
            else:
                wanted = self._wanted(f"SELECT {shown} FROM r, s WHERE {other} AND {latest}{ended}")
                self._compare(f"SELECT {shown} FROM r [ROWS {LATEST}], s [ROWS {LATEST}] WHERE {on}{ended}", wanted)

    def together(self, count: int) -> None:
        """Aggregates of many queries of one template in one call."""
        form = self.source.choice(("v IN ({0}, {1})", "v <> {0} AND v <> {1}", "v >= {0} AND v <> {1}"))
        low, high = (self.source.choices(self.values, k=count) for _ in range(2))
        select = "SELECT count(*) AS n, sum(i) AS t FROM s WHERE "
        given = pa.table({"p": arrow_array(self.type, low), "q": arrow_array(self.type, high)})
        ids = self.soup.register_many(select + form.format("?", "?"), given)
        wanted = list[Any]()
        for place, both in enumerate(zip(low, high, strict=True)):
            duck = form.format(*[duck_literal(self.type, value) for value in both])
            wanted.append((place, *self._wanted(select + duck)[0]))
        self.standing.append((np.array(ids), wanted, form))
        self.stand()

    def stand(self) -> None:
        """Ask for the tables of all that stays registered."""
        for ids, wanted, form in self.standing:
            for time in range(TIMES):
                with KEPT.compared():
                    rows = plain_rows(self.soup.invoke_table(ids).to_table())
                    problem = difference(wanted, _plain(rows))
                    assert problem is None, f"time {time + 1}: {problem}\n{form}"

    def _registered(self, sql: str, *, keep_pairs: bool = False) -> int:
        """Register a query. Its pairs are kept as it asks for them, or as AUTO chooses it."""
        if not keep_pairs or len(sql) % 2:
            return self.soup.register(sql, keep_pairs=keep_pairs)
        return register_paired(self.soup, sql)

    def _compare(self, sql: str, wanted: list[Any], **settings: bool) -> None:
        """Ask and invoke a question some times, before maintenance and after it."""
        query = self._registered(sql, **settings)
        for time in range(TIMES):
            for manner in ("asked", "invoked"):
                with KEPT.compared():
                    answer = self.soup.ask(sql) if manner == "asked" else self.soup.invoke(query)
                    problem = difference(wanted, sorted(_plain(rows_of(answer)), key=repr))
                    assert problem is None, f"{manner} for the {time + 1}. time: {problem}\n{sql}"
            if time == 1:
                self.soup.maintain()
        self.soup.unregister(query)

    def _wanted(self, sql: str) -> list[Any]:
        return sorted(_plain(plain_rows(self.duck.sql(sql).to_arrow_table())), key=repr)


def _plain(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Rows whose sums are whole numbers."""
    return [tuple([value if value is None else int(value) for value in row]) for row in rows]
