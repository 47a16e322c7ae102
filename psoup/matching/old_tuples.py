"""New clauses over old tuples: the evaluation of a chunk for clauses that were registered later.

    few clauses   one after the other, each over the whole chunk         `psoup.matching.scan`
    many          an index over them, and the chunk in pieces, as on arrival

The open chunk is covered at registration, closed chunks by maintenance. The caller records the covered clauses, and the
expressions that raised: see `psoup.expressions.error_guard`.
"""

from __future__ import annotations

import numpy as np

from psoup.clauses.sides import Subset
from psoup.config import EngineConfig
from psoup.data.archived_chunk import Chunk
from psoup.data.data_stem import Piece
from psoup.expressions.error_guard import Compute, Raised, guarded
from psoup.matching.new_tuples import probe
from psoup.matching.scan import scan
from psoup.results.failures import is_lone
from psoup.results.open import OpenResults
from psoup.work.runner import Runner

COVER_TOGETHER = 8
"""The fewest new clauses for which one index is faster than a scan for each clause."""

PIECES_AT_ONCE = 2
"""The number of arrival pieces that form one piece here.

No client waits for a piece here, and each piece costs a plan of all clauses. With two, 4,096 clauses of eight ranges
take 15 % less time, 8,192 of two ranges 44 % less. Clauses of one range take a tenth more. With four the bitmaps leave
the second-level cache (EPYC Zen 5).
"""

_BITMAPS = 128 * 1024 * 1024
"""The most bytes of a piece's bitmaps, if every attribute needs one for each possible code."""


def cover(
    chunk: Chunk,
    index: Subset,
    results: OpenResults,
    config: EngineConfig,
    run: Runner,
    compute: Compute = guarded,
) -> dict[int, str]:
    """Evaluate the clauses of `index`, which have no matches in `results` yet, over a chunk.

    Few clauses are scanned one by one, many are joined at once. An attribute that is evaluated for all of the chunk
    gets a new error count. Its earlier count may be of a part of the chunk. Returns the attributes that could not be
    computed, with the reasons. Clauses that read these have not been evaluated.
    """
    counted, results.errors = results.errors, {}
    failed = dict[int, str]()
    if len(index.slots) >= COVER_TOGETHER:
        for piece in pieces(chunk, _rows(index, config)):
            failed |= probe(index, piece, results, run, compute, failed)
    else:
        ids, numbers = chunk.ids_of(0, len(chunk)), [*index.attributes.items()]
        for slot, factors in index.clauses():
            try:
                result = scan(factors, chunk.columns, ids, chunk.times, config.texts, compute)
            except Raised as problem:
                failed.update((a, problem.reason) for a, expr in index.attributes.items() if expr == problem.expr)
                continue
            results.add_mask(slot, result.mask)
            if not result.errors:
                continue
            if is_lone(factors):
                results.errors.update(
                    {a: result.errors for a, expr in numbers if expr == factors[0].terms[0].attribute}
                )
            else:
                results.add_failures(np.array([slot], np.int64), np.array([result.errors], np.int64))
    results.errors = {**counted, **{a: count for a, count in results.errors.items() if a not in failed}}
    return failed


def _rows(index: Subset, config: EngineConfig) -> int:
    """The number of tuples of one join."""
    rows = PIECES_AT_ONCE * config.piece_rows
    codes = min(index.codes, len(index.attributes) * rows)
    return rows if codes * rows // 8 <= _BITMAPS else config.piece_rows


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
