"""Fold packs on disk: the states of many clauses in a span, beside the folds of single clauses.

    name     128 bits of (stream, states)                              one pack of each span
    bytes    compressed:  queries: first ID, how many, when they were registered | at | matched | errors | states

Numbers of clauses begin again with each start, IDs of queries do not. On disk a clause is named by the ID of a query
that has it, and by the instant of the query's registration. The instant tells two queries with one ID apart: a restored
backup gives IDs again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.aggregates.measures import folding_of, read_by
from psoup.aggregates.packs import FoldPack
from psoup.aggregates.stored_folds import Reader, digest, put, put_states, told_of
from psoup.expressions.supplied_functions import calls_supplied
from psoup.plan.nodes import Measure
from psoup.values.columns import Array

_VERSION = 1
"""Increased when the meaning of packs changes; packs of earlier versions are then not found."""
_CODEC = "zstd"
_SIZE = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Roster:
    """The queries that name the clauses of a pack: their IDs, and microseconds of registration, int64[k] each."""

    ids: Array
    registered: Array

    def take(self, rows: Array) -> Roster:
        """The queries at some places (int64)."""
        return Roster(self.ids[rows], self.registered[rows])


def name_of_packs(stream: int, measures: Sequence[Measure], longest: int) -> bytes | None:
    """The name of a stream's packs, whose states `measures` give; None if they must not outlive the process.

    `longest`: bytes of the longest text that an expression may make; errors depend on it.
    """
    if any(calls_supplied(expr) for measure in measures for expr in read_by(measure)):
        return None
    texts = ["PACK", str(_VERSION), str(stream), str(longest)]
    return digest([*texts, *(text for measure in measures for text in told_of(folding_of(measure), measure))])


def encoded_pack(roster: Roster, pack: FoldPack) -> bytes:
    """The bytes of a pack, whose clauses are in the order of the roster. O(states)."""
    out, ids, registered = bytearray(), roster.ids, roster.registered
    cuts = np.flatnonzero((np.diff(ids) != 1) | (np.diff(registered) != 0)) + 1
    starts = np.concatenate([np.zeros(min(len(ids), 1), np.int64), cuts])
    for array in (ids[starts], np.diff(starts, append=len(ids)), registered[starts]):
        put(out, array)
    for part in (pack.at, pack.matched, pack.errors):
        put(out, part)
    put_states(out, pack.states)
    packed: bytes = pa.compress(bytes(out), codec=_CODEC, asbytes=True)
    return _SIZE.pack(len(out)) + packed


def decoded_pack(measures: Sequence[Measure], content: bytes) -> tuple[Roster, FoldPack]:
    """The pack in these bytes, without the IDs of its clauses, and the queries that name them. O(states)."""
    (size,) = _SIZE.unpack_from(content)
    reader = Reader(bytearray(pa.decompress(content[_SIZE.size :], size, codec=_CODEC, asbytes=True)))
    firsts, counts, registered = (reader.array() for _ in range(3))
    ids = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    at, matched, errors = (reader.array() for _ in range(3))
    states = tuple([reader.state(folding_of(measure)) for measure in measures])
    return Roster(ids, np.repeat(registered, counts)), FoldPack(ids[:0], at, matched, errors, states)
