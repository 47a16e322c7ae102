"""Queries by their keys and labels: sorted runs that never change, shared by admission and readers.

    key    (tenant, text)         128 bits   ─┐   run of a block of 8,192   [ 03…  1f…  … ] query IDs as offsets
    label  (tenant, name, value)   40 bits   ─┴   run of 3                  a run that is not much longer than the
                                                  run of 1                  one behind it is merged with it

A name is hashed with a secret of the process, like clauses (`psoup.clauses.names`). Two different keys have one hash
with a probability of 1 in 2^128; readers also compare the labels themselves. A run keeps removed queries until it is
merged or rebuilt, so callers must check that a query still exists. Only the newest query with a key may exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from psoup.events.tags import Tag, TagColumns, buffers_of, codes_of
from psoup.invariants import ensure
from psoup.kernels.names import clause_names
from psoup.kernels.names import tag_runs as kernels
from psoup.values.columns import Array

_MASK = 2**64 - 1
_SECRET = b"".join((hash(("psoup tags", lane)) & _MASK).to_bytes(8, "little") for lane in range(2))
_NO_WORDS: Array = np.zeros(0, np.uint64)
_SPAN = 2**32
_ROW = np.uint64(2**24 - 1)
"""The bits of a label's name that hold a row of a block."""


@dataclass(frozen=True, slots=True)
class TagRun:
    """Names, and the queries `ids + first` that have them. `low` is empty if 64 bits, or fewer, are enough.

    high: uint64[n] ascending, equal ones by query. low: uint64[n]. ids: uint32[n]. `sequence`: the last event in it.
    """

    high: Array
    low: Array
    ids: Array
    first: int
    sequence: int

    def __len__(self) -> int:
        return len(self.high)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.high.nbytes + self.low.nbytes + self.ids.nbytes

    def at(self, first: int, sequence: int) -> TagRun:
        """The same run for a block whose first query has the ID `first`. It shares the arrays."""
        return replace(self, first=first, sequence=sequence)

    def queries(self, word: int, after: int = -1) -> Array:
        """The queries with IDs above `after` that have a name of 64 bits, ascending. O(log n + k)."""
        start, stop = (int(np.searchsorted(self.high, np.uint64(word), side)) for side in ("left", "right"))
        ids = self.ids[start:stop] + np.int64(self.first)
        return ids[int(np.searchsorted(ids, after, "right")) :]


def merged(run: TagRun, later: TagRun) -> TagRun | None:
    """Merge two runs. Returns None if their query IDs lie too far apart for 32-bit offsets. O(n)."""
    first = min(run.first, later.first)
    if max(run.first, later.first) - first + _SPAN // 2 >= _SPAN:
        return None
    size = len(run) + len(later)
    high, low, ids = np.empty(size, np.uint64), np.empty(size if len(run.low) else 0, np.uint64), np.empty(size, "u4")
    earlier_ids, later_ids = (part.ids + np.uint32(part.first - first) for part in (run, later))
    count = kernels.merge_names(run.high, run.low, earlier_ids, later.high, later.low, later_ids, high, low, ids)
    if count < size:
        high, low, ids = high[:count].copy(), low[:count].copy(), ids[:count].copy()
    return TagRun(high, low, ids, first, later.sequence)


Runs = tuple[TagRun, ...]
"""Runs in the order of the events that added their queries."""


def with_run(runs: Runs, run: TagRun) -> Runs:
    """The runs with a further run, which is the newest, merged as needed. O(log n) for each name, amortised."""
    if not len(run):
        return runs
    runs_left = [*runs, run]
    while (
        len(runs_left) > 1
        and len(runs_left[-2]) < 2 * len(runs_left[-1])
        and (joined := merged(runs_left[-2], runs_left[-1])) is not None
    ):
        runs_left[-2:] = [joined]
    return tuple(runs_left)


def find(runs: Sequence[TagRun], names: Array) -> Array:
    """The newest query of each key, int64[n]; -1 for a key without a query. `names`: of the keys, uint64[n, 2]."""
    queries: Array = np.full(len(names), -1, np.int64)
    places: Array = np.empty(len(names), np.int64)
    for run in runs:
        kernels.find_names(names, run.high, run.low, places)
        places_found = np.flatnonzero(places >= 0)
        queries[places_found] = run.ids[places[places_found]] + np.int64(run.first)
    return queries


