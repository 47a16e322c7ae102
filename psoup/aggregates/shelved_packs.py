"""Fold packs on disk: the states of many clauses in a span, beside the folds of single ones.

    name     128 bits of (stream, what states are made of)            one pack of each span
    bytes    compressed:  queries: first ID, how many, when they were registered | at | matched | errors | states

A clause's number begins anew with each start, its query's ID does not: a clause goes by the ID of a query that has it,
and by the instant at which that was registered. So an ID that was given again, in a directory that was put back to
before, is another one's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.aggregates.measures import folding_of, read_by
from psoup.aggregates.packs import FoldPack
from psoup.aggregates.shelved import Reader, digest, put, put_states, told_of
from psoup.columns import Array
from psoup.expressions.supplied import calls_supplied
from psoup.plan.nodes import Measure

_VERSION = 1
"""Raised when packs come to mean something else: those of before are not found then."""
_CODEC = "zstd"
_SIZE = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Roster:
    """The queries by which the clauses of a pack are known: IDs, and microseconds of registration, int64[k] each."""

    ids: Array
    registered: Array

    def take(self, rows: Array) -> Roster:
        """Those at some places (int64)."""
        return Roster(self.ids[rows], self.registered[rows])


def name_of_packs(stream: int, measures: Sequence[Measure], longest: int) -> bytes | None:
    """The name of the packs of a stream for some states, a measure of each; None if they must not outlive the process.

    `longest`: bytes of the longest text that an expression may make, on which errors depend.
    """
    if any(calls_supplied(expr) for measure in measures for expr in read_by(measure)):
        return None
    texts = ["PACK", str(_VERSION), str(stream), str(longest)]
    return digest([*texts, *(text for measure in measures for text in told_of(folding_of(measure), measure))])


def encoded_pack(roster: Roster, pack: FoldPack) -> bytes:
    """The bytes of a pack, whose clauses are those of a roster, in its order. O(states)."""
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
    """The pack that has these bytes, without the IDs of its clauses, and the queries that these go by. O(states)."""
    (size,) = _SIZE.unpack_from(content)
    reader = Reader(bytearray(pa.decompress(content[_SIZE.size :], size, codec=_CODEC, asbytes=True)))
    firsts, counts, registered = (reader.array() for _ in range(3))
    ids = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    at, matched, errors = (reader.array() for _ in range(3))
    states = tuple([reader.state(folding_of(measure)) for measure in measures])
    return Roster(ids, np.repeat(registered, counts)), FoldPack(ids[:0], at, matched, errors, states)
