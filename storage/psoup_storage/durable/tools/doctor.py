"""An examination of a data directory that no service runs on: every file, row and invariant.

    directory   locked, has a database, holds nothing that does not belong there
    database    write-ahead log, pages, schema, format                          see `structure`
    log         every row: its checksum, its statement still binds, its tuples decode; producers' numbers
    manifest    every stream's chunks follow each other, up to where the log goes on
    files       every chunk: size, checksum, rows, times, schema; files that the manifest does not name; folds

The examination goes on after damage as far as data can be read, and names the lost tuples. It writes nothing; with
`repair` it removes files that are not needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pyarrow as pa

from psoup.admission.queries.query_streams import Owners
from psoup.errors import InvalidInput, PSoupError
from psoup.events.change import Change, change_of
from psoup.events.events import Attached, Pushed
from psoup.model import StreamSpec, time_text
from psoup.phrases import counted
from psoup_proto.file_names import is_chunk
from psoup_storage.durable.chunks.covers import FOLDER as COVERS
from psoup_storage.durable.chunks.folder import FOLDER, ChunkRow, columns_of, files_of
from psoup_storage.durable.chunks.sidecars import FOLDER as FOLDS
from psoup_storage.durable.chunks.sidecars import useless as useless_sidecars
from psoup_storage.durable.directory import AUDIT, CACHE, DATABASE, DIVERGED, INCOMING, LOCK, DataDirectory
from psoup_storage.durable.directory import PREFIX as NOTE
from psoup_storage.durable.log import log
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.durable.log.numbers import ProducerNumbers
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.log.tuples import StoredEnd
from psoup_storage.durable.sqlite.schema import FORMAT, is_readable, schema_of, unknown_format
from psoup_storage.durable.sqlite.seals import broken_seals, is_sealed
from psoup_storage.durable.sqlite.structure import (
    damaged_log,
    damaged_pages,
    damaged_schema,
    emptied,
    open_to_look,
    orphans,
)
from psoup_storage.durable.sqlite.whole_copy import MARK
from psoup_storage.durable.tools.chunk_order import out_of_line, wrong_places, wrong_rows
from psoup_storage.durable.tools.findings import Finding, Report, Severity
from psoup_storage.durable.tools.setting_aside import ASIDE, impossible, losses, obstacle, set_aside
from psoup_storage.durable.tools.table_entries import wrong_entries
from psoup_storage.formats.chunk_file import changed, decode_chunk
from psoup_storage.formats.matches import SUFFIX

_KNOWN = {DATABASE, f"{DATABASE}-wal", LOCK, AUDIT, FOLDER, INCOMING, COVERS, FOLDS, CACHE, DIVERGED, "lost+found"}
_EVENT = f"{DATABASE}, event"
_PRODUCERS = f"{DATABASE}, producers"
_RESTORE = "restore a backup of the directory"
_OR_ASIDE = ", or go on without it: psoup doctor {} --set-aside"

Progress = Callable[[str, int, int], None]
"""Called with the name of the examined file, the bytes examined so far, and the bytes of all files."""


def examine(
    path: Path | str,
    *,
    repair: bool = False,
    aside: bool = False,
    progress: Progress = lambda name, done, total: None,
) -> Report:
    """Examine all data in the directory `path`. O(bytes); memory: one chunk.

    `repair` removes leftovers; `aside` sets damaged chunks and events aside (`setting_aside`). Raises InvalidInput if
    the path is not a data directory, or a service runs on it (reason DATA_DIR_IN_USE), or for another format (reason
    UNKNOWN_FORMAT).
    """
    path = Path(path)
    if not (path / DATABASE).is_file():
        raise InvalidInput(f"{path} is not a data directory: there is no {DATABASE} in it", reason="DATA_DIR")
    with closing(DataDirectory(path, to_look=True)):
        examination = Examination(path, repair, progress)
        for finding in examination.run():
            examination.report.findings.append(finding)
        examination.advise()
        if aside:
            examination.set_aside()
        return examination.report


class Examination:
    """The examination of a locked directory."""

    def __init__(self, path: Path, repair: bool, progress: Progress) -> None:
        self.report = Report(str(path))
        self._path = path
        self._repair = repair
        self._progress = progress
        self._streams: dict[int, StreamSpec] = {}
        self._queries = Owners()
        self._dropped: set[int] = set()
        self._chunks: dict[int, list[ChunkRow]] = {}
        self._whole: set[int] = set()
        """Streams that have lost no stored chunk by expiry."""
        self._attached: Counter[int] = Counter()
        self._damaged_chunks: list[ChunkRow] = []
        self._damaged_events: list[LogRow] = []
        files = [file for file in path.rglob("*") if file.is_file()]
        self._total = sum(file.stat().st_size for file in files)
        self._done = 0
        self.report.count("bytes", self._total)

    def run(self) -> Iterator[Finding]:
        """The findings, step by step; a database that cannot be read ends the examination."""
        yield from self._look_at_directory()
        database = self._path / DATABASE
        try:
            with closing(open_to_look(database)) as connection:
                yield from self._look_at_database(connection)
                yield from self._look_at_manifest(connection)
                yield from self._look_at_log(connection)
        except (apsw.Error, UnicodeDecodeError) as problem:
            yield _damage(DATABASE, str(problem), "everything that follows in it")
            return
        finally:
            wal = self._path / f"{DATABASE}-wal"
            if wal.exists() and not wal.stat().st_size:
                wal.unlink()  # SQLite makes one to look into it
        self._advance(DATABASE, database.stat().st_size)
        for stream in sorted(self._chunks):
            yield from self._look_at_chunks(stream, self._chunks[stream])
        yield from self._look_for_orphans()
        yield from self._look_at_sidecars()

    def advise(self) -> None:
        """Name --set-aside in the findings of damage, if all damage can be set aside."""
        if self._obstacle() is None:
            damage, way = self._damage(), _OR_ASIDE.format(self._path)
            self.report.findings = [
                replace(finding, repair=finding.repair + way) if finding in damage else finding
                for finding in self.report.findings
            ]

    def _damage(self) -> list[Finding]:
        return [finding for finding in self.report.findings if finding.severity is Severity.DAMAGE]

    def _obstacle(self) -> str | None:
        """The reason why the damage cannot be set aside; None if it can."""
        for finding in self._damage():
            if not finding.place.startswith((f"{FOLDER}/", _EVENT, _PRODUCERS)):
                return f"{finding.place}: {finding.what}"
        return obstacle(self._damaged_chunks, self._chunks, self._damaged_events)

    def set_aside(self) -> None:
        """Set damaged chunks and events aside. Raises FailedPrecondition if some damage would stay."""
        findings, damage = self.report.findings, self._damage()
        if not damage:
            return
        if (why := self._obstacle()) is not None:
            raise impossible(why)
        names = {stream: spec.name for stream, spec in self._streams.items()}
        self.report.lost = set_aside(
            self._path, self._damaged_chunks, self._chunks, self._damaged_events, damage, names
        )
        self.report.findings = [
            replace(finding, repaired=True) if finding in damage else finding for finding in findings
        ]

    # Steps ----------------------------------------------------------------------------------------------------

    def _look_at_directory(self) -> Iterator[Finding]:
        for entry in sorted(self._path.iterdir()):
            if entry.name == ASIDE:
                for loss in losses(self._path):
                    problem = f"{loss['place']} was set aside at {time_text(loss['time'])}: {loss['what']}"
                    yield Finding(Severity.NOTE, ASIDE, problem, loss["lost"])
            elif entry.name.startswith("backup-"):
                problem = "is what a backup that was cut off has left"
                yield Finding(Severity.LEFTOVER, entry.name, problem, repair="the next start of the service removes it")
            elif entry.name not in _KNOWN and not entry.name.startswith(NOTE):
                yield Finding(Severity.NOTE, entry.name, "does not belong to the data; the service ignores it")

    def _look_at_database(self, connection: apsw.Connection) -> Iterator[Finding]:
        if (damage := damaged_log(connection, self._path / f"{DATABASE}-wal")) is not None:
            yield _damage(f"{DATABASE}-wal", damage, "what was acknowledged after that frame")
        for text in damaged_pages(connection):
            yield _damage(DATABASE, text, "see the rows below")
        if (copied := connection.execute("SELECT value FROM meta WHERE name = ?", (MARK,)).get) is not None:
            facts = json.loads(copied)
            problem = (
                f"is a copy of incarnation {facts['incarnation']}, made after event {facts['sequence']} at"
                f" {time_text(facts['time'])}; the first start gives it an incarnation of its own"
            )
            yield Finding(Severity.NOTE, DATABASE, problem)
        version = connection.execute("SELECT value FROM meta WHERE name = 'format'").get
        if is_readable(str(version)) and (version == str(FORMAT) or is_sealed(connection, "format")):
            if version != str(FORMAT):
                problem = f"has format {version}; the next start of the service brings it to format {FORMAT}"
                yield Finding(Severity.NOTE, DATABASE, problem)
            if (damage := damaged_schema(connection, schema_of(int(version)))) is not None:
                yield _damage(DATABASE, damage)
            else:
                yield from (_damage(DATABASE, row, "see the files below") for row in broken_seals(connection))
                yield from (_damage(DATABASE, text, "which queries stand") for text in orphans(connection))
                yield from (_damage(DATABASE, text, "all events") for text in emptied(connection, self._path))
        elif str(version).isdecimal() and int(version) > 0 and is_sealed(connection, "format"):
            raise unknown_format(self._path, str(version))
        else:
            problem = f"has format {version}, and this version of PSoup reads format {FORMAT}"
            yield _damage(DATABASE, problem, repair="use the version that wrote it, or a newer one")

    def _look_at_manifest(self, connection: apsw.Connection) -> Iterator[Finding]:
        columns = columns_of(lambda statement, values: connection.execute(statement, values))
        for row in map(ChunkRow._make, connection.execute(f"SELECT {columns} FROM chunks ORDER BY stream, number")):
            if not row.passed and not is_chunk(row.file):
                problem = f"the manifest names a file {row.file[:200]!r}, and no chunk's file has such a name"
                yield _damage(f"{DATABASE}, stream {row.stream}", problem, f"the tuples of chunk {row.number}")
                continue
            self._chunks.setdefault(row.stream, []).append(row)
        for (stream,) in connection.execute("SELECT stream FROM stored WHERE dropped_time IS NULL"):
            rows = self._chunks.get(stream, [])
            self._whole.add(stream)
            if not rows or rows[0].number > 0:
                first = f"begins with chunk {rows[0].number}" if rows else "is empty"
                problem = f"the manifest {first}, and none has expired"
                yield _damage(f"{DATABASE}, stream {stream}", problem, "the chunks before; their files may be there")

    def _look_at_log(self, connection: apsw.Connection) -> Iterator[Finding]:
        last = {stream: rows[-1] for stream, rows in self._chunks.items() if not rows[-1].attached}
        edges = {stream: StoredEnd(row.last_time, row.ties) for stream, row in last.items()}
        decoder, numbers = Decoder(edges, lambda stream, spec: None), ProducerNumbers()
        sliced = bool(connection.execute("PRAGMA table_info(slices)").get)
        spooled = "spool" in {row[1] for row in connection.execute("PRAGMA table_info(log)")}
        for row in log.read(connection.execute, sliced=sliced, spooled=spooled):
            self.report.count("events")
            try:
                event = decoder.decode(row)
            except PSoupError as problem:
                self._damaged_events.append(row)
                yield _damage(f"{_EVENT} {row.sequence}", problem.message.split(";")[0], self._lost(row))
                continue
            change = change_of(event)
            self._learn(change)
            if isinstance(event, Attached):
                self._attached[event.stream_id] += 0 if event.batch is not None else event.extent.chunks
            if isinstance(event, Pushed):
                self.report.count("tuples in the log", change.rows)
                numbers.add(event)
        for stream in self._whole - self._dropped:
            attached = sum(row.number < 0 for row in self._chunks.get(stream, ()))
            if attached != self._attached[stream]:
                difference = (
                    f"the manifest has {counted(attached, 'attached chunk')}, and the log {self._attached[stream]}"
                )
                yield _damage(f"{DATABASE}, stream {stream}", difference, "attached history")
        for text in numbers.gaps(lambda stream: self._name(stream)):
            severity = Severity.NOTE if losses(self._path) else Severity.DAMAGE  # the batch may have been set aside
            yield Finding(severity, _PRODUCERS, text, "the tuples of these batches", _RESTORE)

    def _learn(self, change: Change) -> None:
        """Count streams and queries, and keep the last definition of each stream."""
        if change.spec is not None:
            self.report.count("streams", int(change.stream not in self._streams))
            self._streams[change.stream] = change.spec
        if change.dropped:
            self._dropped.add(change.dropped)
            self.report.count("streams", -1)
        if change.queries:
            self._queries.add(change.first, len(change.queries), 0)
        for query in change.ended:
            if self._queries.get(query) is not None:  # the log may have forgotten a replaced query
                self._queries.remove(query)
        if change.queries or change.ended:
            self.report.figures["queries"] = len(self._queries)

    def _look_at_chunks(self, stream: int, rows: list[ChunkRow]) -> Iterator[Finding]:
        spec = self._streams.get(stream)
        if spec is None or stream in self._dropped:
            yield _damage(
                DATABASE,
                f"the manifest has {counted(len(rows), 'chunk')} of stream {stream}, which the log does not know",
            )
            return
        before: ChunkRow | None = None
        for row in rows:
            place = f"{FOLDER}/{row.file}" if row.file else f"{DATABASE}, stream {stream}"
            wrong = [*out_of_line(row, before), *wrong_places(row)]
            wrong += [] if row.passed else self._wrong_with(spec, row, before)
            if wrong:
                self._damaged_chunks.append(row)
                since = "the beginning" if before is None else time_text(before.last_time)
                yield _damage(
                    place,
                    "; ".join(wrong),
                    f"tuples {row.first_id} to {row.end_id - 1} of stream {spec.name}: {row.rows:,},"
                    f" with times from {since} to {time_text(row.last_time)}",
                )
            before = row
            if not row.passed:
                self.report.count("chunks")
                self.report.count("tuples in chunks", row.rows)
                self._advance(place, row.bytes)

    def _wrong_with(self, spec: StreamSpec, row: ChunkRow, before: ChunkRow | None) -> Iterator[str]:
        try:
            content = (self._path / FOLDER / row.file).read_bytes()
        except OSError as problem:
            yield f"it cannot be read: {problem.strerror}"
            return
        if (wrong := changed(content, row.bytes, row.crc)) is not None:
            yield wrong
            return
        try:
            batch = decode_chunk(spec, pa.py_buffer(content))
        except (pa.ArrowException, PSoupError, OSError, KeyError) as problem:
            yield f"it cannot be read: {str(problem).splitlines()[0]}"
            return
        yield from wrong_rows(batch.times, row, before)
        yield from wrong_entries(spec, batch)

    def _look_for_orphans(self) -> Iterator[Finding]:
        """Find chunk files that the manifest does not name. With a damaged database they may still hold tuples."""
        sound = not any(finding.place.startswith(DATABASE) for finding in self._damage())
        files = set(files_of(row for rows in self._chunks.values() for row in rows))
        folder = self._path / FOLDER
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if entry.name.removesuffix(SUFFIX) in files:
                continue
            place = f"{FOLDER}/{entry.name}"
            if not sound:
                yield Finding(
                    Severity.NOTE, place, "is not in the manifest, which is damaged: it may hold tuples; keep it"
                )
                continue
            if self._repair:
                entry.unlink()
            problem = "is not in the manifest: a crash left it, and its tuples are in the log or have expired"
            repair = "--repair removes it, and so does the next start of the service"
            yield Finding(Severity.LEFTOVER, place, problem, repair=repair, repaired=self._repair)

    def _look_at_sidecars(self) -> Iterator[Finding]:
        """Find useless folds: damaged ones, and folds of chunks that are gone or were replaced."""
        checksums = {(row.stream, row.number): row.crc for rows in self._chunks.values() for row in rows}
        for place, problem in useless_sidecars(self._path, checksums):
            if self._repair:
                (self._path / place).unlink()
            repair = "it is computed again when it is needed; --repair removes it"
            yield Finding(Severity.LEFTOVER, place, problem, repair=repair, repaired=self._repair)

    # Inside ---------------------------------------------------------------------------------------------------

    def _lost(self, row: LogRow) -> str:
        match row.kind:
            case "push" if row.tuples is not None:
                until = "" if row.last_time is None else f", with times up to {time_text(row.last_time)}"
                return f"a batch of {self._name(row.stream)}{until}, as far as it is in no chunk yet"
            case "push":
                return ""
            case _:
                return f"the event of kind {row.kind!r}, and what depends on it"

    def _name(self, stream: int) -> str:
        spec = self._streams.get(stream)
        return f"stream {stream}" if spec is None else f"stream {spec.name}"

    def _advance(self, name: str, size: int) -> None:
        self._done += size
        self._progress(name, min(self._done, self._total), self._total)


def _damage(place: str, problem: str, lost: str = "", repair: str = _RESTORE) -> Finding:
    return Finding(Severity.DAMAGE, place, problem, lost, repair)
