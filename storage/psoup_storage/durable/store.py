"""The store on disk: events are in the database when `append` returns, and come back after a crash.

    append([e1, e2, e3])   one transaction, one wait for the disk        (group commit)
    keep(chunk)            a closed chunk's file (none if it is passed) and manifest row; the log forgets its tuples
    read()                 the rows in order, as events; a stream comes with its stored chunks

After an error of the disk the store refuses everything until the next start. The state of a disk that failed to sync is
unknown. A nearly full disk is noticed earlier: commands are refused while there is still room to unregister.
"""

from __future__ import annotations

import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import cast

import apsw

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.errors import Internal, ResourceExhausted
from psoup.events.events import Attached, Event, StreamDropped
from psoup.model import DEFAULT_TENANT, StreamSpec
from psoup.retry_memory import REMEMBERED, Remembered
from psoup_storage.contract import NO_COPY, InTurn, at_once
from psoup_storage.durable.chunks.archive import StoredColumns
from psoup_storage.durable.chunks.attachments import Adopted, adopt, give_up, place_sidecars
from psoup_storage.durable.chunks.chunk_loader import Restoring
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers, TakenCover
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow, checked_row, columns_of, files_of, passed_row
from psoup_storage.durable.chunks.manifest import add_row, add_rows, oldest_chunk
from psoup_storage.durable.chunks.sidecars import SidecarFolder, numbers_of
from psoup_storage.durable.chunks.thinning import thin
from psoup_storage.durable.directory import DataDirectory, Notes
from psoup_storage.durable.disk_room import COPIES, DiskRoom
from psoup_storage.durable.log import log
from psoup_storage.durable.log.access import guarded
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.durable.log.departures import Departures
from psoup_storage.durable.log.latest import LatestRows
from psoup_storage.durable.log.logged_registrations import LoggedRegistrations
from psoup_storage.durable.log.parked_at_end import parked_at_end
from psoup_storage.durable.log.ready import ReadyRows
from psoup_storage.durable.log.truncation import (
    forget_aged,
    forget_chunks,
    forget_outlived,
    forget_stored,
    forget_stream,
    forget_the_dead,
)
from psoup_storage.durable.log.tuples import StoredEnd
from psoup_storage.durable.sqlite.database import Database
from psoup_storage.durable.sqlite.quick_reader import QuickReader
from psoup_storage.durable.sqlite.standby_mark import promotion_of, refuse_other_use
from psoup_storage.durable.tools.backup import PREFIX, Frozen, freeze
from psoup_storage.durable.tools.setting_aside import losses
from psoup_storage.formats.covers import StoredFile
from psoup_storage.formats.history import read_manifest

RESERVE_BYTES = 64 * 1024 * 1024
CACHE_BYTES = 256 * 1024 * 1024
NO_QUERY = 2**63 - 1
"""An ID that no query has."""
_log = logging.getLogger(__name__)