@dataclass(frozen=True, slots=True)
class PublishedTags:
    """Keys and labels after the event `sequence`."""

    sequence: int = 0
    keys: Runs = ()
    labels: Runs = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the runs."""
        return sum(run.nbytes for run in (*self.keys, *self.labels))

    def query_of(self, tenant: str, key: str) -> int:
        """The newest query with the key, which may be removed, or -1."""
        return int(find(self.keys, key_names(tenant, pa.array([key], pa.string())))[0])

    def queries_of(self, tenant: str, labels: Sequence[tuple[str, str]], after: int) -> Iterator[int]:
        """Yield the queries with IDs above `after` that may have all of some labels (at least one), ascending.

        They may be removed.
        """
        return iter(map(int, self.with_labels(tenant, labels, after)))

    def with_labels(self, tenant: str, labels: Sequence[tuple[str, str]], after: int = -1) -> Array:
        """`queries_of` as an array, int64[k]."""
        common: Array | None = None
        for name, value in labels:
            word = int(label_names(tenant, name, pa.array([value], pa.string()))[0])
            queries = np.concatenate([run.queries(word, after) for run in self.labels] or [np.zeros(0, np.int64)])
            common = queries if common is None else np.intersect1d(common, queries, assume_unique=True)
        return np.zeros(0, np.int64) if common is None else common

    def check(self) -> None:
        """Check that names ascend."""
        for run in (*self.keys, *self.labels):
            ensure(bool((run.high[1:] >= run.high[:-1]).all()), self, "names of a run do not ascend", high=run.high)
            ensure(len(run.ids) == len(run.high), self, "a run has other numbers than names", ids=run.ids)


def key_names(tenant: str, keys: pa.StringArray) -> Array:
    """The names of keys, uint64[n, 2]. O(bytes)."""
    return _names(_seeds(tenant, ""), keys)


def label_names(tenant: str, name: str, values: pa.StringArray) -> Array:
    """The names of the values of a label, uint64[n], with the bits of `_ROW` set to zero. O(bytes)."""
    return _names(_seeds(tenant, name), values)[:, 0] & ~_ROW


def key_run(tenant: str, tags: TagColumns) -> TagRun:
    """The keys of a block, for queries 0, 1, …; computed once. O(n log n)."""
    run = tags.made.get("keys")
    if run is None:
        run = tags.made["keys"] = _key_run(tenant, tags)
    return run


def _key_run(tenant: str, tags: TagColumns) -> TagRun:
    names = _NO_WORDS.reshape(0, 2) if tags.keys is None else key_names(tenant, tags.keys)
    order = np.argsort(names[:, 0])
    high = names[order, 0]
    if bool((high[1:] == high[:-1]).any()):  # equal keys, which will be refused
        order = np.lexsort((names[:, 1], names[:, 0]))
    return TagRun(names[order, 0], names[order, 1], order.astype(np.uint32), 0, 0)


def label_run(tenant: str, tags: TagColumns) -> TagRun:
    """The labels of a block, as `key_run`."""
    words, rows = [_NO_WORDS], [np.zeros(0, np.int64)]
    for name, column in tags.labels:
        rows_labelled, codes = codes_of(column)
        words.append(label_names(tenant, name, column.dictionary)[codes])
        rows.append(rows_labelled)
    # name and row share a word: one sort takes a fifth of the time of a stable argsort
    placed = np.sort(np.concatenate(words) | np.concatenate(rows).astype(np.uint64))
    return TagRun(placed & ~_ROW, _NO_WORDS, (placed & _ROW).astype(np.uint32), 0, 0)


def runs_of(tenant: str, tag: Tag) -> tuple[TagRun, TagRun]:
    """Keys and labels of one query, in the form of a block's."""
    keys = None if not tag.key else pa.array([tag.key], pa.string())
    words = [label_names(tenant, name, pa.array([value], pa.string())) for name, value in tag.labels]
    every = np.sort(np.concatenate([_NO_WORDS, *words]))
    return key_run(tenant, TagColumns(1, keys, ())), TagRun(every, _NO_WORDS, np.zeros(len(every), np.uint32), 0, 0)


@lru_cache(maxsize=1024)
def _seeds(tenant: str, name: str) -> Array:
    text = f"{tenant}\0{name}".encode("utf-8", "surrogatepass")
    return np.frombuffer(hashlib.blake2b(text, digest_size=16, key=_SECRET).digest(), np.uint64)


def _names(seeds: Array, texts: pa.StringArray) -> Array:
    out: Array = np.empty((len(texts), 2), np.uint64)
    clause_names.mix_texts(*buffers_of(texts), seeds, out)
    return out
