"""Columns that are read from their pages have the values that the library reads, or are left to it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.model import BIGINT, TIME_COLUMN, Kind, StreamSpec
from psoup.sql import create_stream
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import columns_from_arrow
from psoup_storage.durable.chunks.archive import StoredColumns
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_storage.formats.chunk_file import GROUP_ROWS, archive_facts

CREATE = (
    "CREATE STREAM s (a BIGINT, n BIGINT, d DECIMAL(9, 2), e DECIMAL(18, 0), t TIMESTAMP NOT NULL, y DATE, w TEXT,"
    " f DOUBLE) TIMESTAMP BY t"
    " RETENTION 20 ROWS ARCHIVE 1000000 ROWS"
)
ROWS = 40_000
TIMES = pa.timestamp("us", "UTC")
WIDE = {"a": 2**62, "d": 10**9 - 1, "e": 10**17, "y": 10**6}


def columns(rng: np.random.Generator) -> dict[str, Array]:
    """Values of all sizes, from row group to row group others; NULLs in one column."""
    sizes = np.repeat([1, 900, 2**40], [16_384, 16_384, ROWS - 2 * 16_384])
    out = {name: rng.integers(-most, most, ROWS) % np.minimum(sizes, most) for name, most in WIDE.items()}
    return out | {"t": np.sort(rng.integers(0, 10**15, ROWS))}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchivedChunk, tuple[Column, ...], ColumnCache]:
    """A chunk on disk, its columns as they were, and the cache of its columns."""
    path: Path = tmp_path_factory.mktemp("pages")
    rng, spec = np.random.default_rng(5), create_stream(CREATE)
    values = columns(rng)
    table = pa.table(
        {
            "a": values["a"],
            "n": pa.array(values["a"], mask=np.arange(ROWS) == 7),
            "d": decimals(values["d"], 9, 2),
            "e": decimals(values["e"], 18, 0),
            "t": pa.array(values["t"]).cast(pa.timestamp("us")),
            "y": pa.array((values["y"] % 30_000).astype(np.int32)).cast(pa.date32()),
            "w": [f"w{n}" for n in range(ROWS)],
            "f": rng.random(ROWS),
        }
    )
    own, cache = columns_from_arrow(spec.schema, table), ColumnCache(1 << 30)
    chunk = ChunkView(0, Places(0, ROWS), own[4].values, own, 100 * ROWS)
    return archived(path, spec, chunk, cache), own, cache


def decimals(values: Array, precision: int, scale: int) -> pa.Array:
    """Whole numbers as decimals, each in units of the last digit."""
    words = np.stack([values, values >> 63], axis=1).tobytes()
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [None, pa.py_buffer(words)])


def archived(path: Path, spec: StreamSpec, chunk: ChunkView, cache: ColumnCache) -> ArchivedChunk:
    folder = ChunkFolder(path, cache, Covers(path), SidecarFolder(path))
    return folder.archived(spec, folder.write(1, spec, chunk, None))


def test_columns_are_read_by_pages_where_they_can_be(
    stored: tuple[ArchivedChunk, tuple[Column, ...], ColumnCache],
) -> None:
    chunk, own, _ = stored
    assert isinstance(chunk.source, StoredColumns)
    by_pages = set()
    for attribute, column in zip(chunk.spec.schema.attributes, own, strict=True):
        numbers = chunk.source._numbers(attribute, None)
        if numbers is not None:
            by_pages.add(attribute.name)
            assert np.array_equal(numbers, column.order_keys()), attribute.name
        whole = chunk.source.column(attribute)
        assert np.array_equal(whole.values, column.values), attribute.name
        assert whole.values.dtype == column.values.dtype
    assert by_pages == {"a", "d", "e", "t", "y"}, "not what has NULLs, texts and doubles"


@pytest.mark.parametrize("rows", [[0], [16_383, 16_384], [5, 20_000, 39_999], list(range(30_000, 30_100))])
def test_some_rows_and_their_values_are_found_and_kept(
    stored: tuple[ArchivedChunk, tuple[Column, ...], ColumnCache], rows: list[int]
) -> None:
    chunk, own, cache = stored
    cache._columns.clear()
    attributes = chunk.spec.schema.attributes
    for _ in range(2):
        taken = chunk.source.take(attributes, np.array(rows))
        for attribute, column, wanted in zip(attributes, taken, own, strict=True):
            assert column.to_list() == wanted.take(np.array(rows)).to_list(), attribute.name
    reads = cache.reads
    chunk.source.take([a for a in attributes if a.type.kind is Kind.BIGINT and a.name == "a"], np.array(rows[:1]))
    assert cache.reads == reads, "fewer rows of those that are kept need no reading"


def test_rows_of_a_range_are_those_of_the_values(
    stored: tuple[ArchivedChunk, tuple[Column, ...], ColumnCache],
) -> None:
    chunk, own, cache = stored
    cache._columns.clear()
    for attribute, column in zip(chunk.spec.schema.attributes, own, strict=True):
        if attribute.name in {"n", "w", "f"}:
            continue
        keys = column.order_keys()
        for low, last in ((int(keys[9]), int(keys[9])), (-5, 5), (-(2**63), 2**63 - 1), (7, 6)):
            for _ in range(2):
                rows = chunk.source.within(attribute, low, last)
                assert rows is not None
                assert np.array_equal(rows, np.flatnonzero((keys >= low) & (keys <= last)))
    assert cache.bytes > 0


@pytest.mark.parametrize(
    ("order", "nullable", "by_pages"), [("abt", True, "ab"), ("tba", True, "ab"), ("abt", False, "")]
)
def test_columns_in_the_file_of_a_job_are_read_where_it_says_that_they_are(
    tmp_path: Path, order: str, nullable: bool, by_pages: str
) -> None:
    spec = create_stream("CREATE STREAM s (a BIGINT, b BIGINT) RETENTION 20 ROWS ARCHIVE 1000000 ROWS")
    values = {name: np.random.default_rng(place).integers(0, 900, ROWS) for place, name in enumerate("ab")}
    times = np.arange(ROWS)
    arrays = {name: pa.array(own) for name, own in values.items()} | {"t": pa.array(times).cast(TIMES)}
    fields = [pa.field(TIME_COLUMN if n == "t" else n, arrays[n].type, nullable and n != "t") for n in order]
    table = pa.Table.from_arrays([arrays[name] for name in order], schema=pa.schema(fields))
    form = dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED")
    more: dict[str, Any] = {"use_dictionary": False, "column_encoding": form, "write_page_checksum": True}
    file = tmp_path / "chunks" / "1-a-0.parquet"
    folder = ChunkFolder(tmp_path, cache := ColumnCache(1 << 30), Covers(tmp_path), SidecarFolder(tmp_path))
    pq.write_table(table, file, compression="zstd", row_group_size=GROUP_ROWS, **more)
    content = pa.py_buffer(file.read_bytes())
    own = tuple(Column(BIGINT, column) for column in values.values())
    facts = archive_facts(ChunkView(0, Places(0, len(times)), times, own, 24 * ROWS), content)
    row = ChunkRow(1, 0, 0, ROWS, file.name, content.size, zlib.crc32(content), ROWS - 1, 0, *facts)
    assert row.attached
    source = folder.archived(spec, row).source
    assert isinstance(source, StoredColumns)
    read = [a.name for a in spec.schema.attributes if source._numbers(a, None) is not None]
    assert (read, cache.reads) == (list(by_pages), len(by_pages))
    for attribute in spec.schema.attributes:
        assert np.array_equal(source.column(attribute).values, values[attribute.name])
