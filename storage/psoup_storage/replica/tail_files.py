"""Rows and events that a directory has and the copy lacks, as files in `diverged/<number of the fence>`.

    diverged/42/trades.3.parquet    rows of the stream 3: _sequence, _time, and its columns
    diverged/42/events.txt          all events of the tail that the log still has, in words
    diverged/42/summary.json        the facts of `Diverged`

`_sequence` is the event, or NULL if the log has forgotten it. `_time` is the time of the row in the stream. Rows of a
table also have `_deleted` and `_patch`, and a patch has the names of its columns in `_given`. The folder gets its name
once all its files are on the disk, so a folder without `.new` is whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from psoup.data.schema_growth import widen_batch
from psoup.model import DELETED_AT, FIRST_AT, PATCH, TIME_COLUMN, StreamSpec
from psoup.values.kinds import arrow_type
from psoup_storage.durable.directory import DIVERGED
from psoup_storage.formats.files import sync_directory
from psoup_storage.formats.job_folder import is_plain
from psoup_storage.replica.tail import Tail, TailRows

SEQUENCE, GIVEN = "_sequence", "_given"
_EVENTS, _SUMMARY = "events.txt", "summary.json"
_NEW = ".new"
_GROUP_ROWS = 65_536
"""The rows from which on a row group is written."""
_NAME_CHARACTERS = 100
"""The most characters of a stream's name in a file's name."""


@dataclass(frozen=True, slots=True)
class StreamFile:
    """The rows of one stream. `file`: its name in the folder."""

    stream: str
    tenant: str
    stream_id: int
    rows: int
    file: str


@dataclass(frozen=True, slots=True)
class Diverged:
    """The facts about such a folder, about the events `first` to `last`. `events`: the number that `events.txt` has.

    `folder`: its path. `fence`, `time`: the number of the fence, and when it was written, in microseconds.
    `incarnation`: of the directory.
    """

    folder: str
    place: str
    incarnation: str
    fence: int
    time: int
    first: int
    last: int
    events: int
    streams: tuple[StreamFile, ...]


@dataclass(frozen=True, slots=True)
class Parting:
    """The place where a directory and the copy at `place` part. The fields are as in `Diverged`."""

    place: str
    incarnation: str
    fence: int
    time: int
    first: int
    last: int


def working_folder(directory: Path, fence: int) -> Path:
    """An empty folder for the files before they are whole. What an earlier run left there is removed."""
    folder = directory / DIVERGED / f"{fence}{_NEW}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    return folder


def write_diverged(folder: Path, parting: Parting, tail: Tail) -> Diverged:
    """Write the rows and the events of a tail to a working folder, which gets its name then. O(rows of the tail).

    All of it is on the disk when this returns. Raises OSError and the errors of `Tail`.
    """
    final = folder.with_name(str(parting.fence))
    with ExitStack() as opened:
        events = opened.enter_context(open(folder / _EVENTS, "x", encoding="utf-8"))
        files = _Files(folder, tail)
        opened.callback(files.close)
        for rows in tail.read(lambda line: print(line, file=events)):
            files.add(rows)
    facts = Diverged(str(final), **asdict(parting), events=tail.events, streams=tuple(files.written()))
    (folder / _SUMMARY).write_text(json.dumps(asdict(facts), indent=2) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o600)
        _sync(path)
    sync_directory(folder)
    shutil.rmtree(final, ignore_errors=True)  # of a run that ended before the old data went
    folder.rename(final)
    sync_directory(final.parent)
    sync_directory(final.parent.parent)
    return facts


def read_diverged(directory: Path, fence: int) -> Diverged | None:
    """Read the facts about the folder of an earlier run; None if there is none."""
    path = directory / DIVERGED / str(fence) / _SUMMARY
    if not path.exists():
        return None
    facts = json.loads(path.read_text(encoding="utf-8"))
    streams = tuple(StreamFile(**each) for each in facts.pop("streams"))
    return Diverged(**facts | {"folder": str(path.parent)}, streams=streams)


class _Files:
    """The files of streams, which are made with their first rows."""

    def __init__(self, folder: Path, tail: Tail) -> None:
        self._folder, self._tail = folder, tail
        self._waiting: dict[int, list[pa.Table]] = {}
        self._rows, self._stored = Counter[int](), Counter[int]()
        """By stream, all rows, and those that are in its file."""
        self._writers: dict[int, pq.ParquetWriter] = {}

    def add(self, rows: TailRows) -> None:
        """Add rows of a stream."""
        self._waiting.setdefault(rows.stream, []).append(_table(self._tail.specs[rows.stream], rows))
        self._rows[rows.stream] += len(rows.batch)
        if self._rows[rows.stream] - self._stored[rows.stream] >= _GROUP_ROWS:
            self._write(rows.stream)

    def close(self) -> None:
        """Write the rows that wait, and end the files."""
        for stream in list(self._waiting):
            self._write(stream)
        for writer in self._writers.values():
            writer.close()

    def written(self) -> Iterator[StreamFile]:
        """The files, by stream ID."""
        for stream, rows in sorted(self._rows.items()):
            spec = self._tail.specs[stream]
            yield StreamFile(spec.name, self._tail.tenants[stream], stream, rows, _file_name(spec.name, stream))

    def _write(self, stream: int) -> None:
        waiting, spec = self._waiting.pop(stream), self._tail.specs[stream]
        self._stored[stream] = self._rows[stream]
        writer = self._writers.get(stream)
        if writer is None:
            file = self._folder / _file_name(spec.name, stream)
            writer = self._writers[stream] = pq.ParquetWriter(file, _schema(spec), compression="zstd")
        writer.write_table(pa.concat_tables(waiting))


def _file_name(stream: str, stream_id: int) -> str:
    plain = is_plain(stream) and len(stream) <= _NAME_CHARACTERS
    return f"{stream if plain else 'stream'}.{stream_id}.parquet"


def _schema(spec: StreamSpec) -> pa.Schema:
    fields: list[tuple[str, Any]] = [(SEQUENCE, pa.int64()), (TIME_COLUMN, pa.timestamp("us", "UTC"))]
    fields += [(attribute.name, arrow_type(attribute.type)) for attribute in spec.schema.shown]
    if spec.table is not None:
        fields += [(name, pa.bool_()) for name in ("_deleted", PATCH)] + [(GIVEN, pa.list_(pa.string()))]
    return pa.schema(fields)


def _table(spec: StreamSpec, rows: TailRows) -> pa.Table:
    """Rows as a table of `_schema`. Columns that the stream got later are NULL."""
    batch, schema = widen_batch(rows.batch, spec.schema), _schema(spec)
    count = len(batch)
    arrays: list[pa.Array] = [pa.array([rows.sequence] * count, pa.int64()), pa.array(batch.times)]
    places = [place for place, attribute in enumerate(spec.schema.attributes) if not attribute.hidden]
    arrays += [batch.columns[place].to_arrow() for place in places]
    if spec.table is not None:
        deleted = batch.columns[DELETED_AT].to_arrow()
        patches = batch.columns[FIRST_AT].to_arrow() if rows.sequence is not None else pa.nulls(count, pa.bool_())
        given = [spec.schema.attributes[place].name for place in rows.given]
        arrays += [deleted, patches, pa.array([given if patch else None for patch in patches.to_pylist()])]
    columns = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
