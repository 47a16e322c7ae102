"""A random table, another one and a stream: the engine beside a list of versions, and DuckDB over the rows that hold.

duel.push() ...     both sides take rows; clocks and watermarks move, columns come, maintenance runs, starts.
duel.compare()      registered and unregistered queries, at present and as_of, one by one and as a table.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.model import BIGINT, SECOND, TEXT, TIMESTAMP, Attribute, Schema, StreamSpec
from psoup.sql import create_stream
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup, replayed
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.histories.table_histories import TableShape, draw_rows, draw_stream, draw_table, pushed
from psoup_testing.histories.table_queries import alone, joined
from psoup_testing.histories.values import arrow_array
from psoup_testing.oracles.model import Declaration, ModelStream
from psoup_testing.oracles.questions import again, plain_rows
from psoup_testing.oracles.table_versions import KEPT, NaiveTable, entry, options_of

START = 1_600_000_000 * SECOND
AHEAD = 10**15
OPTIONS = (
    "",
    " HISTORY 3 SECONDS",
    " DELETED FOR 4 SECONDS HISTORY 2 SECONDS",
    " DELETED FOR 1 SECONDS HISTORY 6 SECONDS",
    " FIRST VERSION FROM ARRIVAL",
    " FIRST VERSION FROM START",
)
SHORT = (" HISTORY 1 SECOND DELETED FOR 1 SECOND", " HISTORY 3 SECONDS DELETED FOR 1 SECOND")
"""Options with which chunks are soon thinned."""


class Side:
    """A table or stream on both sides."""

    def __init__(self, shape: TableShape) -> None:
        self.shape, self.columns = shape, list(shape.columns)
        names = [a.name for a in shape.columns]
        at = names.index("at") + bool(shape.keys) if shape.timed else None
        self.model = ModelStream(Declaration(shape.name, Schema(shape.columns), at, lateness=shape.lateness), AHEAD)
        self.spec: StreamSpec = create_stream(shape.sql())
        self.options = [options_of(self.spec)] if shape.keys else []
        if shape.timed and not shape.keys:
            self.model.declaration = replace(self.model.declaration, lateness=self.spec.lateness // SECOND)

    @property
    def naive(self) -> NaiveTable:
        """The naive table."""
        return NaiveTable(self.model, self.spec, self.options)

    def rows(self, at: int | None, clock: int) -> list[tuple[Any, ...]]:
        """The rows that hold at a time, or at present, behind their IDs and times."""
        if self.shape.keys:
            model_rows = self.naive.rows(at, clock)
        else:
            entries = enumerate(self.model.released())
            model_rows = [(n, e[0], *e[3]) for n, e in entries if at is None or e[0] <= at]
        wide = 2 + len(self.columns)
        return [(*row, *([None] * (wide - len(row)))) for row in model_rows]

    def arrow(self, at: int | None, clock: int) -> pa.Table:
        """The rows as a table for DuckDB."""
        columns = [Attribute("_id", BIGINT), Attribute("_time", TIMESTAMP), *self.columns]
        rows = self.rows(at, clock)
        return pa.table({a.name: arrow_array(a.type, [row[n] for row in rows]) for n, a in enumerate(columns)})


class TableDuel:
    """The duel. `connection`: DuckDB's, of no other duel at the time. `make`: makes the engine."""

    def __init__(
        self,
        draw: random.Random,
        connection: duckdb.DuckDBPyConnection,
        make: Any = RecordingPSoup,
        options: Sequence[str] = OPTIONS,
    ) -> None:
        self.draw, self.clock = draw, VirtualClock(START)
        self._connection = connection
        config = EngineConfig(
            chunk_rows=64,
            piece_rows=draw.choice((16, 64)),
            delta_queries=2,
            sparse_floor=draw.choice((0, 8)),
            shape=EAGER,
            ahead=AHEAD,
        )
        self.soup: RecordingPSoup = make(config, self.clock)
        timed = draw.random() < 0.5
        shapes = [draw_table(draw, "t", options), draw_table(draw, "u", options), draw_stream(draw, "s", timed)]
        self.sides = {shape.name: Side(shape) for shape in shapes}
        for shape in shapes:
            self.soup.execute(shape.sql())
        for name in "tus":
            self.push(name)
        self.queries = list[tuple[int, str]]()
        """The registered queries, with their texts for DuckDB."""
        self.compared = 0

    # Steps -----------------------------------------------------------------------------------------------

    def push(self, name: str = "") -> None:
        """Push a batch to a table or the stream, with some columns left out, and equal keys and times.

        Rows of a table may be patches.
        """
        side = self.sides[name or self.draw.choice("ttus")]
        shape, draw = side.shape, self.draw
        base = max(side.model.watermark or 0, START - 5 * SECOND)
        spread = draw.choice((0, 1, 6))
        lowest = draw.choice((0, -1, -12))  # rows below the watermark are late, but for keys without a version
        times = [base + draw.randint(lowest, spread) * SECOND for _ in range(draw.choice((1, 3, 20, 60)))]
        patched, share = bool(shape.keys) and draw.random() < 0.3, draw.choice((0.1, 0.5, 0.85))
        share = share if patched else 0.85
        present = [a for a in side.columns if not a.nullable or a.name in shape.keys or draw.random() < share]
        deletes, rows = draw_rows(draw, shape, present, times)
        patches = [draw.choice((True, True, True, False, None)) if patched else None for _ in rows]
        done = self.soup.push(shape.name, pushed(present, rows, deletes, patches), refused="count")
        places = [present.index(a) if a in present else None for a in side.columns]
        if shape.keys:
            cells = [[KEPT if place is None else row[place] for place in places] for row in rows]
            marks = zip(deletes, cells, patches, strict=True)
            entries = [entry(side.spec, deleted, row, bool(patch)) for deleted, row, patch in marks]
            counts = NaiveTable(side.model, side.spec, side.options).push(entries, self.now)
        else:
            whole = [[None if place is None else row[place] for place in places] for row in rows]
            counts = side.model.push([tuple(row) for row in whole], self.now)
        assert (done.accepted, done.late, done.ahead) == counts

    @property
    def now(self) -> int:
        """The clock's time."""
        return self.clock.now()

    def advance(self) -> None:
        """Let time pass."""
        self.clock.advance(seconds=self.draw.choice((0, 1, 1, 5)))

    def beat(self) -> None:
        """Raise the watermark of a table or the stream in event time."""
        for side in self.sides.values():
            if side.shape.timed and self.draw.random() < 0.5:
                time = (side.model.watermark or START) + self.draw.choice((0, 1, 4)) * SECOND
                self.soup.heartbeat(side.shape.name, time)
                side.model.heartbeat(time, self.now)

    def alter(self) -> None:
        """Add a column to a table."""
        side = self.sides[self.draw.choice("tu")]
        column = Attribute(f"z{len(side.columns)}", self.draw.choice((BIGINT, TEXT)))
        self.soup.execute(f"ALTER TABLE {side.shape.name} ADD COLUMN {column.name} {column.type}")
        side.columns.append(column)

    def alter_options(self) -> None:
        """Make HISTORY or DELETED FOR of a table longer or shorter."""
        side, seconds = self.sides[self.draw.choice("tu")], self.draw.choice((1, 2, 4, 8))
        option, before = self.draw.choice(("HISTORY", "DELETED FOR")), side.options[-1]
        self.soup.execute(f"ALTER TABLE {side.shape.name} {option} {seconds} SECONDS")
        times = {"HISTORY": before.history, "DELETED FOR": before.deleted_for, option: seconds * SECOND}
        side.options.append(before.changed(side.model, times["HISTORY"], times["DELETED FOR"]))

    def maintain(self) -> None:
        """Do all maintenance."""
        self.soup.maintain()

    def restart(self) -> None:
        """Forget everything but the events, or but the store."""
        soup, config = self.soup, self.soup.engine.config
        if isinstance(soup, RestartingPSoup):
            soup.restart()
            return
        soup.engine, soup.admission = replayed(soup.events, config, self.draw.choice((1, 3, 100)))
        soup.admission.share_published(soup.engine.snapshot)

    def register(self) -> None:
        """Register a query."""
        sql = self.statement()
        self.queries.append((self.soup.register(sql), self._plainly(sql)))

    def statement(self) -> str:
        """A random query."""
        draw, tables = self.draw, [self.sides[name].shape for name in "tu"]
        if draw.random() < 0.5:
            return alone(draw, draw.choice(tables))
        if draw.random() < 0.3:
            return joined(draw, *draw.sample(tables, 2))
        return joined(draw, self.sides["s"].shape, draw.choice(tables))

    def _plainly(self, sql: str) -> str:
        """The query for DuckDB, whose table has two columns more. `*` means the columns of this time."""
        name = sql.rpartition("* FROM ")[2][:1]
        if "* FROM" not in sql:
            return sql
        names = ", ".join(f'"{column.name}"' for column in self.sides[name].columns)
        return sql.replace("* FROM", f"{names} FROM")

    # Comparisons -----------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compare the answers of all queries, and of some unregistered ones, at present and at an earlier time."""
        times = [self.now - self.draw.randint(0, 12) * SECOND for _ in range(2)]
        for at in (None, *times):
            wanted = Wanted(self._connection, self.sides, at, self.now)
            for query, sql in self.queries:
                self._compare(sql, at, wanted, lambda lost, q=query, at=at: self.soup.invoke(q, at, None, lost))
            for sql in (self.statement(), self.statement()):
                self._compare(
                    self._plainly(sql), at, wanted, lambda lost, sql=sql, at=at: self.soup.ask(sql, at, None, lost)
                )
            if at is None:
                self._compare_tables(wanted)

    def _compare(self, sql: str, at: int | None, wanted: Wanted, ask: Any) -> None:
        try:
            answer = again(ask, True)
        except OutOfRange as problem:
            assert at is not None and problem.reason == "AS_OF_IN_FUTURE", sql
            return
        self._check_truncation(ask, at, answer, sql)
        rows = plain_rows(answer.to_table())
        self._same(sql, rows, wanted.rows(sql, answer.completeness.now), at)

    def _check_truncation(self, ask: Any, at: int | None, answer: Answer, sql: str) -> None:
        """An answer as of a time before HISTORY says so, and is refused if truncation is not accepted."""
        lost = False
        for part, side in zip(answer.completeness.sources, self._sources(sql), strict=False):
            early = at is not None and bool(side.shape.keys) and at < side.naive.edge(self.now)
            assert part.truncated == early, f"{sql} at {at}"
            lost = lost or early
        if lost:
            with pytest.raises(OutOfRange) as refused:
                ask(False)
            assert refused.value.reason == "AS_OF_BEFORE_HISTORY"
        else:
            ask(False)

    def _sources(self, sql: str) -> list[Side]:
        """The sources of a query, in the order of FROM."""
        return [self.sides[name] for name in re.findall(r"(?:FROM|JOIN) ([tus])\b", sql)]

    def _compare_tables(self, wanted: Wanted) -> None:
        """All queries with the same columns, as one table."""
        by_columns: dict[Any, list[tuple[int, str]]] = {}
        for query, sql in self.queries:
            by_columns.setdefault(self.soup.invoke(query).to_table().schema, []).append((query, sql))
        for group in by_columns.values():
            answer = again(self._table, [query for query, _ in group])
            rows = plain_rows(answer)
            for place, (query, sql) in enumerate(group):
                now = self.soup.invoke(query).completeness.now
                self._same(sql, [row[1:] for row in rows if row[0] == place], wanted.rows(sql, now), "table")

    def _table(self, ids: Sequence[int]) -> pa.Table:
        table = self.soup.invoke_table(ids)
        made = pa.Table.from_batches(list(table.batches()), table.schema)
        assert not table.failures()
        return made

    def _same(self, sql: str, rows: list[Any], wanted: list[Any], at: Any) -> None:
        self.compared += 1
        more, less = Counter(rows) - Counter(wanted), Counter(wanted) - Counter(rows)
        assert not more and not less, f"{sql}\nat {at}\ntoo many: {more}\nmissing: {less}"
        assert "ORDER BY" not in sql.partition("OVER")[0] or rows == wanted, f"another order: {sql}"


class Wanted:
    """DuckDB's answers over the rows that hold at a time, or at present."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, sides: dict[str, Side], at: int | None, clock: int
    ) -> None:
        self._sides, self._at, self._clock, self._connection = sides, at, clock, connection
        self._known: dict[Any, list[Any]] = {}
        self._shown: dict[str, Any] = {}

    def rows(self, sql: str, now: int | None) -> list[Any]:
        """The rows of a query. `now`: NOW of the answer, from which the stream's rows come."""
        if (sql, now) not in self._known:
            for name, side in self._sides.items():
                at = self._at if side.shape.keys else now
                if self._shown.get(name, "") != at:
                    self._shown[name] = at
                    self._connection.register(name, side.arrow(at, self._clock))
            self._known[sql, now] = plain_rows(self._connection.sql(sql).to_arrow_table())
        return self._known[sql, now]
