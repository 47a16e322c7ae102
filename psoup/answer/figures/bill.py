"""The bill: bytes of each structure, reclaimable bytes among them, and the number of things that it holds.

    structure             bytes of real buffers           per
    tuples                columns and times of chunks     tuple      those that wait for the watermark: as charged
    search codes          columns in 8 to 32 bits         tuple      codes of 8 and 16 can be given up: made again
    key indexes           rows by the values of columns   tuple      can be given up: made again when asked for often
    kept pairs            rows of two chunks each        pair       can be given up: made again when a chunk has left
    kept answers          messages, IDs of rows           answer     can be given up first: made again by an invocation
    folds                 states of clauses and chunks    span       can be given up: made again by the next invocations
    fold packs            states of many clauses          pack       can be given up: made again by the next tables
    open, sealed results  rows, runs, lists, bitmaps      match      columns of clauses that are gone are reclaimable
    predicate index       all arrays, scratch, counters   query      clauses that are gone are reclaimable
    query catalog         blocks; records by a sample     query      an estimate: Python's own objects

"Can be given up" means that the engine may drop the bytes, and computes them again when they are needed. The bytes of
NumPy's buffers are exact. The bill leaves out the interpreter, the libraries and gRPC.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any

import numpy as np

from psoup.answer.figures.deletion_matches import deletion_pairs
from psoup.data.archived_chunk import ENTRY_BYTES
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import Coded
from psoup.data.key_index import KeyIndex
from psoup.data.narrow import Short
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_SAMPLE = 64
"""The number of records that are measured. Their mean size is the estimate for every record."""


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes of one structure. `reclaimable`: the part of them that the engine can give back.

    `count`: the number of things in the structure. `per`: the kind of these things.
    """

    structure: str
    bytes: int
    reclaimable: int
    count: int
    per: str

    @property
    def each(self) -> float:
        """The mean bytes of one thing; 0 if there is none."""
        return self.bytes / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Bill:
    """All items, and the memory budget of the engine."""

    items: tuple[Item, ...]
    budget: int

    @property
    def used(self) -> int:
        """Bytes of all structures."""
        return sum(item.bytes for item in self.items)


def memory_bill(snapshot: Snapshot) -> Bill:
    """The bill of all streams. O(chunks + rows of bits + clauses of the index)."""
    views = list(snapshot.by_id.values())
    items = (
        _tuples(views),
        _waiting(views),
        _codes(views),
        _keys(views),
        _folds(views),
        _packs(views),
        _pairs(snapshot),
        _answers(snapshot),
        *_results(views),
        _index(views),
        _catalog(snapshot),
        Item(
            "archive entries", sum(ENTRY_BYTES * v.archived for v in views), 0, sum(v.archived for v in views), "chunk"
        ),
    )
    return Bill(tuple(item for item in items if item.bytes or item.count), snapshot.config.memory_bytes)


def _chunks(views: Iterable[StreamView]) -> Iterator[ChunkView]:
    """The chunks in memory."""
    for view in views:
        for entry in view.chunks[view.archived :]:
            if isinstance(entry.data, ChunkView):
                yield entry.data


def _tuples(views: list[StreamView]) -> Item:
    count = sum(view.left.between(view.hot_id, view.next_id) for view in views)
    size = 0
    for chunk in _chunks(views):
        arrays = [chunk.times, *(a for c in chunk.columns for a in (c.values, c.valid, c.data))]
        size += sum(_buffer(array) for array in arrays if array is not None)
    return Item("tuples", size, 0, count, "tuple")


def _waiting(views: list[StreamView]) -> Item:
    charged = sum(view.nbytes for view in views) - sum(chunk.nbytes for chunk in _chunks(views))
    return Item("tuples that wait", max(charged, 0), 0, sum(view.pending for view in views), "tuple")


def _codes(views: list[StreamView]) -> Item:
    size = sum(narrow.codes.nbytes for chunk in _chunks(views) for narrow in list(chunk.caches.narrow.values()))
    coded = [codes for chunk in _chunks(views) for codes in list(chunk.caches.coded.values())]
    size += sum(codes.nbytes for codes in coded if isinstance(codes, Coded))
    forms = [form for chunk in _chunks(views) for form in list(chunk.caches.short.values())]
    stay = sum(form.codes.nbytes for form in forms if isinstance(form, Short))
    tuples = sum(view.left.between(view.hot_id, view.next_id) for view in views) if size + stay else 0
    return Item("search codes", size + stay, size, tuples, "tuple")


