"""A cover: the matches of some queries in chunks that a service has stored already, computed by a job.

    cover-51c2a7f0/
      3-17.parquet.matches     what the queries match in that stored chunk; see `psoup_storage.formats.matches`
      manifest.json            last, by a rename: the queries, and the chunks

Like history (`psoup_storage.formats.history`), a cover counts only with its manifest. An answer is the same with and
without a cover, because a reader evaluates uncovered chunks.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import PSoupError
from psoup.matching.outside import Beforehand
from psoup.model import StreamSpec
from psoup.values.columns import Array
from psoup_storage.formats.chunk_file import damaged, decode_chunk
from psoup_storage.formats.facts import read_facts, write_facts
from psoup_storage.formats.job_folder import bad_history, is_plain
from psoup_storage.formats.matches import SUFFIX
from psoup_storage.formats.matches import write as write_matches


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored chunk as a job reads it. `crc`: the checksum of all bytes; `first_id`: the tuple ID of the first place.

    A WHERE cannot name tuple IDs, so a job needs no other place of a thinned chunk.
    """

    path: str
    rows: int
    crc: int
    first_id: int


@dataclass(frozen=True, slots=True)
class Cover:
    """The manifest of a cover.

    `incarnation`: the incarnation of the service that has the queries. `ranges`: their IDs, int64[r, 2], [from, to).
    `files`: the names of the chunks' files.
    """

    incarnation: str
    ranges: Array
    files: tuple[str, ...]


def cover_chunk(directory: Path, file: StoredFile, spec: StreamSpec, queries: Beforehand) -> int:
    """Evaluate `queries` over a stored chunk, and write their matches; returns the number of matches.

    Replaces an earlier file in one step. Raises OSError (FileNotFoundError: the chunk has expired) and Internal, reason
    DATA_DAMAGED. Memory: the chunk.
    """
    path = Path(file.path)
    content = path.read_bytes()
    if zlib.crc32(content) != file.crc:
        raise damaged(path, f"its {len(content):,} bytes have changed since they were written")
    try:
        batch = decode_chunk(spec, pa.py_buffer(content))
    except (pa.ArrowException, PSoupError) as problem:
        raise damaged(path, str(problem)) from problem
    matches = queries.find(ChunkView(0, Places(file.first_id, len(batch)), batch.times, batch.columns, batch.nbytes))
    target = directory / (path.name + SUFFIX)
    new = target.with_name(f"{target.name}.{os.getpid()}.new")
    write_matches(new, file.crc, file.rows, matches)
    os.rename(new, target)
    return sum(len(clause.offsets) * len(clause.query_ids) for clause in matches)


def write_cover(directory: Path, cover: Cover) -> None:
    """Write the manifest, which makes the directory whole; durable. Raises OSError."""
    facts = {"incarnation": cover.incarnation, "queries": cover.ranges.tolist(), "covered": cover.files}
    write_facts(directory, facts)


def read_cover(directory: Path) -> Cover:
    """The manifest of a cover's directory; raises InvalidInput, reason BAD_HISTORY, if it is not a cover's."""
    facts = read_facts(directory)
    try:
        ranges = np.array(facts["queries"], np.int64).reshape(-1, 2)
        cover = Cover(str(facts["incarnation"]), ranges, tuple(str(file) for file in facts["covered"]))
    except (KeyError, ValueError, TypeError, OverflowError) as problem:
        raise bad_history(directory, f"it covers no chunks ({type(problem).__name__}: {problem})") from problem
    odd = next((file for file in cover.files if not is_plain(file)), None)
    if odd is not None:
        raise bad_history(directory, f"{odd!r} is not the name of a chunk")
    return cover
