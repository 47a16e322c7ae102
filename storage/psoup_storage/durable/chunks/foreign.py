"""A chunk that a job wrote: its facts are checked or recomputed before it becomes part of the data.

    bytes ── size, checksum ──> footer: rows, groups, columns ──> pages: bytes ──> columns ──> times, NULLs ──> zones

A wrong zone, or a wrong first time, would give silently wrong answers as long as the chunk lives. So the service
computes these facts from the values. Sizes are checked before values are read, because few bytes can stand for many.
The decompressed size of a page is taken from the page's own header, because the footer may contradict it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from psoup.admission.rows.pushes import check_finite, check_text
from psoup.config import CHUNK_ROWS, EngineConfig
from psoup.data.archived_chunk import TIME
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import PSoupError
from psoup.kernels.rows.parquet_deltas import FACTS, PLAIN_SIZE, SIZE, page_facts
from psoup.model import Kind, StreamSpec
from psoup.phrases import counted
from psoup.values.columns import Array, Batch, Column
from psoup.values.kinds import arrow_type
from psoup_storage.formats.chunk_file import GROUP_ROWS, archive_facts, batch_of
from psoup_storage.formats.footer import check_footer
from psoup_storage.formats.history import HistoryChunk

MOST_BYTES = 256 * 1024**2
"""The most bytes of a decompressed chunk, with its texts written out.

