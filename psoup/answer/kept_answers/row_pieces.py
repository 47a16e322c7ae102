"""Kept rows of one stream in pieces: the tuple IDs of some rows, and their message. A change copies few pieces.

    kept     [a b c d][e f g h][i j]
    now         [c d][e f g h][i j k]     the first piece is cut, the last one grows; those between are sent as they are

A message that is cut is written again in pieces of `PIECE_ROWS` rows, so that later cuts copy less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from psoup.answer.kept_answers.kept_parts import KeptPart, run_of, spliced
from psoup.execution.rows.record_batch import Form
from psoup.values.columns import Array

PIECE_ROWS = 4_096
"""The most rows of a message that is spliced. Reading a message takes a client some 10 us, whatever its rows."""


class Piece(NamedTuple):
    """Some consecutive rows of an answer: their tuple IDs, int64[n], and their message, or their columns as a run."""

    ids: Array
    rows: KeptPart | Array


class Cut(NamedTuple):
    """The rows [start, stop) of the piece with a number."""

    number: int
    start: int
    stop: int


def cuts_of(pieces: Sequence[Array], first_id: int, end_id: int) -> list[Cut]:
    """The parts of pieces, each int64[n] ascending, whose tuple IDs lie in [first_id, end_id). O(pieces + log n)."""
    cuts = list[Cut]()
    for number, ids in enumerate(pieces):
        if len(ids) and ids[-1] >= first_id and ids[0] < end_id:
            start = 0 if ids[0] >= first_id else int(np.searchsorted(ids, first_id))
            stop = len(ids) if ids[-1] < end_id else int(np.searchsorted(ids, end_id))
            if start < stop:
                cuts.append(Cut(number, start, stop))
    return cuts


def pieces_of(ids: Array, parts: Sequence[KeptPart]) -> tuple[Array, ...]:
    """The tuple IDs of all rows, int64[n], as one array for each message."""
    ends = [0, *accumulate([part.rows for part in parts])]
    return tuple([ids[start:stop] for start, stop in pairwise(ends)])


def kept_pieces(
    form: Form, pieces: Sequence[Array], parts: Sequence[KeptPart], cuts: Iterable[Cut]
) -> list[Piece] | None:
    """The rows of some cuts as pieces. Returns None if a message cannot be cut, as it may have NULL."""
    rows = list[Piece]()
    for number, start, stop in cuts:
        ids, part = pieces[number], parts[number]
        run = None if stop - start == part.rows else run_of(form, part.rows, part.gathered())
        if run is None and stop - start < part.rows:
            return None
        rows.append(Piece(ids[start:stop], part if run is None else run[:, start:stop]))
    return rows


def grown(form: Form, pieces: list[Piece], ids: Array, run: Array) -> list[Piece] | None:
    """The pieces with further rows at the end. A short last piece grows. Returns None as `kept_pieces`."""
    if not len(ids):
        return pieces
    if not pieces or len(pieces[-1].ids) + len(ids) > PIECE_ROWS:
        return [*pieces, Piece(ids, run)]
    last = pieces[-1]
    before = run_of(form, last.rows.rows, last.rows.gathered()) if isinstance(last.rows, KeptPart) else last.rows
    if before is None:
        return None
    joined = np.concatenate([last.ids, ids]), np.concatenate([before, run], axis=1)
    return [*pieces[:-1], Piece(*joined)]


def written(form: Form, pieces: Iterable[Piece], most_rows: int) -> Iterator[tuple[Array, KeptPart]]:
    """Yield the tuple IDs and the message of each piece. Runs are written in messages of at most `most_rows` rows."""
    most_rows = min(most_rows, PIECE_ROWS)
    for ids, rows in pieces:
        if isinstance(rows, KeptPart):
            yield ids, rows
            continue
        for start, part in enumerate(spliced(form, [rows], most_rows)):
            yield ids[start * most_rows : start * most_rows + part.rows], part
