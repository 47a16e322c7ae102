"""A chunk as a Parquet file, written by services and by jobs: encoding, decoding, and signs of damage."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.data.chunk import ChunkView
from psoup.data.schema_growth import absent_column
from psoup.data.zones import Zones
from psoup.errors import Internal
from psoup.model import TIME_COLUMN, Kind, StreamSpec
from psoup.phrases import counted
from psoup.values.columns import Batch
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES, arrow_type

GROUP_ROWS = 16_384
"""The rows of a row group in the file of an archived chunk. To read one row, a reader must read the whole row group."""

DAMAGED = "DATA_DAMAGED"


def encode_chunk(spec: StreamSpec, chunk: ChunkView, *, archived: bool) -> pa.Buffer:
    """A Parquet file: the columns of the stream, and `_time` where no column is the time. A table whose first versions
    came late has `_time`, too: the physical IDs of the order of its tuples.

    `archived`: readers will read parts of the file.
    """
    attributes = spec.schema.attributes
    arrays = [column.to_arrow() for column in chunk.columns]
    fields = [pa.field(a.name, array.type, a.nullable) for a, array in zip(attributes, arrays, strict=True)]
    kinds = {attribute.name: attribute.type.kind for attribute in attributes}
    if spec.time_attribute is None or (spec.table is not None and _came_late(chunk, spec.time_attribute)):
        arrays.append(pa.array(chunk.times).view(pa.timestamp("us", "UTC")))
        fields.append(pa.field(TIME_COLUMN, arrays[-1].type, False))
        kinds[TIME_COLUMN] = Kind.TIMESTAMP
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=pa.schema(fields)),
        sink,
        compression="zstd",
        row_group_size=GROUP_ROWS if archived else max(len(chunk), 1),
        write_page_checksum=archived,
        store_decimal_as_integer=True,
        use_dictionary=[name for name, kind in kinds.items() if kind is Kind.TEXT],
        column_encoding={name: TYPES[kind].encoding for name, kind in kinds.items() if TYPES[kind].encoding},
    )
    return sink.getvalue()


def _came_late(chunk: ChunkView, time_attribute: int) -> bool:
    """Whether the own time of a tuple differs from its physical ID. O(rows)."""
    return not np.array_equal(chunk.columns[time_attribute].values, chunk.times)


def decode_chunk(spec: StreamSpec, content: pa.Buffer) -> Batch:
    """The tuples of `encode_chunk`, without a second copy."""
    return batch_of(spec, pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False))


def batch_of(spec: StreamSpec, table: pa.Table) -> Batch:
    """The tuples in the table that was read from a chunk's file."""
    names = set(table.column_names)
    columns = tuple(
        column_from_arrow(attribute.name, attribute.type, table.column(attribute.name).cast(arrow_type(attribute.type)))
        if attribute.name in names
        else absent_column(attribute.type, table.num_rows)  # the stream got the column later
        for attribute in spec.schema.attributes
    )
    if spec.time_attribute is not None and TIME_COLUMN not in names:
        return Batch(columns, columns[spec.time_attribute].values)
    times = table.column(TIME_COLUMN).combine_chunks().view(pa.int64()).to_numpy()
    return Batch(columns, np.ascontiguousarray(times))


def archive_facts(chunk: ChunkView, content: pa.Buffer) -> tuple[int, int, int, int, str]:
    """Facts of a chunk that is read in parts: first time, memory, footer bytes, footer checksum, zones (JSON)."""
    size = int.from_bytes(content.slice(content.size - 8, 4).to_pybytes(), "little") + 8
    facts: dict[str, Any] = {str(i): [z.least, z.greatest, z.has_null] for i, z in Zones(chunk).items() if i >= 0}
    meta = pq.read_metadata(pa.BufferReader(content))
    groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
    facts["ranges"] = [[_range(group.column(place)) for group in groups] for place in range(meta.num_columns)]
    footer = zlib.crc32(content.slice(content.size - size))
    return chunk.first_time, chunk.nbytes, size, footer, json.dumps(facts, separators=(",", ":"))


def _range(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """The offset of a column's pages in a row group, and their bytes."""
    first = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return first, column.total_compressed_size


def changed(content: bytes, size: int, checksum: int) -> str | None:
    """The damage of a file, in words, if its content has another size or CRC-32 than was written; else None."""
    if len(content) != size:
        return f"it has {counted(len(content), 'byte')}, and {size:,} were written"
    if zlib.crc32(content) != checksum:
        return "its checksum is wrong: some of its bytes have changed"
    return None


def damaged(path: Path, why: str) -> Internal:
    """The error for a damaged chunk file. Clients may see it, so it says the name in the data directory only."""
    return Internal(
        f"the chunk {path.parent.name}/{path.name} is damaged: {why}; psoup doctor says what is lost, psoup restore"
        " brings a backup back,"
        " psoup doctor --set-aside goes on without it",
        reason=DAMAGED,
        file=path.name,
    )
