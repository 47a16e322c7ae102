"""Streams that get columns while tuples and queries come and go, held against DuckDB, with restarts in between."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import Budget

BUDGET = Budget("altered streams", cases=100)
TYPES = {"BIGINT": pa.int64(), "TEXT": pa.string(), "DOUBLE": pa.float64(), "DECIMAL(9,2)": pa.decimal128(9, 2)}
VALUES = {"BIGINT": "{}", "TEXT": "'{}'", "DOUBLE": "{}.5", "DECIMAL(9,2)": "{}.25"}
NOW = 1_000 * SECOND


class Altered:
    """A stream, what was pushed to it, and queries with the columns that `*` meant when they were registered."""

    def __init__(self, draw: random.Random, path: Path) -> None:
        self.draw = draw
        self.event_time = draw.random() < 0.7
        config = EngineConfig(
            chunk_rows=64, piece_rows=16, delta_queries=2, sparse_floor=draw.choice([0, 8]), shape=EAGER
        )
        self.soup = RestartingPSoup(config, VirtualClock(NOW), path)
        self.soup.execute(
            "CREATE STREAM s (x BIGINT NOT NULL, t TIMESTAMP NOT NULL)"
            + (" TIMESTAMP BY t LATENESS 5 SECONDS" if self.event_time else "")
            + draw.choice(["", " RETENTION 100 ROWS ARCHIVE 1000000 ROWS"])
        )
        self.columns: dict[str, str] = {}
        self.rows: list[dict[str, object]] = []
        self.queries: list[tuple[int, str, list[str]]] = []
        self.aggregates: list[tuple[int, str]] = []
        """Queries with aggregates, and their texts in DuckDB, `{}` for the last time that counts."""
        self.time = 0

    def alter(self) -> None:
        added = {f"c{len(self.columns) + i}": self.draw.choice(list(TYPES)) for i in range(self.draw.randint(1, 2))}
        self.soup.execute("ALTER STREAM s " + ", ".join(f"ADD COLUMN {name} {kind}" for name, kind in added.items()))
        self.columns.update(added)

    def push(self) -> None:
        count = self.draw.randint(1, 50)
        self.time += self.draw.randint(0, 3)
        rows = []
        for _ in range(count):
            row: dict[str, object] = {
                "x": len(self.rows) + len(rows),
                "t": (self.time + self.draw.randint(0, 4)) * SECOND,
            }
            for name, kind in self.columns.items():
                if self.draw.random() < 0.7:
                    row[name] = VALUES[kind].format(self.draw.randint(0, 3)).strip("'")
            rows.append(row)
        present = [name for name in self.columns if self.draw.random() < 0.7]
        table = {
            "x": pa.array([r["x"] for r in rows]),
            "t": pa.array([r["t"] for r in rows], pa.timestamp("us", "UTC")),
        }
        for name in present:
            table[name] = pa.array([r.get(name) for r in rows], pa.string()).cast(TYPES[self.columns[name]])
        for row in rows:
            for name in set(self.columns) - set(present):
                row.pop(name, None)
        self.soup.push("s", pa.table(table))
        self.rows.extend(rows)

    def _condition(self) -> str:
        where = ["x % 3 <> 0"] if self.draw.random() < 0.3 else []
        for name, kind in self.columns.items():
            value = VALUES[kind].format(self.draw.randint(0, 3))
            where.append(self.draw.choice([f"{name} = {value}", f"{name} IS NULL", f"({name} <> {value} OR x < 40)"]))
        self.draw.shuffle(where)
        return " AND ".join(where[: self.draw.randint(0, 2)]) or "x >= 0"

    def register(self) -> None:
        condition = self._condition()
        query = self.soup.register(f"SELECT * FROM s WHERE {condition}")
        self.queries.append((query, condition, ["x", "t", *self.columns]))

    def register_aggregate(self) -> None:
        names = ["x", *self.columns]
        shown = [f"{self.draw.choice(('count', 'min', 'max'))}({self.draw.choice(names)})" for _ in range(2)]
        shown += [f"sum({name})" for name in names if self.columns.get(name) != "TEXT"][-2:]
        key = self.draw.choice(["", "", *self.columns])
        items = ([key] if key else []) + [f"{item} AS m{place}" for place, item in enumerate(shown)]
        select, grouped = f"SELECT {', '.join(items)} FROM s WHERE", f" GROUP BY {key}" if key else ""
        condition = self._condition()
        query = self.soup.register(f"{select} {condition}{grouped}")
        ordered = f"{grouped} ORDER BY {key} NULLS LAST" if key else ""
        self.aggregates.append((query, f"{select} t <= {{}} AND {condition}{ordered}"))

    def compare(self) -> int:
        """Each query's answer is DuckDB's over all tuples released, as multisets."""
        if not self.rows:
            return 0
        connection = duckdb.connect(config={"threads": 1})
        table = {name: pa.array([row[name] for row in self.rows], pa.int64()) for name in ("x", "t")}
        for name, kind in self.columns.items():
            table[name] = pa.array([row.get(name) for row in self.rows], pa.string()).cast(TYPES[kind])
        connection.register("s", pa.table(table))
        edge = max(int(str(r["t"])) for r in self.rows) - 5 * SECOND if self.event_time else 2**62
        for query, condition, columns in self.queries:
            sql = f"SELECT {', '.join(columns)} FROM s WHERE t <= {edge} AND {condition}"
            wanted = sorted(connection.execute(sql).fetchall(), key=str)
            assert sorted(self._shown(query, columns), key=str) == wanted, condition
        for query, sql in self.aggregates:
            wanted = connection.execute(sql.format(edge)).fetchall()
            answer = again(self.soup.invoke, query).to_table()
            assert list(zip(*[column.to_pylist() for column in answer.columns], strict=True)) == wanted, sql
        connection.close()
        return len(self.queries) + len(self.aggregates)

    def _shown(self, query: int, columns: list[str]) -> list[tuple[Any, ...]]:
        """The rows of a query, times as numbers."""
        found = again(self.soup.invoke, query).to_table()
        assert found.column_names == columns, columns
        at = found.column("t").cast(pa.int64()).to_pylist()
        return list(zip(*[at if name == "t" else found.column(name).to_pylist() for name in columns], strict=True))


def test_altered_streams_answer_as_duckdb() -> None:
    for number in BUDGET.rounds():
        draw = random.Random(number)
        with tempfile.TemporaryDirectory() as folder:
            stream = Altered(draw, Path(folder))
            steps = [stream.alter, stream.push, stream.push, stream.push, stream.register, stream.register]
            steps += [stream.register_aggregate, stream.soup.maintain, stream.soup.restart]
            for _ in range(18):
                draw.choice(steps)()
                if draw.random() < 0.1:
                    BUDGET.count(stream.compare())
                stream.soup.check()
            BUDGET.count(stream.compare())
            stream.soup.restart()
            stream.soup.maintain()
            BUDGET.count(stream.compare() + stream.compare())  # the second time by folds
            stream.soup.store.close()
