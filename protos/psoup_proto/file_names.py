"""Names of the files that a backup has: the one list, for the client that writes them and the store that reads them.

    psoup.db                         the database
    chunks/3-17.parquet              chunk 17 of stream 3
    chunks/3-a51c2a7f0-0.parquet     the first chunk of a directory that a job wrote
    chunks/3-t0b7d91e2-17.parquet    chunk 17 of stream 3 after some of its tuples left
    chunks/3-17.parquet.matches      the queries that a job found to match in that chunk

Such a name comes over the wire, or stands in a database that came so, and becomes a path. A name of another form is
refused, so none leads out of the directory.
"""

from __future__ import annotations

import re

DATABASE = "psoup.db"
CHUNKS = "chunks"
_CHUNK = re.compile(r"[0-9]{1,19}-(?:[at][0-9a-f]{8}-)?[0-9]{1,19}\.parquet")
_MATCHES = ".matches"


def is_chunk(name: str) -> bool:
    """Whether a chunk's file in the folder of chunks can be called `name`."""
    return _CHUNK.fullmatch(name) is not None


def backup_path(name: str) -> tuple[str, ...] | None:
    """The folder and the file that `name` stands for, or the file alone; None for a name that no backup has."""
    if name == DATABASE:
        return (DATABASE,)
    folder, _, file = name.partition("/")
    return (CHUNKS, file) if folder == CHUNKS and is_chunk(file.removesuffix(_MATCHES)) else None
