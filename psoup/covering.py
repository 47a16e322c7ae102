"""New clauses over old tuples: a chunk is evaluated for clauses that came after it.

    few clauses   one after the other, each over the whole chunk         `psoup.stems.scan`
    many          an index over them, and the chunk in pieces, as on arrival

The open chunk is covered so when clauses are registered, closed ones by maintenance. What has been covered is for the
caller to remember.
"""

from __future__ import annotations

from psoup.archive import Chunk
from psoup.config import EngineConfig
from psoup.results.open import OpenResults
from psoup.stems.piece import Piece, Runner, serial
from psoup.stems.query_stem import Subset
from psoup.stems.scan import scan

COVER_TOGETHER = 8
"""From so many new clauses on, an index over them beats one scan each."""


def cover(
    chunk: Chunk,
    index: Subset,
    results: OpenResults,
    config: EngineConfig,
    run: Runner,
) -> None:
    """Evaluate the clauses of `index`, which have no column yet, over a chunk.

    One by one where they are few, else set at a time. The errors of their attributes are counted over the whole chunk
    and replace earlier counts, which are of a part only if no clause used the attribute for a while.
    """
    counted, results.errors = results.errors, {}
    if len(index.slots) >= COVER_TOGETHER:
        for piece in pieces(chunk, config.piece_rows):
            index.probe(piece, results, run)
    else:
        ids = chunk.ids_of(0, len(chunk))
        for slot, factors in index.clauses():
            found = scan(factors, chunk.columns, ids, chunk.times, config.texts)
            results.add_mask(slot, found.mask)
            if found.errors:
                _count_errors(chunk, index, results, config)
    results.errors = {**counted, **results.errors}


def _count_errors(chunk: Chunk, index: Subset, results: OpenResults, config: EngineConfig) -> None:
    """Which attributes failed how often; the matches found on the way are known already."""
    aside = OpenResults(config, len(results.row_of_slot))
    for piece in pieces(chunk, config.piece_rows):
        index.probe(piece, aside, serial)
    results.errors.update(aside.errors)


def pieces(chunk: Chunk, rows: int) -> list[Piece]:
    """A chunk cut into pieces of at most `rows` tuples."""
    return [
        Piece(
            tuple(column.slice(start, min(start + rows, len(chunk))) for column in chunk.columns),
            chunk.ids_of(start, min(start + rows, len(chunk))),
            chunk.times[start : start + rows],
            start,
        )
        for start in range(0, len(chunk), rows)
    ]
