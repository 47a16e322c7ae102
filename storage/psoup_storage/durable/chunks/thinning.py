"""Thinning a stored chunk: a new file with the rows that are left takes the place of the file with all rows.

    3-17.parquet          a b c d e f g h        manifest: chunk 17, 8 rows
    3-t0b7d91e2-17.parquet  b     e     h        manifest: chunk 17, 8 places, 3 rows, in one transaction
                                                 then the old file goes, once no reader has it any more

A crash leaves one of the two files in the manifest. The other is an orphan, which the next start removes. Folds and
matches of the old file go, because they count its rows. The end of the stored part in stream order stays as it was.
"""

from __future__ import annotations

from functools import partial

from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.model import StreamSpec
from psoup_storage.contract import InTurn
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow, checked_row
from psoup_storage.durable.sqlite.database import Database

_COLUMNS = ChunkRow._fields[2:]
_ROW = f"SELECT {', '.join(ChunkRow._fields)} FROM chunks WHERE stream = ? AND number = ? AND file <> ''"
_REPLACE = f"""
UPDATE chunks SET ({", ".join(_COLUMNS)}) = ({", ".join("?" * len(_COLUMNS))})
WHERE stream = ? AND number = ? AND file = ?
"""


def thin(
    folder: ChunkFolder, database: Database, in_turn: InTurn, stream: int, spec: StreamSpec, chunk: ChunkView
) -> tuple[ChunkRow, str] | None:
    """Replace the file of a chunk. Returns its new manifest row and the name of the old file, which may go now.

    Returns None, and changes nothing, if the manifest has no file of the chunk: it has expired, or its stream was
    dropped. Raises ResourceExhausted without room; nothing has changed then. Any thread.
    """
    with database.transaction() as connection:
        values = connection.execute(_ROW, (stream, chunk.number)).fetchone()
    if values is None:
        return None
    before = checked_row(values)
    row = folder.write_thinned(spec, chunk, before)
    folder.sidecars.forget_chunk(stream, row.number)
    try:
        replaced = in_turn(partial(_replace, database, row, before.file))
    except ResourceExhausted:
        folder.remove([row.file])
        raise
    if not replaced:
        folder.remove([row.file])
        return None
    return row, before.file


def _replace(database: Database, row: ChunkRow, file: str) -> bool:
    """Put a manifest row in the place of the row with `file`. Returns False if there is no such row any more."""
    with database.transaction() as connection:
        connection.execute(_REPLACE, (*row[2:], row.stream, row.number, file))
        return connection.changes() > 0
