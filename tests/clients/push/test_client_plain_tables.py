"""Arrow tables that fit a stream as they are: nothing is converted, and a batch has the bytes of PyArrow's writer."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from psoup_client import Client, ColumnInfo, InvalidData, StreamInfo
from psoup_client.columns.convert import as_it_is, plain_schema, to_table
from psoup_client.payload import read, split
from psoup_testing.services.threaded_service import Serving

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
COLUMNS = (
    ColumnInfo("id", "BIGINT", pa.int64(), False),
    ColumnInfo("ok", "BOOLEAN", pa.bool_(), True),
    ColumnInfo("price", "DECIMAL(9,2)", pa.decimal128(9, 2), True),
    ColumnInfo("name", "TEXT", pa.string(), True),
    ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True),
    ColumnInfo("day", "DATE", pa.date32(), True),
)
STREAM = StreamInfo(
    "s", "1", "", COLUMNS, "", dt.timedelta(0), None, None, None, NOON, None, None, 0, 0, 0, 0, 0, 0, 0, 0, 0
)
SCHEMA = pa.schema([(column.name, column.arrow) for column in COLUMNS])
ROWS = pa.table(
    [
        [1, 2, 3],
        [True, None, False],
        [Decimal("1.50"), None, Decimal("-2.25")],
        ["Grüße", "", None],
        [NOON, None, NOON],
        [None, NOON.date(), None],
    ],
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    "data", [ROWS, ROWS.slice(1), ROWS.slice(3), ROWS.to_batches()[0], pa.concat_tables([ROWS, ROWS])]
)
def test_a_table_that_fits_is_not_changed(data: pa.Table | pa.RecordBatch) -> None:
    table = as_it_is(data, STREAM, plain_schema(STREAM))
    assert table is not None and table.equals(to_table(data, STREAM), check_metadata=True)


@pytest.mark.parametrize(
    "data",
    [
        ROWS.select(["id"]),
        ROWS.rename_columns(["ID", *SCHEMA.names[1:]]),
        ROWS.select([*reversed(SCHEMA.names)]),
        ROWS.set_column(3, "name", ROWS["name"].cast(pa.large_string())),
        ROWS.replace_schema_metadata({"pandas": "{}"}),
        ROWS.cast(pa.schema([pa.field("id", pa.int64(), nullable=False), *list(SCHEMA)[1:]])),
        ROWS.to_pylist(),
    ],
)
def test_any_other_form_is_converted(data: object) -> None:
    assert as_it_is(data, STREAM, plain_schema(STREAM)) is None


@pytest.mark.seeded("a table is taken as it is with a NULL that the stream does not take")
def test_a_null_is_refused_as_in_a_conversion() -> None:
    data = ROWS.set_column(0, "id", pa.array([1, None, 3]))
    with pytest.raises(InvalidData) as converted:
        to_table(data, STREAM)
    with pytest.raises(InvalidData) as refused:
        as_it_is(data, STREAM, plain_schema(STREAM))
    assert (str(refused.value), refused.value.facts) == (str(converted.value), converted.value.facts)


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        ROWS.slice(1, 1),
        pa.concat_tables([ROWS, ROWS]),
        ROWS.replace_schema_metadata({"made": "by hand"}),
        ROWS.set_column(3, "name", ROWS["name"].dictionary_encode()),
        pa.table({"x": [1, 2]}),
    ],
)
def test_a_payload_has_the_bytes_of_the_writer_of_pyarrow(table: pa.Table) -> None:
    (payload,) = split(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks() if table.column(0).num_chunks > 1 else table)
    assert payload.data == sink.getvalue().to_pybytes()
    assert payload.rows == table.num_rows and read(payload.data).equals(table.combine_chunks())


def test_a_short_slice_of_a_long_table_is_one_payload() -> None:
    long = pa.table({"x": pa.array(["y" * 1_024]).take(pa.array([0] * 20_000))})
    assert [payload.rows for payload in split(long.slice(5, 3))] == [3]
    assert len([*split(long)]) > 1


def test_a_changed_stream_has_another_plain_schema(running: Serving) -> None:
    with Client(running.address, timeout=30) as client, Client(running.address, timeout=30) as other:
        client.create_stream("CREATE STREAM plain (a BIGINT)")
        assert client.push("plain", pa.table({"a": [1]})).accepted == 1
        other.execute("ALTER STREAM plain ADD COLUMN b BIGINT")
        assert client.push("plain", pa.table({"a": [2]})).accepted == 1
        assert client.push("plain", pa.table({"a": [3], "b": [4]})).accepted == 1
        assert client.push("plain", pa.table({"b": [5], "a": [6]})).accepted == 1
        answer = client.ask("SELECT a, b FROM plain")
        assert answer.to_arrow().to_pylist() == [{"a": a, "b": b} for a, b in ((1, None), (2, None), (3, 4), (6, 5))]
