"""Widening: the old tuples of a stream get NULL in columns that are added.

    batch, chunk in memory    columns ─> columns + NULLs, shared by all chunks
    chunk on disk             only the schema changes: the source gives NULL for columns that the file lacks

A start may read a chunk that was stored after the change, before it applies the change. Such a chunk already has all
columns, and stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np

from psoup.config import CHUNK_ROWS
from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.model import DataType, Kind, Schema, StreamSpec
from psoup.values.columns import Array, Batch, Column
from psoup.values.kinds import TYPES

ChunkT = TypeVar("ChunkT", ChunkView, ArchivedChunk)


def widen_batch(batch: Batch, schema: Schema) -> Batch:
    """The batch with a column for each attribute of `schema`, whose first attributes are the batch's."""
    return replace(batch, columns=_widened(batch.columns, len(batch), schema))


def widen_chunk(chunk: ChunkT, spec: StreamSpec) -> ChunkT:
    """The chunk with a column for each attribute of `spec`. The budget's charge for it does not change. O(columns)."""
    if isinstance(chunk, ArchivedChunk):
        return replace(chunk, spec=spec)
    return replace(chunk, columns=_widened(chunk.columns, len(chunk), spec.schema), caches=chunk.caches.moved())


def _widened(columns: tuple[Column, ...], rows: int, schema: Schema) -> tuple[Column, ...]:
    return (*columns, *(absent_column(attribute.type, rows) for attribute in schema.attributes[len(columns) :]))


def absent_column(data_type: DataType, rows: int) -> Column:
    """A column of `rows` NULLs, for an added attribute. All chunks share its memory."""
    values, valid, data = (_nulls if rows <= CHUNK_ROWS else _make_nulls)(data_type.kind, max(rows, CHUNK_ROWS))
    stop = rows + 1 if data_type.kind is Kind.TEXT else rows
    return Column(data_type, values[:stop], valid[:rows], data)


def _make_nulls(kind: Kind, rows: int) -> tuple[Array, Array, Array | None]:
    text = kind is Kind.TEXT
    arrays = (np.zeros(rows + 1, np.int64) if text else np.zeros(rows, TYPES[kind].dtype), np.zeros(rows, np.bool_))
    for array in arrays:
        array.flags.writeable = False
    return *arrays, np.zeros(0, np.uint8) if text else None


_nulls = cache(_make_nulls)