def _keys(views: list[StreamView]) -> Item:
    """Bytes of the key indexes; `count`: tuples of the chunks that have a key index."""
    size = count = 0
    for chunk in [entry.data for view in views for entry in view.chunks]:
        indexes = [index.nbytes for index in list(chunk.caches.keyed.values()) if isinstance(index, KeyIndex)]
        size += sum(indexes)
        count += len(chunk) if indexes else 0
    return Item("key indexes", size, size, count, "tuple")


def _pairs(snapshot: Snapshot) -> Item:
    """Bytes of the maintained pairs of joins."""
    size, tables = snapshot.pairs.nbytes, snapshot.pairs.tables.values()
    return Item("kept pairs", size, size, sum(table.pairs for table in tables), "pair")


def _answers(snapshot: Snapshot) -> Item:
    """Bytes of the kept answers of COMPLETE queries."""
    size = snapshot.answers.held
    return Item("kept answers", size, size, snapshot.answers.answers, "answer")


def _folds(views: list[StreamView]) -> Item:
    """Bytes of the stored folds of aggregates. Streams share their room, which is counted once."""
    rooms = {id(view.folds): view.folds for view in views}.values()
    size = sum(room.held for room in rooms)
    return Item("folds", size, size, sum(room.spans for room in rooms), "span")


def _packs(views: list[StreamView]) -> Item:
    """Bytes of the folds of many clauses. Streams share their room, which is counted once."""
    rooms = {id(view.packs): view.packs for view in views}.values()
    size = sum(room.held for room in rooms)
    return Item("fold packs", size, size, sum(room.spans for room in rooms), "pack")


def _results(views: list[StreamView]) -> tuple[Item, Item]:
    sealed, gone, matches = 0, 0, 0
    unsealed, spare, pairs = 0, 0, 0
    for view in views:
        live = _live_ids(view)
        for entry in view.chunks[view.archived :]:
            if view.spec.table is not None:
                in_open, in_packs = deletion_pairs(entry)
                pairs, matches = pairs - in_open, matches - in_packs
            for pack in entry.results.packs:
                sealed += pack.nbytes
                matches += int(pack.counts.sum())
                at = np.minimum(np.searchsorted(live, pack.ids), max(len(live) - 1, 0))
                dead = np.flatnonzero(live[at] != pack.ids) if len(live) else np.arange(len(pack.ids))
                gone += pack.nbytes * len(dead) // max(len(pack.ids), 1)
            shown = entry.results.open
            if shown is not None:
                spare += shown.spare
                unsealed += shown.rows.nbytes + shown.row_of_slot.nbytes + sum(run.nbytes for run in shown.runs)
                pairs += sum(len(run.slots) for run in shown.runs)
                pairs += sum(int(np.bitwise_count(row).sum(dtype=np.int64)) for row in shown.rows)
    opened = Item("open results", unsealed + spare, spare, pairs, "match")
    return opened, Item("sealed results", sealed, gone, matches, "match")


def _live_ids(view: StreamView) -> Array:
    """SQC IDs of the registered clauses, ascending."""
    shown = view.chunks[-1].results.open
    assert shown is not None, "the last chunk is open"
    slots = view.index.live_slots()
    standing = shown.sqc_of_slot[slots[slots < len(shown.sqc_of_slot)]]
    return np.sort(np.concatenate([standing, view.outside.ids]))


def _index(views: list[StreamView]) -> Item:
    size = gone = 0
    for view in views:
        size += view.index.nbytes + view.index.costs.nbytes + view.room.nbytes
        gone += view.index.reclaimable
    return Item("predicate index", size, gone, sum(len(view.index) for view in views), "query")


def _catalog(snapshot: Snapshot) -> Item:
    size = 0
    for records in (snapshot.queries, snapshot.clauses):
        blocks = getattr(records, "blocks", ())
        size += sum(block.nbytes for block in blocks)
        single = len(records) - sum(map(len, blocks))
        sample = list(islice((record for page in records.pages() for record in page.values()), _SAMPLE))
        size += _deep(sample, set()) * single // max(len(sample), 1)
    return Item("query catalog", size, 0, snapshot.count, "query")


def _deep(value: Any, seen: set[int]) -> int:
    """Bytes of an object and of the objects in it, each once."""
    if id(value) in seen or value is None or isinstance(value, type):
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, tuple | list):
        size += sum(_deep(member, seen) for member in value)
    elif is_dataclass(value):
        size += sum(_deep(getattr(value, field.name), seen) for field in fields(value))
    return size


def _buffer(array: Array) -> int:
    """Bytes of the buffer that an array is a part of. The buffer of an open chunk is larger than its array."""
    return array.base.nbytes if isinstance(array.base, np.ndarray) else array.nbytes
