"""Checks of the chunks on a shelf: each is in its place and in one form, and agrees with its file and its places."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from psoup.data.archived_chunk import Chunk
from psoup.data.key_index import KeyIndex
from psoup.invariants import ensure
from psoup.results.chunk_results import UNCOVERED

if TYPE_CHECKING:
    from psoup.engine.stream.shelf import Shelf, Shelved


def check_chunks(shelf: Shelf, list_limit: int) -> None:
    """Check all chunks and their results. Raises Corrupt. O(everything)."""
    on_disk, hot = shelf.entries[: shelf.archived], shelf.entries[shelf.archived :]
    for entry, follower in pairwise(shelf.entries):
        _check_order(shelf, entry.data, follower.data)
    places = [entry.data.in_memory for entry in shelf.entries]
    sides = [False] * len(on_disk) + [True] * len(hot)
    ensure(places == sides, shelf, "a chunk is on the other side of the archive", archived=shelf.archived, at=places)
    with_results = [entry.data.number for entry in on_disk if entry.results is not UNCOVERED or entry.file is not None]
    ensure(not with_results, shelf, "archived chunks have results, or another file", chunks=with_results)
    for entry in shelf.entries:
        _check_places(shelf, entry.data)
    for entry in hot:
        _check_hot(shelf, entry)
        entry.results.check(len(entry.data), list_limit)
    sealed = [entry.results.open is None for entry in hot]
    ensure(sealed == sorted(sealed, reverse=True), shelf, "chunks were sealed out of their order", sealed=sealed)


def _check_order(shelf: Shelf, chunk: Chunk, follower: Chunk) -> None:
    numbers, ids = (chunk.number, follower.number), (chunk.end_id, follower.first_id)
    ensure(numbers[0] + 1 == numbers[1], shelf, "chunks are not consecutive", numbers=numbers)
    ensure(ids[0] == ids[1], shelf, "tuples are not consecutive", chunk=follower.number, ids=ids)
    ensure(follower.first_time >= chunk.last_time, shelf, "a chunk goes back in time", chunk=follower.number)


def _check_places(shelf: Shelf, chunk: Chunk) -> None:
    chunk.places.check()
    ensure(len(chunk.places) == len(chunk), shelf, "a chunk has other rows than places", chunk=chunk.number)
    thinned = chunk.places.left is not None
    ensure(thinned == (chunk.number in shelf.turns[1]), shelf, "a thinned chunk is not listed", chunk=chunk.number)


def _check_hot(shelf: Shelf, entry: Shelved) -> None:
    data, file, number = entry.data, entry.file, entry.data.number
    ensure((data.times[:-1] <= data.times[1:]).all(), shelf, "a chunk is out of time order", chunk=number)
    lengths = {len(column) for column in data.columns}
    ensure(lengths <= {len(data)}, shelf, "a column has another length", chunk=number, length=len(data), of=lengths)
    for column, index in list(data.caches.keyed.items()):
        if isinstance(index, KeyIndex):
            index.check(data.columns[column])
    if file is not None:
        fits = file.number == number < shelf.next_to_store and file.places == data.places
        ensure(fits, shelf, "a chunk has the file of another", chunk=number, file=file.number, rows=len(file))
