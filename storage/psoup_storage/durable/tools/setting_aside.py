"""Setting damaged chunks and events aside, so that the service can start without them. The loss is recorded and shown.

    chunk k of a stream     it and those before it leave the manifest, as if they had expired: answers that reach back
                            there say that they are truncated
    a push, a query         its row leaves the log; later tuples get other IDs, so the directory gets a new incarnation;
                            the departure of such a query leaves the log, too

The folder `set-aside` keeps the removed data, with lines in `losses.jsonl`, which a start logs. Some damage cannot be
set aside and needs a backup: the last stored chunk, a stream's definition, the database's structure.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import FailedPrecondition
from psoup.model import time_text
from psoup.phrases import counted
from psoup_storage.durable.chunks.folder import FOLDER, ChunkRow, files_of
from psoup_storage.durable.directory import DATABASE
from psoup_storage.durable.log.departures import forget_unknown
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.wal import SyncedBytes
from psoup_storage.durable.sqlite.whole_copy import MARK
from psoup_storage.durable.tools.findings import Finding, Severity
from psoup_storage.formats.files import sync_directory
from psoup_storage.formats.matches import SUFFIX

ASIDE = "set-aside"
LOSSES = "losses.jsonl"
_KINDS = ("push", "query", "replaced", "unregister", "departure", "altered")


def losses(path: Path) -> list[dict[str, Any]]:
    """The losses of the data directory `path` so far: `place`, `what`, `lost`, `time` (microseconds).

    An unreadable line counts as a loss, too.
    """
    file = path / ASIDE / LOSSES
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [_loss(number, line, file) for number, line in enumerate(lines, 1)]


def _loss(number: int, line: str, file: Path) -> dict[str, Any]:
    try:
        loss = json.loads(line)
        return {"place": str(loss["place"]), "what": loss["what"], "lost": loss["lost"], "time": int(loss["time"])}
    except (ValueError, KeyError, TypeError):
        written = file.stat().st_mtime_ns // 1_000
        problem = "the line is unreadable, so the loss is unknown"
        return {"place": f"{ASIDE}/{LOSSES}, line {number}", "what": problem, "lost": "", "time": written}


def obstacle(damaged: Sequence[ChunkRow], chunks: dict[int, list[ChunkRow]], events: Sequence[LogRow]) -> str | None:
    """The reason why the `damaged` chunks and damaged `events` cannot be set aside; None if they can.

    `chunks`: all chunks of each stream.
    """
    for stream, number in _last(damaged).items():
        if number == chunks[stream][-1].number:
            return f"chunk {number} is the last one that is stored of its stream: the log goes on behind it"
    for event in events:
        if event.kind not in _KINDS:
            return f"event {event.sequence} is of kind {event.kind!r}: others depend on it"
    return None


def _last(damaged: Sequence[ChunkRow]) -> dict[int, int]:
    """The last damaged chunk of each stream that has one."""
    return {row.stream: row.number for row in sorted(damaged, key=lambda row: row.number)}


def set_aside(
    path: Path,
    damaged: Sequence[ChunkRow],
    chunks: dict[int, list[ChunkRow]],
    events: Sequence[LogRow],
    findings: list[Finding],
    names: dict[int, str],
) -> list[str]:
    """Take the `damaged` chunks and the damaged `events` out of a locked directory. Returns the losses, in words.

    `chunks`: all chunks of each stream. `findings`: the damage. `names`: the names of streams, by ID. Raises
    FailedPrecondition if it is not possible; nothing has changed then.
    """
    if (why := obstacle(damaged, chunks, events)) is not None:
        raise impossible(why)
    last = _last(damaged)
    leaving = [row for stream, number in last.items() for row in chunks[stream] if row.number <= number]
    folder = path / ASIDE
    folder.mkdir(mode=0o700, exist_ok=True)
    lost = [_lost(names[stream], chunks[stream], number, damaged) for stream, number in last.items()]
    lost += [f"{each.place}: {each.lost}" for each in findings if each.lost and not each.place.startswith(f"{FOLDER}/")]
    sound = [row for row in leaving if row not in damaged and not row.passed]
    if sound:
        chunks_text = f"{counted(len(sound), 'sound chunk')} before a damaged one"
        ids = ", ".join(f"{row.first_id} to {row.end_id - 1} of stream {names[row.stream]}" for row in sound)
        findings = [*findings, Finding(Severity.NOTE, f"{FOLDER}/", chunks_text, f"tuples {ids}")]
    _keep(path, folder, leaving, events, findings)
    _forget(path, last, chunks, events)
    for chunk in files_of(leaving):
        for name in (chunk, chunk + SUFFIX):
            (path / FOLDER / name).unlink(missing_ok=True)
    if events:  # the ID of a query that is gone may be given out again
        for matches in (path / FOLDER).glob(f"*{SUFFIX}"):
            matches.unlink()
    return lost


def _lost(stream: str, rows: Sequence[ChunkRow], number: int, damaged: Sequence[ChunkRow]) -> str:
    """The tuples of a stream's chunks up to `number`, in words."""
    leaving = [row for row in rows if row.number <= number and not row.passed]
    sound = sum(row.rows for row in leaving if row not in damaged)
    text = (
        f"stream {stream}: {counted(sum(row.rows for row in leaving), 'tuple')}, {leaving[0].first_id} to"
        f" {leaving[-1].end_id - 1}, up to {time_text(leaving[-1].last_time)}"
    )
    return text + (f"; {sound:,} of them are sound, and can be pushed again from {ASIDE}" if sound else "")


