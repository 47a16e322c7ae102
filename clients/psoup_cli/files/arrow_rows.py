"""Parquet and Arrow files, read as tables, one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from psoup_cli.files.header import FieldNames
from psoup_cli.files.parquet_file import check_int96, open_parquet
from psoup_cli.files.source import FileSource
from psoup_client import InvalidData
from psoup_client.payload import BATCH_ROWS

_FILE = b"ARROW1"
"""The first bytes of an Arrow file. An Arrow stream does not have them."""


@dataclass(frozen=True, slots=True)
class ArrowPiece:
    """A table of rows, the number of rows before it in the file, and the bytes read so far, if known."""

    table: pa.Table
    before: int
    position: int


def parquet_pieces(file: BinaryIO, names: FieldNames, size: int) -> Iterator[ArrowPiece]:
    """Yield the rows of a Parquet file. A pipe is read completely first, because a Parquet file has its index at the
    end.
    """
    source: Any = file if file.seekable() else pa.BufferReader(file.read())
    if FileSource(file).compression if file.seekable() else False:
        raise InvalidData("a Parquet file has its own compression; decompress the outer file first")
    with open_parquet(source) as parquet:
        rows, done = max(1, parquet.metadata.num_rows), 0
        wanted = names.wanted(parquet.schema_arrow.names)
        check_int96(parquet, source, wanted)
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=[*wanted]):
            yield ArrowPiece(_renamed(batch, wanted), done, size * (done + batch.num_rows) // rows)
            done += batch.num_rows


def arrow_pieces(source: FileSource, names: FieldNames) -> Iterator[ArrowPiece]:
    """Yield the rows of an Arrow stream, or of an Arrow file (Feather)."""
    done = 0
    for batch in _batches(source):
        wanted = names.wanted(batch.schema.names)
        yield ArrowPiece(_renamed(batch.select([*wanted]), wanted), done, source.position)
        done += batch.num_rows


def _batches(source: FileSource) -> Iterator[pa.RecordBatch]:
    file = source.stream()
    if not source.compression and file.seekable():
        begin = file.read(len(_FILE))
        file.seek(0)
        if begin == _FILE:
            with pa.ipc.open_file(file) as batches:
                yield from (batches.get_batch(at) for at in range(batches.num_record_batches))
            return
    with pa.ipc.open_stream(file) as stream:
        yield from stream


def _renamed(batch: pa.RecordBatch, wanted: dict[str, str]) -> pa.Table:
    return pa.Table.from_batches([batch]).rename_columns([wanted[name] for name in batch.schema.names])
