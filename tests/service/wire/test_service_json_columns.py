"""Columns in JSON come back as they were, value for value, of every type and at its ends."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies.range_plans import ranged
from psoup.answer.copies.rows_since import Most, since
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_client.copies.json_columns import from_json
from psoup_service.sync.json_columns import FEW, stored_to_json, to_json

UTC = pa.timestamp("us", tz="UTC")
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, None]),
    (pa.int64(), [0, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, None]),
    (pa.int64(), [None, None]),
    (pa.float64(), [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"), -float("inf"), None]),
    (pa.float64(), [1.5, None]),
    (pa.decimal128(18, 4), [Decimal("0.0001"), Decimal("-99999999999999.9999"), None]),
    (pa.decimal128(38, 0), [Decimal(2) ** 126, Decimal(-5), None]),
    (pa.decimal128(18, 18), [Decimal("0.000000000000000001"), None]),
    (pa.string(), ["", 'a"b\\c\n\x00', "ß𝄞\u202e</script>", "NaN", None]),
    (pa.date32(), [0, -(2**31), 2**31 - 1, None]),
    (UTC, [0, -(2**63), 2**63 - 1, 1_700_000_000_000_000, None]),
]


@pytest.mark.parametrize(
    ("kind", "values"), COLUMNS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_values_come_back(kind: pa.DataType, values: list[Any]) -> None:
    batch = pa.record_batch({"v": pa.array(values, kind)})
    for batches in ([batch], [batch, batch.slice(1), batch.slice(0, 0)]):
        raw = to_json(batches, 0)
        assert repr(_bits(from_json(raw, batch.schema, 0))) == repr(_bits(pa.Table.from_batches(batches)))


def _bits(table: pa.Table) -> list[Any]:
    column = table.column(0)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def test_numbers_of_tuples_are_differences() -> None:
    ids, times = [-9, 3, 2**40], [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 1, 3)]
    batch = pa.record_batch({"_id": ids, "_time": pa.array(times, UTC), "n": [1, 2, 3]})
    raw = to_json([batch.slice(0, 2), batch.slice(2)], 2)
    assert json.loads(raw)[0] == [-9, 12, 2**40 - 3]
    assert from_json(raw, batch.schema, 2) == pa.Table.from_batches([batch])
    assert from_json(b"", batch.schema, 2).num_rows == 0


DECLARED = ["BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL(18, 4)", "DECIMAL(18, 18)", "TEXT", "DATE"]


def test_few_rows_are_written_from_their_chunks_as_from_batches() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64))
    soup.execute(f"CREATE STREAM s ({', '.join(f'c{place} {kind}' for place, kind in enumerate(DECLARED))})")
    kinds = dict[pa.DataType, list[Any]]()
    for kind, values in COLUMNS[:-2]:
        kinds.setdefault(kind, values)
    del kinds[pa.decimal128(38, 0)]
    kinds[pa.date32()] = [0, -(2**20), 2**20, None]
    for rows in (3, 70):  # of the chunk that is open, and of two chunks
        given = [pa.array([values[row % len(values)] for row in range(rows)], kind) for kind, values in kinds.items()]
        soup.push("s", pa.table(given, [f"c{place}" for place in range(len(given))]))
        for text in ("SELECT * FROM s", "SELECT _time, c1, _id FROM s ORDER BY c5", "SELECT c2 FROM s"):
            query_id = soup.register(f"{text} BEGIN (START)")
            snapshot = soup.engine.snapshot()
            record = snapshot.query(query_id, soup.tenant)
            how = ranged(record.query.plan)
            assert how is not None
            assert how.attributes is not None
            for held in ((), ((0, 2),), ((1, 2), (2, rows))):
                found = since(snapshot, record, how, held, Most(FEW, FEW), Question(soup.clock.now()))
                parts, batches = found.stored(), list(found.answer.batches())
                assert parts, "something is new"
                assert stored_to_json(parts, how.attributes, 2) == to_json(batches, 2)
    computed = soup.register("SELECT c1 + 1 AS n FROM s BEGIN (START)")
    how = ranged(soup.engine.snapshot().query(computed, soup.tenant).query.plan)
    assert how is not None
    assert how.attributes is None