class DurableStore:
    """Events in one data directory; see the module. `DataDirectory` and `Database` name the errors of opening.

    `reserve_bytes`: free space of the disk below which commands are refused. `cache_bytes`: cached columns of archived
    chunks. `hot_bytes`: bytes of tuples that a start loads at most for streams with an archive; the rest stays on disk.
    `remembered`: limits on remembered producers, as in admission. `vfs`: a file system of tests.
    """

    name, durable, follows = "disk", True, False
    copy_gate = NO_COPY

    def __init__(
        self,
        path: Path | str,
        *,
        reserve_bytes: int = RESERVE_BYTES,
        cache_bytes: int = CACHE_BYTES,
        hot_bytes: int = 2**62,
        remembered: Remembered = REMEMBERED,
        vfs: str | None = None,
    ) -> None:
        self._remembered = remembered
        with ExitStack() as opened:
            self._directory = DataDirectory(path)
            opened.callback(self._directory.close)
            try:
                self._database = Database(self._directory, vfs)
                opened.callback(self._database.close)
                self._notes = Notes(self._directory.path)
                refuse_other_use(self._directory.path, self._database.query, self.follows)
                self.incarnation = self._database.meta("incarnation")
                self.guarded = guarded(self._database)
                self.promotion, self.writer = promotion_of(self._database.query)
                self._last = next(self._database.query("SELECT ifnull(max(sequence), 0) FROM log"))[0]
                self.room = DiskRoom(self._directory.path, lambda: self._directory.free_bytes(), reserve_bytes)
                at, sidecars = self._directory.path, SidecarFolder(self._directory.path, self.check_room)
                self._chunks = ChunkFolder(at, ColumnCache(cache_bytes), Covers(at), sidecars)
                self._clean()
            except OSError as problem:
                raise Internal(f"the store in {path} cannot be opened: {problem}", reason="STORAGE_FAILED") from problem
            opened.pop_all()
        self._restoring = Restoring(self._database.query, self._chunks, hot_bytes)
        self._decoder: Decoder | None = None  # of the last `read`; it knows the streams
        self._forgotten: defaultdict[int, int] = defaultdict(lambda: remembered.acknowledgements)
        """By stream, the rows that have lost their tuples since the last call of `forget_aged`."""
        self._adopted: dict[tuple[int, str], Adopted] = {}
        """By stream and job, the chunks that are in the folder and not yet attached."""
        self._in_turn: InTurn = at_once
        self._shared, self._latest = False, LatestRows()
        self._reader = QuickReader(self._directory.database, None if vfs is None else self._database.query)
        self.registrations = LoggedRegistrations(self._reader.rows)
        self.spool, self.make_ready = self._ready.spool, self._ready.make
        self.disk_shortage = self.room.shortage

    @property
    def path(self) -> Path:
        """The data directory."""
        return self._directory.path

    @property
    def sequence(self) -> int:
        """The sequence of the last event appended."""
        return int(self._last)

    @property
    def bytes(self) -> int:
        """Bytes of the database, of all chunk files, and of all sidecars."""
        return self._database.bytes + self._chunk_bytes + self._chunks.sidecars.nbytes

    @property
    def wal_bytes(self) -> int:
        """Bytes of the write-ahead log."""
        return self._database.wal_bytes

    @property
    def archive_reads(self) -> int:
        """Columns of archived chunks that were read from files since the start."""
        return self._chunks.cache.reads

    def check_room(self, size: int) -> None:
        """Raise ResourceExhausted, reason DISK_FULL, if the disk would have less than its reserve left."""
        self.room.check(size)

    def shortage(self) -> str:
        """See `Store`."""
        return self.disk_shortage() or self.copy_gate.reason()

    def append(self, events: Sequence[Event]) -> None:
        """Store `events` in one transaction. Raises ResourceExhausted without room; then none is stored.

        Raises Internal for any other error; after an error of the disk every further call raises it too.
        """
        self._database.refuse_if_failed()
        if not events:
            return
        self._database.failure = log.disorder(events, self._last)
        self._database.refuse_if_failed()
        rows = self._ready.of(events)
        with self._database.transaction() as connection:
            log.write(connection, rows)
            attached = [event for event in events if isinstance(event, Attached)]
            files = [file for event in attached for file in self._attach(connection, event)]
            dropped = [event.stream_id for event in events if isinstance(event, StreamDropped)]
            forgotten = [forget_stream(connection, stream) for stream in dropped]
            self._latest.keep(connection, events)
        for event in attached:
            adopted = self._adopted.pop((event.stream_id, event.job))
            self._chunk_bytes += sum(row.bytes for row in adopted.rows)
            place_sidecars(self._chunks.sidecars, event, adopted)
            if event.batch is not None and files:
                self._chunks.sidecars.forget(event.stream_id, oldest_chunk(self._database.query, event.stream_id))
        for stream, (of_chunks, spools) in zip(dropped, forgotten, strict=True):
            self._chunks.sidecars.forget(stream)
            self._ready.spools.unnamed(spools)
            files += of_chunks
        self._last = events[-1].sequence
        self._ready.appended(events)
        self._remove(files)
        self._departures.note(events)
        if self._departures.due and not self._shared:
            self._departures.forget_some(self._last)

    def share(self, in_turn: InTurn) -> None:
        """See `Store`."""
        self._in_turn = self._ready.in_turn = in_turn
        self._shared = True
        self._database.postpone()

    @property
    def due(self) -> bool:
        """Whether the write-ahead log needs a checkpoint, or there are unnamed spools or gone queries to remove."""
        forgets = self._ready.spools.due or (self._shared and self._departures.due)
        return self._database.due or (forgets and not self._database.failure)

    def settle(self) -> None:
        """Checkpoint the write-ahead log, or remove some pieces of spools or gone queries; see `Store`."""
        moves = self._database.due
        if self._ready.spools.due and not moves:
            self._ready.spools.clear()
        elif self._departures.due and not moves:
            self._departures.forget_some(self._last)
        else:
            self._database.settle()

    def keep(self, stream: int, spec: StreamSpec, chunk: ChunkView, oldest: int) -> ArchivedChunk | None:
        """Store a closed chunk (`psoup.data.chunk.Keep`); raises OSError or Internal if the disk fails.

        ResourceExhausted if it has no room: nothing has changed then. A stream that has been dropped needs no chunk.
        """
        before, passed = self._stored.get(stream), chunk.number < oldest
        row = passed_row(stream, chunk, before) if passed else self._chunks.write(stream, spec, chunk, before)
        try:
            files, start = self._in_turn(partial(self._admit, chunk.first_time, row, min(oldest, row.number)))
        except ResourceExhausted:
            self._chunks.remove(files_of([row]))
            raise
        self._stored[stream] = row
        self._chunk_bytes += row.bytes
        self._remove(files)
        if files:
            self._chunks.sidecars.forget(stream, oldest)
        with suppress(ResourceExhausted):
            while start is not None:  # acknowledgements wait for one slice, not for all
                start = self._in_turn(partial(self._forget_more, row, start))
        gone = row.passed or row.file in files
        return self._chunks.archived(spec, row) if spec.retention.archive and not gone else None

    def thin(self, stream: int, spec: StreamSpec, chunk: ChunkView) -> ArchivedChunk | None:
        """Replace the file of a stored chunk (`psoup.data.chunk.Thin`); raises as `keep`."""
        replaced = thin(self._chunks, self._database, self._in_turn, stream, spec, chunk)
        if replaced is None:
            return None
        row, file = replaced
        self._chunk_bytes += row.bytes
        self._remove([file])
        return None if row.footer is None else self._chunks.archived(spec, row)

    def _admit(self, first: int, row: ChunkRow, oldest: int) -> tuple[list[str], int | None]:
        """Add a chunk's `row` to the manifest. Returns the files of expired chunks, and the start of the next slice.

        `first`: the time of its first tuple. If a full disk has no room to forget tuples, the next chunk forgets them.
        """
        with suppress(ResourceExhausted), self._database.transaction() as connection:
            return self._add(connection, first, row, oldest), self._forget(connection, row, -(2**63))
        with self._database.transaction() as connection:
            return self._add(connection, first, row, oldest), None

    def _add(self, connection: apsw.Connection, first: int, row: ChunkRow, oldest: int) -> list[str]:
        if connection.execute("SELECT 1 FROM log WHERE stream = ? AND kind = 'drop'", (row.stream,)).get is not None:
            return files_of([row])
        add_row(connection, row, first)
        return forget_chunks(connection, row.stream, oldest)

    def _forget(self, connection: apsw.Connection, row: ChunkRow, start: int) -> int | None:
        """Forget a slice of the stored tuples, from time `start`. Returns the start of the next slice, or None."""
        following, count, spools = forget_stored(connection, row.stream, row.last_time, start)
        self._ready.spools.unnamed(spools)
        self._forgotten[row.stream] += count
        if following is None and self._forgotten[row.stream] >= self._remembered.acknowledgements // 4:
            forget_aged(connection, row.stream, self._remembered)
            self._forgotten[row.stream] = 0
        return following

    def _forget_more(self, row: ChunkRow, start: int) -> int | None:
        with self._database.transaction() as connection:
            return self._forget(connection, row, start)

    def read_ahead(self) -> None:
        """Begin to decode stored chunks, for the first `read`; see `Restoring`. Nothing may be appended before that."""
        self._restoring.ahead()

    def read(self, after: int = 0) -> Iterator[Event]:
        """The kept events with a sequence greater than `after`. Raises Internal at a damaged one."""
        edges = {stream: StoredEnd(row.last_time, row.ties) for stream, row in self._stored.items()}
        parked = parked_at_end(self._database.query)
        decoder = self._decoder = Decoder(edges, self._restoring.of, parked)
        try:
            for row in log.read(self._database.query, unneeded=parked.without_content):
                event = decoder.decode(row)
                if event.sequence > after:
                    yield event
        finally:
            self._restoring.close()

    def incoming(self, tenant: str = DEFAULT_TENANT) -> Path:
        """The folder for jobs of a tenant; created if it is missing. It may be a link to shared storage.

        The folder of the tenant `default` contains the folders of all other tenants, by their names.
        """
        return self._directory.incoming(tenant)

    def adopt(self, directory: Path, job: str, stream: int, spec: StreamSpec, queries_end: int = NO_QUERY) -> Adopted:
        """Take in the chunks of a job directory. The job's event `Attached` makes them part of the stream.

        `queries_end`: greater than all assigned query IDs. O(bytes); any thread, one at a time for a job. Raises
        InvalidInput, reason BAD_HISTORY, and ResourceExhausted without room.
        """
        manifest = read_manifest(directory)
        self.check_room(sum(chunk.bytes for chunk in manifest.chunks) // COPIES)
        facts = self._chunks, directory, manifest, stream, spec, self.incarnation, queries_end
        self._adopted[stream, job] = adopted = adopt(*facts)
        return adopted

    def disown(self, stream: int, job: str) -> None:
        """Remove the chunks adopted for a job, unless they are attached; after a failure of the disk they stay."""
        adopted = self._adopted.pop((stream, job), None)
        if adopted is not None and not self._database.failure:
            give_up(self._chunks, adopted.files, adopted.sidecars)

    def files(self, chunks: Sequence[ArchivedChunk]) -> list[StoredFile]:
        """The files of chunks on disk, with the facts that identify them."""
        pairs = [(chunk, cast(StoredColumns, chunk.source)) for chunk in chunks]
        return [StoredFile(str(source.path), len(chunk), source.checksum, chunk.first_id) for chunk, source in pairs]

    def cover(self, directory: Path, chunks: Sequence[ArchivedChunk], queries_end: int = NO_QUERY) -> TakenCover:
        """Take in a job's matches in some `chunks`, of queries with IDs below `queries_end`. O(chunks); any thread.

        Raises InvalidInput, reason BAD_HISTORY, and ResourceExhausted without room.
        """
        files = {Path(file.path).name: (file.rows, file.crc) for file in self.files(chunks)}
        self.check_room(0)
        return self._chunks.covers.take(directory, self.incarnation, files, queries_end)

    def prune_covers(self, stands: Callable[[int], bool]) -> int:
        """Remove the covers of which no query `stands` any more; returns how many covers."""
        return self._chunks.covers.prune(stands)

    def freeze(self) -> Frozen:
        """Copy the directory as of one event, for a backup. Other threads may append events meanwhile. Any thread.

        Raises ResourceExhausted without room for a copy of the database, Internal if it cannot be written.
        """
        self.check_room(self._database.bytes // COPIES)
        return freeze(self._directory, self._database)

    def note(self, name: str, text: str, *, sync: bool = False) -> None:
        """Remember one line under a name; see `Notes`."""
        self._notes.write(name, text, sync=sync)

    def noted(self, name: str) -> str:
        """The last note under a name."""
        return self._notes.read(name)

    def close(self) -> None:
        """Close the files and unlock the directory; idempotent. No reader may use an archived chunk from then on."""
        self._restoring.close()
        if not self._database.failure:
            with suppress(Internal, OSError):  # a file that stays is an orphan, which the next start removes
                self._chunks.remove_orphans(set(files_of(self._manifest(""))), read=False)
        for part in (self._reader, self._database, self._notes, self._directory):
            part.close()

    def _clean(self) -> None:
        """Remove what the last process left behind: orphans, and rows that nothing needs."""
        for copy in self.path.glob(f"{PREFIX}*"):
            shutil.rmtree(copy)
        rows = list(self._manifest("ORDER BY stream, number"))
        self._chunk_bytes = sum(row.bytes for row in rows)
        self._stored = {row.stream: row for row in rows if not row.attached}
        for loss in losses(self.path):
            _log.warning("something damaged was set aside", extra={"what": loss["place"], "lost": loss["lost"]})
        files = set(files_of(rows))
        self._chunks.covers.load(self.incarnation, files)
        self._chunks.sidecars.load(numbers_of((row.stream, row.number) for row in rows))
        if orphans := self._chunks.remove_orphans(files):
            _log.info("removed files that a crash had left", extra={"files": len(orphans)})
        with self._database.transaction() as connection:
            forget_the_dead(connection)
        self._ready = ReadyRows(self._database)
        self._departures = Departures(self._database, self._remembered)
        while self._departures.forget(self._last):
            pass

    def _manifest(self, condition: str, *values: int) -> Iterator[ChunkRow]:
        columns = columns_of(self._database.query)
        return map(checked_row, self._database.query(f"SELECT {columns} FROM chunks {condition}", values))

    def _attach(self, connection: apsw.Connection, event: Attached) -> list[str]:
        """Add the event's chunks to the manifest. Returns the files of chunks that have expired by it."""
        adopted = self._adopted.get((event.stream_id, event.job))
        if adopted is None or len(adopted.rows) != len(event.chunks):
            raise Internal(f"the store takes no events: the chunks of job {event.job!r} are not in {self._chunks.path}")
        add_rows(connection, event, adopted)
        return [] if event.batch is None else forget_outlived(connection, event, adopted.retention)

    def _remove(self, files: list[str]) -> None:
        self._chunk_bytes -= self._chunks.remove(files)
