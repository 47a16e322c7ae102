"""Expressions evaluated twice: by PSoup over columns, and by DuckDB over the same table through `render`.

Every type has two columns whose rows mix NULL, extremes and ordinary values, crossed by a fixed seed. DuckDB evaluates
TRY(CAST(expression AS its type)), so an error is NULL there; PSoup's marks are checked elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from psoup.expressions.evaluate import Scope, evaluate
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES

BIGINTS = """
    0 1 -1 2 -2 3 4 5 7 -10 15 25 -25 99 1000 1000000000 2147483648 9007199254740992 9007199254740993 1000000000000000
    999999999999999999 1000000000000000000 3037000500 -3037000500 4294967296 4611686018427387904 -4611686018427387904
    9223372036854775807 -9223372036854775808 -9223372036854775807
"""
DOUBLES = """
    0 -0.0 0.5 -0.5 1 1.5 2.5 -2.5 3.5 0.1 1.005 2.675 -7.25 1e15 1e16 1e17 1e22 1e300 -1e300 5e-324 1e-5 0.0001 3 8
    0.49999999999999994 9007199254740992 9223372036854775808 -9223372036854775808 9.2e18 4503599627370497.5 100 -1.135
    1.135 99.995 123456.789 inf -inf nan
"""
CENTS = "0 1 -1 4 5 -5 50 100 -100 150 250 -250 255 555 995 9995 12345 99999 999999999 -999999999"
WIDE = """
    0 1 -1 5000 12345 15000 20000 25000 -25000 30000 49999 50000 99995 123456789012345678 9007199254740993
    100000000000000000 500000000000000000 -500000000000000000 999999999999999999 -999999999999999999
"""
SMALL = "0 1 -1 50 -50 99 -99 49 5 -5"
TEXTS = [
    *("", "a", "A", "abc", "ABC", "aaa", "hello world", " x ", "\tx\n", "\u00a0x\u3000", "é", "e\u0301", "straße", "ŉ"),
    *(
        "İstanbul",
        "ΑΣ",
        "👨‍👩‍👧",
        "a%c",
        "a_c",
        "a\\c",
        "100%",
        "x\ny",
        "b",
        "ab",
        "xaxx",
        "日本語",
        "aXbXc",
        "\x7f",
        "zz",
    ),
]
DATES = """
    0 1 -1 18262 18321 11016 11017 -719162 -719163 -719528 -719529 -800000 2932896 2932897 -141427 365 59 60 -25567
    18627 18628 19723 100000000 -100000000 2147483646 -2147482000 106751991 106751992
"""
TIMES = """
    0 1 -1 999999 -999999 1577836800000000 1583020799123456 -62135596800000000 253402300799999999 -62135596800000001
    -308534400123456 951782400000000 978307200000000 9223372036854775806 -9223372022400000000 86400000000 -86400000000
    1609459200500000 1614556800000010 1703980799999999 -99999999999999999
