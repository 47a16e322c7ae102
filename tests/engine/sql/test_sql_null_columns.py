"""The type of NULL in a column of a set operation: a CAST gives it one, and NULL alone takes the other query's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.local import LocalPSoup

DECIMAL = pa.decimal128(38, 2)


@pytest.mark.parametrize(
    ("null", "column", "expected"),
    [
        ("CAST(NULL AS DOUBLE)", "k", pa.float64()),
        ("CAST(NULL AS DECIMAL(9,2))", "k", DECIMAL),
        ("CAST(NULL AS BIGINT)", "d", pa.float64()),
        ("NULL", "k", pa.int64()),
        ("NULL", "d", pa.float64()),
        ("NULL", "t", pa.string()),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_null_has_the_type_of_its_cast(null: str, column: str, expected: pa.DataType, turned: bool) -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (k BIGINT, d DOUBLE, t TEXT)")
    soup.push("s", pa.table({"k": [1], "d": [1.0], "t": ["1"]}))
    queries = [f"SELECT {null} AS x FROM s", f"SELECT {column} AS x FROM s"]
    table = soup.ask(" UNION ALL ".join(queries[::-1] if turned else queries)).to_table()
    assert table.schema.field("x").type == expected
    assert sorted(map(str, table["x"].to_pylist())) in (["1", "None"], ["1.0", "None"], ["1.00", "None"])
