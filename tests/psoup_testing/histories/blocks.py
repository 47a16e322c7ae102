"""Templates and rows of values for blocks of queries: conditions on a stream of all types, some in rare forms."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

from hypothesis import strategies as st

from psoup.model import StreamSpec
from psoup.sql import create_stream, prepare
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.values import columns_of_rows

CREATE = (
    "CREATE STREAM s (sym TEXT, qty BIGINT, price DOUBLE, amount DECIMAL(10,2), at TIMESTAMP, day DATE, ok BOOLEAN)"
)
SPEC = create_stream(CREATE)

INTS = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**53, -(2**53)])
SMALL = st.integers(-9, 9)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, math.inf, -math.inf, math.nan])
DECIMALS = st.integers(-300, 300).map(lambda value: Decimal(value).scaleb(-1))
TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3) | st.sampled_from("abc")
VALUES = {
    "sym": [TEXTS],
    "qty": [INTS],
    "price": [FLOATS, SMALL],
    "amount": [SMALL, DECIMALS],
    "at": [TIMES],
    "day": [TIMES.map(datetime.datetime.date)],
}
OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">="])


def lookup(name: str) -> StreamSpec | None:
    """The one stream there is."""
    return SPEC if name.lower() == "s" else None


def block_of(where: str, rows: list[tuple[object, ...]]) -> BoundBlock | None:
    """The block of the rows, if they are one."""
    template = prepare(f"SELECT * FROM s WHERE {where}", lookup)
    columns = columns_of_rows(rows, len(template.names))  # type: ignore[arg-type]
    return None if columns is None else template.block(columns)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, list[st.SearchStrategy[object]]]:
    """A condition on a column, and the source of its parameters' values: one type for all rows."""
    column = draw(st.sampled_from(sorted(VALUES)))
    value = draw(st.sampled_from(VALUES[column]))
    form = draw(st.integers(0, 5))
    if form == 0:
        return f"{column} BETWEEN ? AND ?", [value, value]
    if form == 1:
        return f"? {draw(OPERATORS)} {column}", [value]
    if form == 2:
        fixed = [
            "qty > 0",
            "sym < 'b'",
            "(qty = 1 OR price > 2)",
            "amount IS NULL",
            "ok",
            "at < TIMESTAMP '2020-01-01'",
        ]
        return draw(st.sampled_from([*fixed, "qty <> 3"])), []
    if form == 3 and column == "qty":
        return draw(st.sampled_from(["qty BETWEEN ? AND 2", "qty * 2 >= ?", "qty BETWEEN 1.5 AND ?"])), [value]
    return f"{column} {draw(OPERATORS)} ?", [value]
