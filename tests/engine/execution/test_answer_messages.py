"""Answers whose rows are gathered straight into Arrow IPC equal those that are made column by column.

An ORDER BY takes the second way, so `ORDER BY _id` is what a plain SELECT is held against.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.execution.rows.record_batch import Message
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

CHUNK, ROWS = 128, 333
COLUMNS = {
    "n": "BIGINT",
    "x": "DOUBLE",
    "c": "TEXT",
    "d": "DECIMAL(9,2)",
    "day": "DATE",
    "f": "BOOLEAN",
    "t": "TIMESTAMP",
}
WINDOWS = ("", "BEGIN (NOW - 1 ROWS)", "BEGIN (NOW - 77 ROWS)", "BEGIN (NOW - 205 ROWS) END (NOW - 129 ROWS)")
"""Everything; inside the open chunk; cut inside a word of 64; over the edge of two chunks."""


def _tuples(null_share: float) -> pa.Table:
    rng = np.random.default_rng(5)
    start = dt.datetime(2020, 2, 27, tzinfo=dt.UTC)
    values = {
        "n": rng.integers(-(2**62), 2**62, ROWS).tolist(),
        "x": rng.normal(size=ROWS).tolist(),
        "c": ["ö" * int(size) for size in rng.integers(0, 9, ROWS)],
        "d": [Decimal(int(value)) / 100 for value in rng.integers(-99_999, 99_999, ROWS)],
        "day": [(start + dt.timedelta(days=int(days))).date() for days in rng.integers(0, 9_999, ROWS)],
        "f": (rng.random(ROWS) < 0.5).tolist(),
        "t": [start + dt.timedelta(microseconds=int(micros)) for micros in rng.integers(0, 2**50, ROWS)],
    }
    types = {"d": pa.decimal128(9, 2), "day": pa.date32(), "t": pa.timestamp("us")}
    holes = {name: rng.random(ROWS) < null_share for name in COLUMNS}
    table = pa.table({"k": pa.array(range(ROWS))})
    for name, column in values.items():
        held = [None if hole else value for value, hole in zip(column, holes[name], strict=True)]
        table = table.append_column(name, pa.array(held, types.get(name)))
    return table


def _soup(null_share: float) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=CHUNK, shape=EAGER))
    soup.execute(f"CREATE STREAM s (k BIGINT, {', '.join(' '.join(column) for column in COLUMNS.items())})")
    for start in range(0, ROWS, 50):
        soup.push("s", _tuples(null_share).slice(start, 50))
        soup.maintain()
    return soup


@pytest.mark.parametrize("null_share", swept([0.0, 0.02, 1.0], fast=(1,)))
@pytest.mark.parametrize("window", swept(WINDOWS, fast=(2,)))
def test_gathered_rows_equal_those_made_column_by_column(null_share: float, window: str) -> None:
    soup = _soup(null_share)
    for select in ("*", "c, f", "_time, c, _id, day, n", "_id"):
        for where in ("", "WHERE k % 3 <> 1", "WHERE k = 7 OR k = 128 OR k = 332", "WHERE k < 0"):
            plain = again(soup.invoke, soup.register(f"SELECT {select} FROM s {where} {window}"))
            sorted_by_id = again(soup.invoke, soup.register(f"SELECT {select} FROM s {where} ORDER BY _id {window}"))
            table = plain.to_table()
            table.validate(full=True)
            assert table.equals(sorted_by_id.to_table()), (select, where)
            assert table.schema == plain.schema
            for limit in (1, 100):
                few = again(soup.invoke, soup.register(f"SELECT {select} FROM s {where} LIMIT {limit} {window}"))
                assert few.to_table().equals(table.slice(0, limit)), (select, where, limit)


def test_parts_of_an_answer_keep_to_their_size_and_are_one_stream() -> None:
    soup = _soup(0.1)
    answer = again(soup.invoke, soup.register("SELECT * FROM s WHERE k % 5 <> 0"))
    for rows, size in ((1_000, 2_000), (1_000, 9_000), (70, 10**6), (1, 10**6), (1_000, 1)):
        parts = list(answer.messages(rows, size))
        assert all(isinstance(part, Message) and part.rows <= rows for part in parts)
        assert all(part.size <= size or part.rows == 1 for part in parts)
        stream = b"".join([answer.schema_message, *(part.gathered() for part in parts)])
        with pa.ipc.open_stream(stream) as reader:
            assert reader.read_all().equals(answer.to_table()), (rows, size)


def test_padding_of_messages_is_clear() -> None:
    """It leaves the process: what memory held before must not."""
    soup = _soup(0.5)
    answer = again(soup.invoke, soup.register("SELECT f, day, c FROM s WHERE k < 3"))
    for _ in range(20):
        np.full(answer.to_table().nbytes + 1_000, 255, np.uint8)  # what an uncleared array would be made of
        (part,) = answer.messages()
        batch = pa.ipc.read_record_batch(pa.py_buffer(part.gathered()), answer.schema)
        for array in batch.columns:
            for buffer, used in zip(array.buffers(), _used(array), strict=True):
                assert buffer is None or not any(memoryview(buffer)[used : (used + 7) // 8 * 8])


def _used(array: pa.Array) -> list[int]:
    """Bytes of each buffer that hold something."""
    bits, count = (len(array) + 7) // 8, len(array)
    if pa.types.is_boolean(array.type):
        return [bits, bits]
    if pa.types.is_string(array.type):
        return [bits, 4 * (count + 1), sum(len(text or "") for text in array.to_pylist()) * 2]
    return [bits, 4 * count]


def test_forms_are_shared_by_queries_of_one_shape() -> None:
    soup = _soup(0.0)
    first, second = (again(soup.invoke, soup.register(f"SELECT n, c FROM s WHERE k > {k}")) for k in (1, 2))
    assert first.schema is second.schema
    assert first.schema is not again(soup.invoke, soup.register("SELECT c, n FROM s")).schema
