"""The oracle: the answer of a query as DuckDB computes it, once, over the tuples of its window.

    tuples in stream order -> a DuckDB table (_pos, _id, _time, attributes …)
    SELECT [DISTINCT] TRY(…), … WHERE TRY(leaf) AND … AND _pos BETWEEN first AND last ORDER BY …, _pos LIMIT n

Which positions lie in the window is the naive model's business. DuckDB runs without its optimizer, which may rewrite
`a + 1 > 3` to `a > 2` and so hide an overflow. Times leave it as microseconds and dates as days, since Python's own
types end at the year 9999.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from psoup.model import DataType, Kind, Schema
from psoup_testing.histories.expressions import Expression
from psoup_testing.histories.queries import Query
from psoup_testing.histories.values import Value, arrow_array
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database

Row = tuple[Value, ...]


class Oracle:
    """A DuckDB connection with one table, replaced as tuples arrive."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.connection = empty_database()

    def close(self) -> None:
        """Give the connection back."""
        drop_database(self.connection)

    def load(self, rows: Sequence[Row], times: Sequence[int], first_id: int = 0, ids: Sequence[int] = ()) -> None:
        """Take these tuples, given in stream order with their physical IDs, in place of all earlier ones.

        `ids`: their tuple IDs. If it is empty, they are numbers from `first_id` on.
        """
        arrays = [pa.array(range(len(rows)), pa.int64())]
        arrays.append(pa.array(ids or range(first_id, first_id + len(rows)), pa.int64()))
        arrays.append(pa.array(times, pa.int64()).cast(pa.timestamp("us")))
        names = ["_pos", "_id", "_time"]
        for index, attribute in enumerate(self._schema.attributes):
            arrays.append(arrow_array(attribute.type, [row[index] for row in rows]))
            names.append(attribute.name)
        self.connection.register("arrived", pa.table(arrays, names=names))
        self.connection.execute("CREATE OR REPLACE TABLE tuples AS SELECT * FROM arrived")
        self.connection.unregister("arrived")

    def answer(self, query: Query, first: int, stop: int) -> list[Row]:
        """The rows of `query` over the tuples at positions first <= p < stop, in the order PSoup promises.

        Ties of ORDER BY, and rows without one, keep stream order; DISTINCT keeps the first of equal rows.
        """
        outputs = [f"TRY({e.duck_sql()}) AS o{i}" for i, e in enumerate(query.selected)]
        keys = [f"TRY({k.expression.duck_sql()}) AS k{i}" for i, k in enumerate(query.order)]
        where = f" AND {query.where.duck_sql()}" if query.where is not None else ""
        inner = f"SELECT _pos, {', '.join(outputs + keys)} FROM tuples WHERE _pos >= {first} AND _pos < {stop}{where}"
        names = [f"o{i}" for i in range(len(outputs))]
        if query.distinct:
            inner = (
                f"SELECT * FROM ({inner}) QUALIFY row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY _pos) = 1"
            )
        order = []
        for i, key in enumerate(query.order):
            order.append(f"k{i} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}")
        shown = ", ".join(leaving(name, e.type) for name, e in zip(names, query.selected, strict=True))
        limit = ("" if query.limit is None else f" LIMIT {query.limit}") + f" OFFSET {query.skip}"
        sql = f"SELECT {shown} FROM ({inner}) ORDER BY {', '.join([*order, '_pos'])}{limit}"
        return self.connection.execute(sql).fetchall()

    def matching(self, query: Query, first: int, stop: int) -> list[int]:
        """The positions first <= p < stop whose tuples satisfy the WHERE clause."""
        where = query.where.duck_sql() if query.where is not None else "TRUE"
        sql = f"SELECT _pos FROM tuples WHERE {where} AND _pos >= {first} AND _pos < {stop} ORDER BY _pos"
        return [row[0] for row in self.connection.execute(sql).fetchall()]

    def value_of(self, expression: Expression) -> list[Value]:
        """The expression for every tuple in stream order; NULL where it fails."""
        sql = f"SELECT {leaving(f'TRY({expression.duck_sql()})', expression.type)} FROM tuples ORDER BY _pos"
        return [row[0] for row in self.connection.execute(sql).fetchall()]

    def type_of(self, expression: Expression) -> str:
        """The type of an expression in DuckDB."""
        sql = f"SELECT typeof({expression.duck_sql()}) FROM (SELECT * FROM tuples LIMIT 1)"
        row = self.connection.execute(sql).fetchone()
        return str(row[0]) if row else ""


def leaving(name: str, data_type: DataType) -> str:
    if data_type.kind is Kind.TIMESTAMP:
        return f"epoch_us({name})"
    if data_type.kind is Kind.DATE:
        return f"CAST({name} - DATE '1970-01-01' AS BIGINT)"
    return name


# Comparing ---------------------------------------------------------------------------------------------------


def normal(value: Value) -> object:
    """A form in which equal values are equal: one NaN, one zero, the kind of number kept apart."""
    if isinstance(value, float):
        if math.isnan(value):
            return ("double", "nan")
        return ("double", value + 0.0 if value else 0.0)
    if isinstance(value, Decimal):
        return ("decimal", value + 0)
    return (type(value).__name__, value)


def normal_rows(rows: Sequence[Sequence[Value]]) -> list[tuple[object, ...]]:
    """All rows in normal form."""
    return [tuple(normal(value) for value in row) for row in rows]


def difference(expected: Sequence[Row], actual: Sequence[Row]) -> str | None:
    """None if the answers are equal row by row; else the missing rows, the extra rows, or the different order."""
    left, right = normal_rows(expected), normal_rows(actual)
    if left == right:
        return None
    missing, extra = Counter(left) - Counter(right), Counter(right) - Counter(left)
    if not missing and not extra:
        place = next(i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
        return f"same rows, other order: at row {place} expected {expected[place]!r}, found {actual[place]!r}"
    shown = [
        f"{word} {sum(c.values())}: {list(c.items())[:4]}" for word, c in (("missing", missing), ("extra", extra)) if c
    ]
    return f"expected {len(left)} rows, found {len(right)}; " + "; ".join(shown)
