"""The readers' view of one stream. The engine makes it from the stream's parts when one of them has changed.

feed, shelf, open chunk, clauses ──view──> StreamView, an immutable value
                                 └─stale─> a full check: fields that differ from the published view, if a part has
                                           forgotten to call `Attention.changed`
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.packs import PackRoom
from psoup.data.data_stem import DataSteM
from psoup.data.newest_versions import NewestVersions, TableKeys
from psoup.data.rows_left import ALL_ROWS, SomeRows
from psoup.engine.stream.clauses import StreamClauses
from psoup.engine.stream.feed import StreamFeed
from psoup.engine.stream.shared_rooms import SharedRooms
from psoup.engine.stream.shelf import Shelf
from psoup.events.events import StreamCreated
from psoup.published.match_room import MatchRoom
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.chunk_results import ALL, ChunkResults
from psoup.results.open import OpenResults, OpenView


class Publication:
    """Makes the readers' view of one stream. Holds the stream's ID, tenant, time of creation and statement.

    Of a table no folds are kept: the matches of a chunk change when versions end.
    """

    def __init__(self, event: StreamCreated, rooms: SharedRooms, newest: NewestVersions | None = None) -> None:
        self._stream_id = event.stream_id
        self._tenant = event.tenant
        self._created = event.time
        self._sql = event.sql
        self._room = MatchRoom()
        self._keys = rooms.keys.of(event.tenant)
        self._rooms = rooms
        self._newest = newest
        table = event.spec.table is not None
        self._folds = FoldRoom(0, 1) if table else rooms.folds
        self._packs = PackRoom(0, 1) if table else rooms.packs

    def alter(self, sql: str) -> None:
        """Set the CREATE STREAM statement of the stream's present form."""
        self._sql = sql

    def view(
        self, feed: StreamFeed, data: DataSteM, clauses: StreamClauses, results: OpenResults, shelf: Shelf
    ) -> StreamView:
        """Make a view of the stream in its present state. Copies one pointer for each chunk."""
        chunks, thinned = (*shelf.entries, _open_entry(data, clauses, results)), bool(shelf.turns[1])
        return StreamView(
            stream_id=self._stream_id,
            tenant=self._tenant,
            spec=data.spec,
            sql=self._sql,
            created=self._created,
            watermark=feed.watermark,
            heard=feed.heard,
            live=feed.live,
            last_time=data.last_time,
            first_time=data.first_time,
            dropped_time=shelf.dropped_time,
            chunks=chunks,
            turns=shelf.turns,
            thinned=thinned,
            left=SomeRows([entry.data for entry in chunks]) if thinned else ALL_ROWS,
            archived=shelf.archived,
            archived_bytes=shelf.disk_bytes,
            waiting=feed.waiting,
            table_keys=None if self._newest is None else TableKeys(self._newest, feed.waiting_rows),
            arrivals=feed.arrivals,
            late=feed.late,
            ahead=feed.ahead,
            nbytes=shelf.tuple_bytes + data.open.nbytes + feed.waiting_bytes,
            queries=clauses.queries,
            index=clauses.index,
            clauses=clauses.index.view(),
            room=self._room,
            keys=self._keys,
            folds=self._folds,
            packs=self._packs,
            offers=self._rooms.offers,
            outside=clauses.quarantine.outside,
        )


def _open_entry(data: DataSteM, clauses: StreamClauses, results: OpenResults) -> ChunkEntry:
    """The open chunk, and its results."""
    chunk, names = data.open.view(), clauses.table.share()
    return ChunkEntry(
        chunk,
        ChunkResults(
            results.view(len(chunk), names),
            covered_before=ALL,
            errors=dict(results.errors),
            failures=results.failures.renamed(names),
            gaps=results.gaps,
        ),
    )


_PLAIN = (
    "spec",
    "sql",
    "watermark",
    "heard",
    "live",
    "last_time",
    "first_time",
    "dropped_time",
    "archived",
    "turns",
    "thinned",
    "nbytes",
    "queries",
)


def stale(shown: StreamView, now: StreamView) -> list[str]:
    """The names of the fields in which the view that readers have differs from the present view. O(chunks)."""
    return [*_stale_fields(shown, now), *_stale_chunks(shown, now)]


def _stale_fields(shown: StreamView, now: StreamView) -> Iterator[str]:
    yield from (name for name in _PLAIN if getattr(shown, name) != getattr(now, name))
    yield from (name for name in ("outside", "clauses") if getattr(shown, name) is not getattr(now, name))
    if shown.arrivals.ends != now.arrivals.ends:
        yield "arrivals"
    if list(map(id, shown.waiting)) != list(map(id, now.waiting)):
        yield "waiting"
    for name in ("late", "ahead"):
        refused, by_now = getattr(shown, name), getattr(now, name)
        if (refused.count, refused.forgotten) != (by_now.count, by_now.forgotten):
            yield name


def _stale_chunks(shown: StreamView, now: StreamView) -> Iterator[str]:
    if len(shown.chunks) != len(now.chunks):
        yield f"{len(shown.chunks)} chunks"
        return
    for entry, by_now in zip(shown.chunks[:-1], now.chunks[:-1], strict=True):
        if entry is not by_now:
            yield f"chunk {entry.data.number}"
    last, open_now = shown.chunks[-1], now.chunks[-1]
    if (last.data.number, last.data.first_id, len(last.data)) != (
        open_now.data.number,
        open_now.data.first_id,
        len(open_now.data),
    ):
        yield "open chunk"
    counted = last.results.errors == open_now.results.errors
    counted = counted and last.results.failures.same(open_now.results.failures)
    if not counted or last.results.gaps is not open_now.results.gaps:
        yield "errors or exceptions of the open chunk"
    if _identity(last.results.open) != _identity(open_now.results.open):
        yield "results of the open chunk"


def _identity(view: OpenView | None) -> tuple[int, ...]:
    if view is None:
        return ()
    arrays = (view.sqc_of_slot, view.row_of_slot, view.rows, *view.runs)
    return (view.count, view.length, *map(id, arrays))
