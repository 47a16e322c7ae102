"""Restoring the stored chunks of each stream at a start: loader threads decode them ahead of the replay.

    ahead    stream 3: chunk 0 1 2 3 …     two threads decode, the caller loads modules and kernels meanwhile
    of(3)    waits for chunks that are not decoded yet, and raises the errors of decoding

Chunks of an archive, and attached chunks, stay on disk and are restored as entries. The caller's thread reads the
database, and the loader threads read files. They allocate columns in `lasting_memory`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from psoup.data.stored_chunk import Passed, Stored, StoredChunk
from psoup.errors import PSoupError
from psoup.model import StreamSpec
from psoup.values.columns import lasting_memory
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow, checked_row, columns_of
from psoup_storage.durable.log.definitions import altered, created

_LOADERS = 2
_STREAMS = """
SELECT stream, body FROM log WHERE kind = 'stream' AND stream IN (SELECT stream FROM chunks) ORDER BY sequence
"""
_ALTERATIONS = """
SELECT body FROM log WHERE stream = ? AND kind IN ('stream', 'alter') AND kind = 'alter' ORDER BY sequence
"""
_REACHED = "SELECT max(body ->> 'watermark') FROM log WHERE stream = ? AND kind IN ('push', 'watermark')"
_FACTS = "SELECT first_time, dropped_time, late, ahead FROM stored WHERE stream = ?"
_ROWS = "SELECT {columns} FROM chunks WHERE stream = ? ORDER BY number"

Query = Callable[[str, Sequence[Any]], Iterator[tuple[Any, ...]]]
"""Runs a SELECT with values."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A stream whose chunks the loaders decode. `created`: its definition when it was created. `rest`: its stored part
    without the chunks.
    """

    created: StreamSpec
    loads: tuple[Future[StoredChunk], ...]
    rest: Stored


class Restoring:
    """Restores stored chunks at one start; see the module.

    `hot_bytes`: the most bytes of tuples to load for streams with an archive.
    """

    def __init__(self, query: Query, chunks: ChunkFolder, hot_bytes: int) -> None:
        self._query = query
        self._rows = _ROWS.format(columns=columns_of(query))
        self._chunks = chunks
        self._hot_bytes = hot_bytes
        self._begun: dict[int, _Begun | None] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._usual = pa.default_memory_pool()

    def ahead(self) -> None:
        """Begin to decode the chunks of all streams. `of` reports damage, in the order of the log."""
        with suppress(PSoupError):
            for stream, body in list(self._query(_STREAMS, ())):
                self._begun[stream] = self._begin(stream, created(json.loads(body)))

    def of(self, stream: int, spec: StreamSpec) -> Stored | None:
        """The stored part of a stream that was created as `spec`; waits for its chunks.

        Raises Internal, reason DATA_DAMAGED, that names the first bad file.
        """
        begun = self._begun.pop(stream, None)
        if begun is None or begun.created != spec:
            begun = self._begin(stream, spec)
        if begun is None:
            return None
        return replace(begun.rest, chunks=tuple(load.result() for load in begun.loads))

    def close(self) -> None:
        """End the loader threads. They decode no further chunks. Idempotent."""
        self._begun.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            pa.set_memory_pool(self._usual)

    def _begin(self, stream: int, first: StreamSpec) -> _Begun | None:
        rows = _unbroken([checked_row(row) for row in self._query(self._rows, (stream,))])
        if not rows:
            return None
        spec = first
        for (body,) in list(self._query(_ALTERATIONS, (stream,))):
            facts = json.loads(body)
            spec = altered(spec, facts["sql"], facts)
        last = rows[-1]
        passed = Passed(last.number, last.end_id, last.last_time) if last.passed else None
        rows = rows if passed is None else []
        on_disk = [row for row in rows if row.attached]
        rows = rows[len(on_disk) :]
        if spec.retention.archive and rows:
            on_disk, rows = on_disk + rows, rows[self._cold(spec, rows) :]
        entries = tuple(self._chunks.archived(spec, row) for row in on_disk)
        facts = Stored((), *next(self._query(_FACTS, (stream,))))
        if passed is not None:
            facts = replace(facts, dropped_time=passed.last_time, passed=passed)
        reached = next(self._query(_REACHED, (stream,)))[0]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_LOADERS, "psoup-loader")
            pa.set_memory_pool(lasting_memory())
        loads = tuple(self._pool.submit(self._chunks.load, spec, row) for row in rows)
        return _Begun(first, loads, replace(facts, archive=entries, reached=reached))

    def _cold(self, spec: StreamSpec, rows: Sequence[ChunkRow]) -> int:
        """The number of stored chunks of an archived stream that stay on disk."""
        retention, last, newer_rows = spec.retention, rows[-1], 0
        for count, row in reversed(list(enumerate(rows, 1))):
            age = last.last_time - row.last_time
            by_time = retention.duration is not None and age > retention.duration - retention.archive
            by_rows = retention.rows is not None and newer_rows >= retention.rows - retention.archive
            newer_rows += row.rows
            self._hot_bytes -= row.memory or 0
            if by_time or by_rows or self._hot_bytes < 0:
                return count
        return 0


def _unbroken(rows: list[ChunkRow]) -> list[ChunkRow]:
    """The newest rows with consecutive numbers. There is a gap after history that expired while a job attached it."""
    breaks = [at for at in range(1, len(rows)) if rows[at].number != rows[at - 1].number + 1]
    return rows[breaks[-1] :] if breaks else rows
