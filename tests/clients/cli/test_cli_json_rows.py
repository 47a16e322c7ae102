"""`psoup push --format json` and PushRows take the same JSON values as the same rows, and refuse the same ones."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.errors import InvalidBatch
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, DataType, Schema, decimal
from psoup.values.kinds import arrow_type
from psoup_cli.files.options import FileOptions
from psoup_cli.files.row_files import open_rows
from psoup_client import ColumnInfo, InvalidData, StreamInfo
from psoup_client.columns.convert import to_table
from psoup_service.wire.json_answers import rows_json
from psoup_service.wire.json_rows import read_rows
from psoup_testing.suite.sweeps import in_parts, swept

TYPES = {
    "BOOLEAN": BOOLEAN,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "DECIMAL(9,2)": decimal(9, 2),
    "DECIMAL(18,0)": decimal(18, 0),
    "TEXT": TEXT,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
}
TRIALS = 200
"""Lists of values for each type."""

_BEGIN = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
_ODD = [
    "null", "true", "false", "0", "-0", "-0.0", "1", "1.0", "1e2", "1.5", "1.50", "12.345", "1e-400", "1e400", "-1e400",
    "0e999999", "1E+2", "9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "123456789012345678", "1234567.89", "12345678.9", "999999999999999999999999999999",
    '""', '"x"', '" "', '"1"', '"-1"', '"+1"', '"1.5"', '" 1.50 "', '"1e2"', '"1e-2"', '"٣"', '"1_000"', '"0x10"',
    '"9223372036854775807"', '"9223372036854775808"', '"NaN"', '"nan"', '"Infinity"', '"-Infinity"', '"inf"', '"true"',
    '"2024-05-01"', '"2024-02-30"', '"0001-01-01"', '"10000-01-01"', '"2024-05-01T12:00:00Z"', '"2024-05-01 12:00"',
    '"2024-05-01T12:00:00.123456+02:00"', '"2024-05-01T12:00:00.1234567Z"', '"2024-05-01T12:00:00.1234560Z"',
    '"2024-05-01T24:00:00Z"', '"2024-W18-3"', '"20240501"', '"20240501T120000Z"', '"2024-05-01T12"', '"12:00"',
    '"2024-05-01T12:00:00z"', '"2024-05-01T12:00:00 Z"', '"2024-05-01T12:00:60Z"', '" 2024-05-01 "', '"2024-5-1"',
    '"9999-12-31T23:59:59.999999Z"', '"0001-01-01T00:00:00+14:00"', '"-0001-01-01"', '"2024-05-01T12:00:00,5Z"',
    '"\\ud800"', '"\\u0000"', '"é"', "[]", "{}", '{"a": 1}', "[1]",
]  # fmt: skip


def column_info(name: str, kind: DataType) -> ColumnInfo:
    return ColumnInfo("v", name, arrow_type(kind), True)


def of_command(texts: list[str], name: str, folder: Path) -> list[object] | None:
    """The values that `psoup push` would send for these values of JSON; None if it refuses one."""
    columns = (column_info(name, TYPES[name]),)
    stream = StreamInfo("s", "1", "", columns, "", dt.timedelta(0), *(None,) * 3, _BEGIN, None, None, *(0,) * 9)
    path = folder / "rows.jsonl"
    path.write_text("".join(f'{{"v": {text}}}\n' for text in texts))
    try:
        pieces = list(open_rows(str(path), "json", stream, FileOptions()))
        for piece in pieces:
            piece.check()
        table = pa.concat_tables([to_table(piece.rows, stream) for piece in pieces])
    except InvalidData:
        return None
    return _values(table["v"].combine_chunks(), TYPES[name])


def of_service(texts: list[str], name: str) -> list[object] | None:
    """The values that the service reads of these values of JSON; None if it refuses one."""
    schema = Schema((Attribute("v", TYPES[name]),))
    try:
        batch = read_rows(("[" + ",".join(f'{{"v": {text}}}' for text in texts) + "]").encode(), schema)
    except InvalidBatch:
        return None
    return _values(batch.column(0), TYPES[name])


def _values(column: pa.Array, kind: DataType) -> list[object]:
    column = column.cast(arrow_type(kind))
    whole = pa.int64() if pa.types.is_timestamp(column.type) else pa.int32() if pa.types.is_date(column.type) else None
    return [repr(value) for value in (column if whole is None else column.view(whole)).to_pylist()]


def drawn(random_of: random.Random) -> Iterator[list[str]]:
    """Single values first, each by itself, then lists of values that may go together."""
    for text in _ODD:
        yield [text]
    for _ in range(int(TRIALS * float(os.environ.get("PSOUP_TEST_SCALE", "1")))):
        few = random_of.sample(_ODD, random_of.randint(1, 3))
        yield [random_of.choice(few) for _ in range(random_of.randint(2, 4))]


@pytest.mark.parametrize("name", swept(TYPES, fast=3))
@in_parts(2)
def test_the_command_and_the_service_read_the_same(name: str, part: slice, tmp_path: Path) -> None:
    seed = int(os.environ.get("PSOUP_TEST_SEED", "43"))
    taken = 0
    for texts in list(drawn(random.Random(f"{seed} {name}")))[part]:
        of_file, of_rows = of_command(texts, name, tmp_path), of_service(texts, name)
        assert of_file == of_rows, (texts, of_file, of_rows)
        taken += of_rows is not None
    assert taken, "some are values of the type"


def test_rows_of_an_answer_are_taken_as_the_same_rows() -> None:
    """BIGINT beyond 2^53, NaN, decimals, years that Python lacks: what comes out goes in again."""
    kinds = {"b": BOOLEAN, "n": BIGINT, "d": DOUBLE, "p": decimal(9, 2), "t": TEXT, "at": TIMESTAMP, "day": DATE}
    schema = Schema(tuple(Attribute(name, kind) for name, kind in kinds.items()))
    values = {
        "b": [True, False, None],
        "n": [2**63 - 1, -(2**53) - 1, 2**53],
        "d": [float("nan"), float("-inf"), 0.1],
        "p": ["0.10", "-1234567.89", None],
        "t": ["\0\u2028é", "", None],
        "at": [0, 1_714_564_800_123_456, -62_135_596_800_000_000],
        "day": [0, -719_162, 2_932_896],
    }
    columns = [pa.array(values[name]) for name in kinds]
    batch = pa.RecordBatch.from_arrays(
        [
            column.cast(pa.int32()).cast(arrow_type(kind)) if kind is DATE else column.cast(arrow_type(kind))
            for column, kind in zip(columns, kinds.values(), strict=True)
        ],
        list(kinds),
    )
    again = read_rows(rows_json(batch), schema)
    assert [*map(repr, again.to_pylist())] == [*map(repr, batch.to_pylist())]