def _keep(
    path: Path, folder: Path, leaving: Sequence[ChunkRow], events: Sequence[LogRow], findings: Sequence[Finding]
) -> None:
    """Copy the leaving chunks and events into the folder, with a line for each finding; durable."""
    for name in files_of(leaving):
        source, target = path / FOLDER / name, folder / name
        if source.exists() and not target.exists():
            os.link(source, target)
    for event in events:
        facts = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in event._asdict().items()
        }
        (folder / f"event-{event.sequence}.json").write_text(json.dumps(facts), encoding="utf-8")
    now = time.time_ns() // 1_000
    with open(folder / LOSSES, "a", encoding="utf-8") as file:
        for finding in findings:
            loss = {"place": finding.place, "what": finding.what, "lost": finding.lost, "time": now}
            file.write(json.dumps(loss) + "\n")
        file.flush()
        os.fsync(file.fileno())
    sync_directory(folder)
    sync_directory(path)


def _forget(path: Path, last: dict[int, int], chunks: dict[int, list[ChunkRow]], events: Sequence[LogRow]) -> None:
    connection = apsw.Connection(str(path / DATABASE), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for name, value in (("locking_mode", "EXCLUSIVE"), ("synchronous", "FULL")):
            connection.pragma(name, value)
        register(connection)
        with connection:
            for stream, number in last.items():
                edge = next(row.last_time for row in chunks[stream] if row.number == number)
                connection.execute("DELETE FROM chunks WHERE stream = ? AND number <= ?", (stream, number))
                connection.execute("UPDATE stored SET dropped_time = ? WHERE stream = ?", (edge, stream))
            connection.executemany("DELETE FROM log WHERE sequence = ?", [(event.sequence,) for event in events])
            if events:
                forget_unknown(connection)
                facts = {"incarnation": "", "sequence": events[0].sequence, "time": time.time_ns() // 1_000}
                connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (MARK, json.dumps(facts)))
        with closing(SyncedBytes(path / f"{DATABASE}-wal")) as synced:
            if not synced.move(connection):  # the log stays, and has all changes
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    finally:
        connection.close()


def impossible(why: str) -> FailedPrecondition:
    """The error for damage that cannot be set aside, with the way out."""
    return FailedPrecondition(f"the damage cannot be set aside: {why}; restore a backup", reason="NOT_SEPARABLE")
