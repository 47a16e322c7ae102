"""The dump of a stream to Parquet files; `load` reads them back.

    client.dump("readings", "out")     out/ stream.json          the description: CREATE STREAM, rows, files
                                            part-00000.parquet   _id, _time and the columns, in stream order

Other programs can read the folder, too: DuckDB, Polars, Spark. Tuples that still wait for the watermark are not in a
dump. The dump of a table has its rows as they are now, without earlier versions and deletions.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.calls.queries import QueryCalls
from psoup_client.errors import InvalidData

Progress = Callable[[int, int], None]
"""The function that receives the number of finished rows, and the number of all rows."""

FORM = 1
"""The version of the dump format that this release writes and reads."""

DESCRIPTION = "stream.json"
_TABLE = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
_FILE = re.compile(r"part-[0-9]{5,9}\.parquet")
_SHOWN = 200
"""The greatest number of characters of a name in a message."""
FILE_ROWS = 262_144
FILE_BYTES = 128 * 1024 * 1024
"""The size in bytes after which a file ends. The service takes a file as one batch, so files must not grow further."""

_TIMEOUT = 86_400.0


@dataclass(slots=True)
class DumpInfo(html.Facts):
    """Content of `stream.json`. `files`: names and rows. `pending`: tuples that waited for the watermark."""

    stream: str
    create: str
    event_time: bool
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    form: int = FORM
    rows: int = 0
    pending: int = 0
    sequence: int = 0
    files: list[tuple[str, int]] = field(default_factory=list)

    @property
    def is_table(self) -> bool:
        """Whether the dump is of a table."""
        return _TABLE.match(self.create) is not None


def read_description(folder: Path) -> DumpInfo:
    """Read the description of a dump. Raises InvalidData if the folder is not a dump, or has an unknown format.

    A dump may come from elsewhere. So each of its files must have a name that `dump` gives, and must be a regular file
    in the folder.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InvalidData(f"{folder} is not a dump: it has no {DESCRIPTION}")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.get("form") != FORM:
            raise InvalidData(
                f"{folder} is a dump of form {facts.get('form')!r}, and this version of PSoup reads form {FORM}; use"
                " the version that wrote it, or push its Parquet files"
            )
        description = DumpInfo(**facts)
        names = [_FILE.fullmatch(str(name)) and int(rows) >= 0 for name, rows in description.files]
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidData(f"{folder} is not a dump: its {DESCRIPTION} cannot be read ({problem})") from None
    for (name, _), is_named in zip(description.files, names, strict=True):
        if not is_named:
            raise InvalidData(
                f"{path} names the file {str(name)[:_SHOWN]!r}, and the files of a dump are part-00000.parquet and so"
                " on; dump the stream again"
            )
        open_part(folder, name).close()
    return description


def open_part(folder: Path, name: str) -> BinaryIO:
    """Open a file of a dump without following a link. Raises InvalidData if it is not a regular file."""
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InvalidData(f"{folder} is not whole: {name} is missing; dump the stream again") from None
    except OSError as problem:
        why = "is a link" if problem.errno == errno.ELOOP else f"cannot be read ({problem.strerror})"
        raise InvalidData(f"{folder / name} {why}; put the file itself there, or dump the stream again") from None
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise InvalidData(f"{folder / name} is not a file; dump the stream again")
    return file


@checking_arguments
class DumpCalls(QueryCalls):
    """The call that writes a stream to files."""

    def dump(self, stream: str, destination: str | os.PathLike[str], *, progress: Progress | None = None) -> DumpInfo:
        """Write the kept tuples of a stream, with `_id` and `_time`, as Parquet files in a new folder.

        Of a table, write the rows that are open now, without earlier versions and deletions. Tuples that wait for the
        watermark are left out, and counted. Raises NotFound, and FileExistsError for an existing destination. Memory:
        one file.
        """
        target = Path(destination)
        if target.exists():
            raise FileExistsError(f"{target} is there already; name a place that is not")
        stream_info = self.describe(stream)
        dumped = DumpInfo(stream_info.name, stream_info.sql, bool(stream_info.time_column))
        folder = target.with_name(target.name + ".part")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        name = stream_info.name.replace('"', '""')
        window = "" if dumped.is_table else " BEGIN (START)"
        query = self.register(f'SELECT _id, _time, * FROM "{name}"{window}')
        try:
            with query.stream(timeout=_TIMEOUT) as answer:
                for number, batches in enumerate(_files(answer)):
                    file = f"part-{number:05d}.parquet"
                    rows = _write(folder / file, answer.schema, batches)
                    dumped.files.append((file, rows))
                    dumped.rows += rows
                    (progress or _ignore)(dumped.rows, max(dumped.rows, stream_info.tuples))
                dumped.pending, dumped.sequence = answer.completeness.pending, answer.completeness.sequence
        finally:
            query.unregister()
        facts = {name: getattr(dumped, name) for name in dumped.__slots__}
        (folder / DESCRIPTION).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        folder.rename(target)
        return dumped


def _files(batches: Any) -> Iterator[list[pa.RecordBatch]]:
    """Group the batches that go into one file. This group is the memory that a dump takes."""
    pieces: list[pa.RecordBatch] = []
    for batch in (whole.slice(start, FILE_ROWS) for whole in batches for start in range(0, len(whole), FILE_ROWS)):
        pieces.append(batch)
        if sum(map(len, pieces)) >= FILE_ROWS or sum(piece.nbytes for piece in pieces) >= FILE_BYTES:
            yield pieces
            pieces = []
    if pieces:
        yield pieces


def _write(path: Path, schema: pa.Schema, batches: list[pa.RecordBatch]) -> int:
    import pyarrow.parquet as pq  # imported here: it takes 14 ms, and most clients do not need it

    with open(path, "wb") as file:
        pq.write_table(pa.Table.from_batches(batches, schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    return sum(map(len, batches))


def _ignore(done: int, total: int) -> None:
    """Ignore the progress."""