Reading such a chunk takes about four times as much memory. Jobs of PSoup end a chunk at half of this size.
"""


_TEXT_BYTES = EngineConfig().text_bytes
_SMALLER = "write chunks of fewer rows (chunk_rows)"


class WrongChunk(Exception):
    """The reason why a chunk cannot be taken in."""


def facts_of(
    content: pa.Buffer, chunk: HistoryChunk, spec: StreamSpec, after: int | None
) -> tuple[int, int, int, int, str]:
    """The facts of the chunk's manifest row (`archive_facts`), computed from its values. O(bytes).

    `after`: the last time of the chunk before it. Raises WrongChunk.
    """
    try:
        _check_size(content, chunk)
        batch = _read(content, chunk, spec)
        _check_values(batch, chunk, spec, after)
        facts = archive_facts(ChunkView(0, Places(0, len(batch)), batch.times, batch.columns, batch.nbytes), content)
    except (pa.ArrowException, PSoupError, OSError, ValueError, KeyError, OverflowError) as problem:
        raise WrongChunk((str(problem).splitlines() or [type(problem).__name__])[0]) from problem
    return facts


def _check_size(content: pa.Buffer, chunk: HistoryChunk) -> None:
    if content.size != chunk.bytes or zlib.crc32(content) != chunk.crc:
        raise WrongChunk("it has changed since it was written")
    if not 0 < chunk.rows <= CHUNK_ROWS:
        raise WrongChunk(f"it has {counted(chunk.rows, 'row')}, and 1 to {CHUNK_ROWS:,} are a chunk")


def _read(content: pa.Buffer, chunk: HistoryChunk, spec: StreamSpec) -> Batch:
    """The tuples. Texts stay dictionary-encoded, as in the file, until their total length is checked."""
    meta = pq.read_metadata(pa.BufferReader(content))
    check_footer(memoryview(content), meta.schema)
    for wrong in (*_wrong_groups(meta, chunk), *_wrong_columns(meta.schema.to_arrow_schema(), spec)):
        raise WrongChunk(wrong)
    _check_pages(np.frombuffer(content, np.uint8), meta)
    names = set(meta.schema.names)
    texts = [a.name for a in spec.schema.attributes if a.type.kind is Kind.TEXT and a.name in names]
    table = pq.ParquetFile(pa.BufferReader(content), metadata=meta, read_dictionary=texts).read(use_threads=False)
    if table.num_rows != chunk.rows:
        raise WrongChunk(f"it has {counted(table.num_rows, 'row')}, not {chunk.rows:,}")
    table.validate(full=True)
    size = sum(_text_bytes(piece) for column in table.columns for piece in column.chunks)
    if size > MOST_BYTES:
        raise WrongChunk(f"its texts have {size:,} bytes; the limit is {MOST_BYTES:,}; {_SMALLER}")
    return batch_of(spec, table)


def _text_bytes(piece: pa.Array) -> int:
    """Bytes of a dictionary column with every value written out; 0 for any other."""
    if not isinstance(piece, pa.DictionaryArray):
        return 0
    lengths = pc.binary_length(piece.dictionary).take(piece.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _wrong_groups(meta: Any, chunk: HistoryChunk) -> Iterator[str]:
    """The facts about row groups in the footer that are impossible or contradict the manifest, in words."""
    groups = [meta.row_group(place) for place in range(min(meta.num_row_groups, CHUNK_ROWS // GROUP_ROWS + 1))]
    rows = [group.num_rows for group in groups]
    wrong = meta.num_rows != chunk.rows or sum(rows) != chunk.rows
    if wrong or any(count != GROUP_ROWS for count in rows[:-1]) or not 0 < rows[-1] <= GROUP_ROWS:
        first = f"{rows[0]:,}" if rows else "none"
        yield (
            f"it has {counted(meta.num_rows, 'row')} in groups of {first}, not {chunk.rows:,} in groups"
            f" of {GROUP_ROWS:,}"
        )
        return
    for column in (group.column(place) for group in groups for place in range(meta.num_columns)):
        starts = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else 0]
        if column.num_values > GROUP_ROWS or min(*starts, column.total_compressed_size) < 0:
            yield f"its footer says {counted(column.num_values, 'value')} of column {column.path_in_schema[:64]}"


def _check_pages(content: Array, meta: Any) -> None:
    """Raise WrongChunk if the pages are not where the footer says, or too large once decompressed. O(pages)."""
    facts, whole = np.empty(FACTS, np.int64), 0
    for group in map(meta.row_group, range(meta.num_row_groups)):
        for column in map(group.column, range(meta.num_columns)):
            at = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            end = at + column.total_compressed_size
            while at < end <= len(content):
                at = page_facts(content, at, end, facts)
                if at < 0 or min(facts[PLAIN_SIZE], facts[SIZE]) < 0:
                    break
                at, whole = at + int(facts[SIZE]), whole + int(facts[PLAIN_SIZE])
                if whole > MOST_BYTES:
                    raise WrongChunk(f"it has more than {MOST_BYTES:,} bytes once decompressed; {_SMALLER}")
            if at != end:
                raise WrongChunk(f"the pages of its column {column.path_in_schema[:64]} are not where its footer says")


def _wrong_columns(schema: pa.Schema, spec: StreamSpec) -> Iterator[str]:
    """The columns that differ from the stream's, in words; columns that the stream got later may be missing."""
    fields = [field for field in schema if field.name != TIME.name]
    attributes = spec.schema.attributes
    if spec.event_time == (len(fields) < len(schema)):
        yield f"a column {TIME.name} is for streams in system time, and only for them"
    elif any(field.name == TIME.name and field.type != arrow_type(TIME.type) for field in schema):
        yield f"its column {TIME.name} is not {arrow_type(TIME.type)}"
    for attribute, field in zip(attributes, fields, strict=False):
        wanted = arrow_type(attribute.type)
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        alike = plain == wanted or (pa.types.is_string(wanted) and pa.types.is_large_string(plain))
        if field.name != attribute.name or not alike or (field.nullable and not attribute.nullable):
            want = f"{attribute.name} {attribute.type}{'' if attribute.nullable else ' NOT NULL'}"
            yield f"its column {field.name} is {plain}, and the stream has {want} there"
            return
    if len(fields) > len(attributes):
        yield f"it has a column {fields[len(attributes)].name}, and the stream has not"
    for attribute in attributes[len(fields) :]:
        if not attribute.nullable:
            yield f"the column {attribute.name}, which is never NULL, is missing"


def _check_values(batch: Batch, chunk: HistoryChunk, spec: StreamSpec, after: int | None) -> None:
    times = batch.times
    if (times[1:] < times[:-1]).any() or (after is not None and int(times[0]) < after):
        raise WrongChunk("its tuples are not in the order of their times")
    if (int(times[0]), int(times[-1])) != (chunk.first_time, chunk.last_time):
        raise WrongChunk("its first and its last time are not those of the manifest")
    for place, (attribute, column) in enumerate(zip(spec.schema.attributes, batch.columns, strict=True)):
        if column.valid is not None and (not attribute.nullable or place == spec.time_attribute):
            raise WrongChunk(f"its column {attribute.name} has NULL, and is never NULL in the stream")
        if attribute.type.kind is Kind.TEXT:
            check_text(attribute.name, column, _TEXT_BYTES)
        check_finite(attribute.name, column)
    check_finite(TIME.name, Column(TIME.type, times))
