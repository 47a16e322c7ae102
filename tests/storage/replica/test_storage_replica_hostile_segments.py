"""Segments that no writer makes are refused before anything is decompressed or applied, by their names."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import Internal, ResourceExhausted
from psoup_storage import DurableStore
from psoup_storage.durable.log.rows import LogRow, checksum_of
from psoup_storage.replica import segments
from psoup_storage.replica.objects import EVENTS, object_name
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.segments import CommittedRow
from psoup_testing.engines.hostile_copy import (
    MIB,
    declared_length,
    last_of,
    make_copy,
    payload_of,
    refuse_in,
    rewrite,
    rows_of,
)
from psoup_testing.engines.standby_soup import VisibleTarget, follow, standby


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_copy(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """The copy, to be changed."""
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def test_a_segment_that_declares_absurd_lengths_is_refused(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, EVENTS)
    ((row, committed),) = rows_of(copy, number)
    few = [CommittedRow(row._replace(body="x" * 300_001), committed)]
    many = payload_of([CommittedRow(row, committed)] * 1_237)
    for payload, why in (
        (declared_length(payload_of(few), 300_001, 2**40), "its rows have .* bytes once decompressed, and 536,870,912"),
        (declared_length(many, 1_237, 2**40), f"it declares {2**40:,} rows, and 262,144 are the most"),
        (many[:-4_000], ""),
    ):
        rewrite(copy, number, payload)
        refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: {why}")


def test_a_segment_that_inflates_is_not_decompressed(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, EVENTS)
    ((row, committed),) = rows_of(copy, number)
    payload = payload_of([CommittedRow(row._replace(body="x" * (20 * MIB)), committed)])
    assert len(payload) < 20_000
    rewrite(copy, number, payload)
    why = "bytes once decompressed, and 1,048,576 are the most"
    with patch.object(segments, "MOST_BYTES", MIB):
        refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: its rows have .* {why}")
        with patch("pyarrow.ipc.open_stream", side_effect=AssertionError), pytest.raises(ValueError, match=why):
            segments.decode_rows(memoryview(payload))


def test_a_writer_makes_no_segment_that_readers_would_refuse(copy: Path) -> None:
    ((row, committed),) = rows_of(copy, last_of(copy, EVENTS))
    large = [CommittedRow(row._replace(body="x" * MIB), committed)]
    with patch.object(segments, "MOST_BYTES", MIB), pytest.raises(ResourceExhausted, match="at most 1,048,576"):
        segments.encode_rows(large)
    with patch.object(segments, "MOST_BYTES", 2 * MIB):
        assert segments.decode_rows(memoryview(segments.encode_rows(large))) == large


@pytest.mark.parametrize("more", [1, 40, 63])
def test_offsets_that_lead_out_of_a_segment_are_refused(copy: Path, tmp_path: Path, more: int) -> None:
    number = last_of(copy, EVENTS)
    ((row, committed),) = rows_of(copy, number)
    size = 70_001
    payload = payload_of([CommittedRow(row._replace(body="x" * size), committed)], compressed=False)
    rewrite(copy, number, declared_length(payload, size, size + 2**more))
    refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: ")


def test_rows_that_are_not_as_their_header_says_are_refused(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, EVENTS)
    ((row, committed),) = rows_of(copy, number)
    other = row._replace(body=row.body + " ")
    for rows, why in (
        ([], "its events are not those that its header names"),
        ([row, row], f"its event {row.sequence} is out of order, or has changed"),
        ([row._replace(sequence=row.sequence - 1)], ".* is out of order, or has changed"),
        ([other], ".* or has changed"),
        ([row._replace(kind="bomb")], ".* or has changed"),  # type: ignore[arg-type]
    ):
        rewrite(copy, number, payload_of([CommittedRow(each, committed) for each in rows]))
        refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: {why}")
    table = pa.ipc.open_stream(payload_of([CommittedRow(row, committed)])).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(pa.record_batch([pa.nulls(1, field.type) for field in table.schema], table.schema))
    rewrite(copy, number, bytes(sink.getvalue()))
    refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: a fact of a row is missing")
    rewrite(copy, number, b"ARROW1")
    refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: ")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])):
        pass
    rewrite(copy, number, bytes(sink.getvalue()))
    refuse_in(copy, tmp_path, "it has the columns x")


def tuples_of(compression: str | None, *, longer: int = 0) -> bytes:
    """The tuples of a push to `s`, compressed, or with a length that the buffers do not have."""
    batch = pa.record_batch({"0": pa.array([7] * 999, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    *_, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    content = bytes(message.serialize())
    return declared_length(content, 999, 999 + longer) if longer else content


def with_tuples(row: LogRow, tuples: bytes) -> LogRow:
    facts = json.loads(row.body) | {"crc": zlib.crc32(tuples), "rows": 999}
    return row._replace(body=json.dumps(facts), tuples=tuples)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda row: with_tuples(row, tuples_of("zstd")), "it is compressed, as PSoup writes none"),
        (lambda row: with_tuples(row, tuples_of(None, longer=2**33)), ""),
        (lambda row: with_tuples(row, tuples_of(None)[:-900]), ""),
        (lambda row: with_tuples(row, b"ARROW1"), ""),
        (lambda row: row._replace(body="[" * 50_000), "RecursionError"),
        (lambda row: row._replace(body="[]"), "AttributeError"),
        (lambda row: row._replace(body="{}"), "KeyError"),
        (lambda row: row._replace(stream=77), "KeyError"),
        (lambda row: row._replace(last_time=None), "it has tuples, and no time"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused(
    copy: Path, tmp_path: Path, damage: Callable[[LogRow], LogRow], why: str
) -> None:
    """By a standby, and by the start of a directory that was restored."""
    number = last_of(copy, EVENTS)
    ((row, committed),) = rows_of(copy, number)
    row = damage(row)
    row = row._replace(checksum=checksum_of(row))
    rewrite(copy, number, payload_of([CommittedRow(row, committed)]))
    target = VisibleTarget(copy, number - 1)
    with standby(tmp_path / "standby", target) as soup:
        follow(soup)
        target.last = number
        with pytest.raises(Internal, match=f"{object_name(number)} is damaged: event {row.sequence} .*{why}"):
            follow(soup)
        assert soup.store.sequence == row.sequence - 1
    restore_copy(str(copy), tmp_path / "restored")
    store = DurableStore(tmp_path / "restored")
    with pytest.raises(Internal, match=f"event {row.sequence} of the log is damaged: .*{why}"):
        list(store.read())
    store.close()
