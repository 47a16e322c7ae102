"""Fold packs on disk: the encoding of the states of many clauses over a span.

    name     128 bits of (stream, states)                              one pack of each span
    bytes    compressed:  queries: first ID, number, time of registration | at | matched | errors | states

SQC IDs begin again at each start, query IDs do not. So on disk, the ID of one of its queries names a clause, with the
time of the query's registration. After a backup is restored, the engine may give an ID a second time. The time tells
the two queries apart.
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
"""The version of the encoding, a part of the name. Packs of earlier versions are not found."""
_CODEC = "zstd"
_SIZE = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Roster:
    """The queries that name the clauses of a pack: their IDs and times of registration (microseconds), int64[k]."""

    ids: Array
    registered: Array

    def take(self, rows: Array) -> Roster:
        """The queries in some `rows` (int64)."""
        return Roster(self.ids[rows], self.registered[rows])


def name_of_packs(stream: int, measures: Sequence[Measure], longest: int) -> bytes | None:
    """The name of a stream's packs with the states of `measures`. None if a measure calls a function of the operator.

    Such packs must not outlive the process. `longest`: bytes of the longest text that an expression may make; errors
    depend on it.
    """
    if any(calls_supplied(expr) for measure in measures for expr in read_by(measure)):
        return None
    texts = ["PACK", str(_VERSION), str(stream), str(longest)]
    return digest([*texts, *(text for measure in measures for text in told_of(folding_of(measure), measure))])


def encoded_pack(roster: Roster, pack: FoldPack) -> bytes:
    """Encode a pack. Its clauses are in the order of the roster. O(states)."""
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
    """Decode a pack. Returns the queries that name its clauses, and the pack with no `ids`. O(states)."""
    (size,) = _SIZE.unpack_from(content)
    reader = Reader(bytearray(pa.decompress(content[_SIZE.size :], size, codec=_CODEC, asbytes=True)))
    firsts, counts, registered = (reader.array() for _ in range(3))
    ids = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    at, matched, errors = (reader.array() for _ in range(3))
    states = tuple([reader.state(folding_of(measure)) for measure in measures])
    return Roster(ids, np.repeat(registered, counts)), FoldPack(ids[:0], at, matched, errors, states)