"""


def _whole(listed: str) -> list[int]:
    return [int(word) for word in listed.split()]


SAMPLES: dict[str, tuple[DataType, Sequence[object]]] = {
    "b": (BIGINT, _whole(BIGINTS)),
    "d": (DOUBLE, [float(word) for word in DOUBLES.split()]),
    "m": (decimal(9, 2), _whole(CENTS)),
    "w": (decimal(18, 4), _whole(WIDE)),
    "p": (decimal(2, 2), _whole(SMALL)),
    "t": (TEXT, TEXTS),
    "s": (TIMESTAMP, _whole(TIMES)),
    "y": (DATE, _whole(DATES)),
    "f": (BOOLEAN, [True, False]),
}
ROWS = 300
_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
}


def arrow_array(data_type: DataType, values: Sequence[object]) -> pa.Array:
    """Values in engine form, None for NULL, as Arrow."""
    if data_type.kind is Kind.DECIMAL:
        whole = pa.array(values, pa.int64())
        nulls = whole.buffers()[0]
        narrow = pa.Array.from_buffers(
            pa.decimal64(data_type.precision, data_type.scale), len(values), [nulls, whole.buffers()[1]]
        )
        return narrow.cast(pa.decimal128(data_type.precision, data_type.scale))
    return pa.array(values, _ARROW[data_type.kind])


def sample(values: Sequence[object], seed: int, rows: int = ROWS) -> list[object]:
    """`rows` of `values` in random order, each at least once if there is room, and one NULL in twelve."""
    rng = random.Random(seed)
    drawn = [*values, *rng.choices(list(values), k=max(rows - len(values), 0))][:rows]
    rng.shuffle(drawn)
    return [None if rng.randrange(12) == 0 else value for value in drawn]


class Oracle:
    """A table in both engines: columns b, b2, d, d2, ... of `SAMPLES`, or the given ones."""

    def __init__(self, columns: dict[str, tuple[DataType, Sequence[object]]] | None = None) -> None:
        if columns is None:
            columns = {}
            for seed, (name, (data_type, values)) in enumerate(SAMPLES.items()):
                columns[name] = (data_type, sample(values, seed))
                columns[name + "2"] = (data_type, sample(values, 100 + seed))
        self.types = {name: data_type for name, (data_type, _) in columns.items()}
        arrays = {name: arrow_array(data_type, values) for name, (data_type, values) in columns.items()}
        self.rows = len(next(iter(arrays.values())))
        self.columns = [column_from_arrow(name, self.types[name], array) for name, array in arrays.items()]
        self.table = pa.table({**arrays, "row_number": pa.array(range(self.rows))})
        self._connect()

    def _connect(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET disabled_optimizers = 'common_subexpressions'")  # it takes parts out of TRY
        self.connection.register("source", self.table)
        self.connection.execute("CREATE TABLE samples AS SELECT * FROM source")

    def ref(self, name: str) -> AttributeRef:
        """A column of the table."""
        return AttributeRef(self.types[name], list(self.types).index(name), name)

    def mine(self, expr: Expr) -> Column:
        """The values of PSoup."""
        column = evaluate(expr, Scope(self.columns, self.rows))
        check(column, expr.type, self.rows)
        return column

    def theirs(self, exprs: Sequence[Expr]) -> list[Column]:
        """The values of DuckDB, for all `exprs` in one query."""
        listed = [
            f"TRY(CAST({render(expr)} AS {'VARCHAR' if expr.type == TEXT else expr.type})) AS c{position}"
            for position, expr in enumerate(exprs)
        ]
        table = self.connection.sql(f"SELECT {', '.join(listed)} FROM samples ORDER BY row_number").to_arrow_table()
        return [column_from_arrow("c", expr.type, table.column(i)) for i, expr in enumerate(exprs)]

    def compare(self, exprs: Sequence[Expr], *, ulps: int = 0, batch: int = 64) -> None:
        """Fail on the first few rows in which the two differ."""
        failures: list[str] = []
        for start in range(0, len(exprs), batch):
            some = exprs[start : start + batch]
            for expr, theirs in zip(some, self._robust(some, failures), strict=True):
                if theirs is not None:
                    failures += self._differences(expr, self.mine(expr), theirs, ulps)
        assert not failures, f"{len(failures)} differences\n" + "\n".join(failures[:40])

    def _robust(self, exprs: Sequence[Expr], failures: list[str]) -> list[Column | None]:
        try:
            return list(self.theirs(exprs))
        except duckdb.Error as problem:
            if isinstance(problem, duckdb.FatalException):
                self._connect()  # a fatal error takes the whole database with it
            if len(exprs) == 1:
                failures.append(f"{render(exprs[0])}: DuckDB refuses: {str(problem).splitlines()[0]}")
                return [None]
        half = len(exprs) // 2
        return self._robust(exprs[:half], failures) + self._robust(exprs[half:], failures)

    def _differences(self, expr: Expr, mine: Column, theirs: Column, ulps: int) -> list[str]:
        left, right = canonical(mine), canonical(theirs)
        if left == right:
            return []
        listed: list[str] = []
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            if a != b and not (ulps and isinstance(a, int) and isinstance(b, int) and abs(a - b) <= ulps):
                inputs = {
                    name: mine_text(self.columns[list(self.types).index(name)], row) for name in sorted(_names(expr))
                }
                listed.append(
                    f"{render(expr)} on {inputs}: mine {mine_text(mine, row)}, DuckDB {mine_text(theirs, row)}"
                )
        return listed[:2]


def _names(expr: Expr) -> set[str]:
    if isinstance(expr, AttributeRef):
        return {expr.name}
    return set().union(*(_names(arg) for arg in getattr(expr, "args", ())))


def mine_text(column: Column, row: int) -> str:
    """A value as text for messages; raw integers for times, which Python cannot always represent."""
    if column.valid is not None and not column.valid[row]:
        return "error" if column.error is not None and column.error[row] else "NULL"
    if column.type.kind in (Kind.TIMESTAMP, Kind.DATE):
        return str(column.values[row])
    return repr(column.slice(row, row + 1).to_list()[0])


def canonical(column: Column) -> list[object]:
    """Values that are equal iff the columns are: bits of DOUBLEs, one NaN, None for NULL."""
    if column.type.kind is Kind.TEXT:
        return [text and text.replace("-nan", "nan") for text in column.to_list()]  # a NaN has no sign here
    values = column.values
    if column.type.kind is Kind.DOUBLE:
        values = np.where(np.isnan(values), np.nan, values).view(np.int64)
    listed: list[object] = values.tolist()
    if column.valid is not None:
        listed = [value if ok else None for value, ok in zip(listed, column.valid.tolist(), strict=True)]
    return listed


def check(column: Column, data_type: DataType, rows: int) -> None:
    """The contract of a Column: lengths, dtypes, NULLs are zero, errors are NULL."""
    assert column.type == data_type
    assert len(column) == rows
    if data_type.kind is Kind.TEXT:
        assert column.data is not None
        assert column.values.dtype == np.int64
        lengths = np.diff(column.values)
        assert (lengths >= 0).all()
        assert column.valid is None or not lengths[~column.valid].any()
    else:
        assert column.values.dtype == TYPES[data_type.kind].dtype
        assert column.values.flags["C_CONTIGUOUS"]
        assert column.valid is None or not column.values[~column.valid].any()
    for flags in (column.valid, column.error):
        assert flags is None or (flags.dtype == np.bool_ and len(flags) == rows)
    if column.error is not None and column.error.any():
        assert column.valid is not None
        assert not (column.valid & column.error).any()
