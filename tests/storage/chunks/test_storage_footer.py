"""Footers of Parquet files that another program wrote: none ends the process, whatever is wrong with it."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_storage.durable.chunks.foreign import WrongChunk, facts_of
from psoup_storage.formats.chunk_file import encode_chunk
from psoup_storage.formats.footer import check_footer
from psoup_storage.formats.history import HistoryChunk

SPEC = create_stream("CREATE STREAM s (t TIMESTAMP NOT NULL, x TEXT) TIMESTAMP BY t")
TABLE = pa.table({"t": pa.array([1, 2], pa.timestamp("us", "UTC")), "x": ["hello", None]})


def written() -> bytes:
    """A chunk of two tuples, as a job writes it."""
    batch = Batch(columns_from_arrow(SPEC.schema, TABLE), np.array([1, 2]))
    chunk = ChunkView(0, Places(0, len(batch)), batch.times, batch.columns, batch.nbytes)
    return bytes(encode_chunk(SPEC, chunk, archived=True).to_pybytes())


def taken(content: bytes) -> bool:
    """Whether a file is taken in; the process must outlive the question."""
    facts = HistoryChunk("00000.parquet", 2, len(content), zlib.crc32(content), 1, 2, 0, 0, 0, "{}")
    try:
        facts_of(pa.py_buffer(content), facts, SPEC, None)
    except WrongChunk:
        return False
    return True


@pytest.mark.long
def test_no_change_of_a_footer_ends_the_process() -> None:
    content, draw = written(), random.Random(7)
    assert taken(content)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    outcomes = set[bool]()
    for at in range(start, len(content)):
        for change in (draw.randrange(1, 256), 1 << draw.randrange(8)):
            outcomes.add(taken(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]))
    assert outcomes == {False, True}


def test_sizes_of_levels_that_a_column_has_not_are_found() -> None:
    """Arrow throws for these where nothing catches it."""
    content = written()
    required = pa.BufferOutputStream()
    schema = pa.schema([TABLE.schema.field("t"), pa.field("x", pa.string(), nullable=False)])
    pq.write_table(pa.table({"t": TABLE.column("t"), "x": ["hello", ""]}, schema=schema), required)
    other = pq.read_metadata(pa.BufferReader(required.getvalue())).schema
    with pytest.raises(ValueError, match="its footer is wrong about column x"):
        check_footer(memoryview(content), other)


def test_a_footer_that_leaves_out_a_column_or_is_too_long_is_refused() -> None:
    content = written()
    more = pa.BufferOutputStream()
    pq.write_table(TABLE.append_column("y", pa.array([1, 2])), more)
    with pytest.raises(ValueError, match="its footer leaves out columns"):
        check_footer(memoryview(content), pq.read_metadata(pa.BufferReader(more.getvalue())).schema)
    with pytest.raises(ValueError, match="its footer has 2,147,483,647 bytes"):
        check_footer(memoryview(content[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1"), None)
