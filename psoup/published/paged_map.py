"""A persistent map from IDs to records: the writer copies pages on write, and readers keep their version.

    PagedMap ─┬ directory {page number: page} ── page {id: record}, up to 512 of them (`Shape.page`)
              └ blocks, by their least ID: many records as columns; a record is made on access

A published map never changes. An `Editor` copies the directory once, and each changed page once, never the whole map.
Keys are integers from 0; iteration is in key order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge, nlargest
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from psoup.config import Shape
from psoup.invariants import ensure
from psoup.published.reader_notes import ReaderNotes
from psoup.values.columns import Array

V = TypeVar("V")
W = TypeVar("W", covariant=True)

_PAGE = Shape().page
_FIRST_OF = attrgetter("first")
_FEW = 64
"""The most keys that are looked up one by one."""


class KeyedBlock(Protocol[W]):
    """Records with ascending keys; the key ranges of blocks do not overlap. See `psoup.published.records`."""

    @property
    def first(self) -> int:
        """The least key that the block ever had."""
        ...

    @property
    def last(self) -> int:
        """The greatest key that the block ever had."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        ...

    def __len__(self) -> int: ...

    def get(self, key: int) -> W | None:
        """The record of a key, or None."""
        ...

    def find(self, key: int) -> int:
        """The position of a key, or -1."""
        ...

    def places(self, keys: Array) -> Array:
        """The position of each key (int64[k]), or -1 for a key without a record."""
        ...

    def items(self, start: int) -> Iterator[tuple[int, W]]:
        """Yield (key, record) for all keys >= start, ascending."""
        ...

    def without(self, key: int, owned: bool) -> Any:
        """The block without a key; None if it was the last key. A block that is `owned` is changed in place."""
        ...

    def without_all(self, places: Array, owned: bool) -> Any:
        """The block without the keys at some positions; see `without`."""
        ...

    def check(self) -> None:
        """Check the invariants of the block."""
        ...


class PagedRecords(NamedTuple):
    """The result of `find`: records of pages by their keys, and positions (int64[k], ascending) in some blocks."""

    records: dict[int, Any]
    blocks: list[tuple[Any, Array]]
    missing: Array
    """Keys without a record."""


class PagedMap(Generic[V]):
    """An immutable map int -> V, in key order. A lookup costs O(1), or O(log blocks) for a key of a block.

    `notes`: values that readers derive from the map alone, for as long as it is published.
    """

    __slots__ = ("_count", "_page", "_pages", "blocks", "notes")

    def __init__(
        self,
        pages: dict[int, dict[int, V]] | None = None,
        count: int = 0,
        blocks: tuple[KeyedBlock[V], ...] = (),
        page: int = _PAGE,
    ) -> None:
        self._page = page
        self._pages: dict[int, dict[int, V]] = {} if pages is None else pages
        self._count = count
        self.blocks = blocks
        self.notes = ReaderNotes()

    def __len__(self) -> int:
        return self._count + sum(map(len, self.blocks))

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def get(self, key: int) -> V | None:
        """The record of `key`, or None."""
        page = self._pages.get(key // self._page)
        record = None if page is None else page.get(key)
        return record if record is not None or not self.blocks else _in_blocks(self.blocks, key)

    def items(self, start: int = 0) -> Iterator[tuple[int, V]]:
        """Yield (key, record) for all keys >= start, ascending. O(pages + blocks) at the start, then O(1) each."""
        if not self.blocks:
            return self._single(start)
        first = max(bisect_right(self.blocks, start, key=_FIRST_OF) - 1, 0)
        return merge(
            self._single(start),
            chain.from_iterable(block.items(start) for block in self.blocks[first:]),
            key=itemgetter(0),
        )

    def _single(self, start: int) -> Iterator[tuple[int, V]]:
        first = start // self._page
        for number in sorted(n for n in self._pages if n >= first):
            page = self._pages[number]
            for key in sorted(page):
                if key >= start:
                    yield key, page[key]

    def single_between(self, start: int, end: int) -> Iterator[tuple[int, V]]:
        """Yield (key, record) for the keys in [start, end) outside blocks, in no order. O(pages + keys)."""
        first, last = start // self._page, (end - 1) // self._page
        for number, page in self._pages.items():
            if first <= number <= last:
                yield from ((key, record) for key, record in page.items() if start <= key < end)

    def last_before(self, bound: int) -> int:
        """The greatest key below `bound`; -1 without one. A removed key of a block counts. O(pages + log blocks).

        No block may have keys on both sides of `bound`.
        """
        end, numbers = (
            bisect_left(self.blocks, bound, key=_FIRST_OF),
            [n for n in self._pages if n * self._page < bound],
        )
        singles = (key for number in nlargest(2, numbers) for key in self._pages[number] if key < bound)
        return max(self.blocks[end - 1].last if end else -1, max(singles, default=-1))

    def find(self, keys: Array) -> PagedRecords:
        """The records of some keys (int64[k], ascending), without a step for each key of a block."""
        return _find(self._pages, self._page, self.blocks, keys)

    def single(self) -> Iterator[V]:
        """The records outside blocks, in no order."""
        return chain.from_iterable(page.values() for page in self._pages.values())

    def pages(self) -> list[dict[int, V]]:
        """The pages, for measurements of their size."""
        return list(self._pages.values())

    @property
    def pages_by_number(self) -> Mapping[int, Mapping[int, V]]:
        """The pages, which are shared with other versions. Two versions have a page in common if it is one object."""
        return self._pages

    def edit(self) -> Editor[V]:
        """An editor that collects changes for the next map. This map does not change."""
        return Editor(self._pages, self._count, self.blocks, self._page)

    def check(self) -> None:
        """Check that keys are in their pages and only once, blocks do not overlap, and the count is right."""
        in_pages = sum(map(len, self._pages.values()))
        ensure(self._count == in_pages, self, "records are miscounted", counted=self._count, held=in_pages)
        for number, page in self._pages.items():
            strays = [key for key in page if key // self._page != number]
            ensure(
                len(page) > 0 and not strays, self, "a page is empty, or has keys of others", page=number, keys=strays
            )
        end = -1
        for block in self.blocks:
            block.check()
            keys = [key for key, _ in block.items(0)]
            ensure(end < keys[0], self, "blocks lie across one another", end=end, first=keys[0])
            twice = [key for key in keys if key in self._pages.get(key // self._page, ())]
            ensure(not twice, self, "keys are both in a page and in a block", keys=twice)
            end = keys[-1]


def _in_blocks(blocks: Any, key: int) -> Any:
    at = bisect_right(blocks, key, key=_FIRST_OF) - 1
    return blocks[at].get(key) if at >= 0 else None


def _find(
    pages: dict[int, dict[int, Any]], page_size: int, blocks: Sequence[KeyedBlock[Any]], keys: Array
) -> PagedRecords:
    records: dict[int, Any] = {}
    placed: list[tuple[Any, Array]] = []
    rest = [keys]
    if blocks and len(keys):
        owners = np.searchsorted(np.array([block.first for block in blocks]), keys, "right") - 1
        starts = np.flatnonzero(np.diff(owners, prepend=-2))
        rest = []
        for at, end in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)], strict=True):
            owner, part = int(owners[at]), keys[at:end]
            places = blocks[owner].places(part) if owner >= 0 else np.full(len(part), -1)
            if (places >= 0).any():
                placed.append((blocks[owner], places[places >= 0]))
            rest.append(part[places < 0])
    left = np.concatenate(rest)
    in_page = np.ones(len(left), np.bool_)
    if len(left) > _FEW:  # most missing keys are in no page
        in_page = np.isin(left // page_size, np.fromiter(pages, np.int64, len(pages)))
    for at in np.flatnonzero(in_page).tolist():
        key = int(left[at])
        record = pages.get(key // page_size, {}).get(key)
        if record is None:
            in_page[at] = False
        else:
            records[key] = record
    return PagedRecords(records, placed, left[~in_page])


class Editor(Generic[V]):
    """The changes for the next PagedMap. Only one thread may use an editor."""

    __slots__ = (
        "_blocks",
        "_count",
        "_directory_owned",
        "_frozen",
        "_owned",
        "_owned_blocks",
        "_page",
        "_pages",
        "_published",
    )

    def __init__(
        self, pages: dict[int, dict[int, V]], count: int, blocks: tuple[KeyedBlock[V], ...] = (), page: int = _PAGE
    ) -> None:
        self._page = page
        self._pages = pages
        self._count = count
        self._blocks: list[KeyedBlock[V]] = list(blocks)
        self._frozen: tuple[KeyedBlock[V], ...] | None = blocks
        """The blocks as they were published last. None if the blocks have changed since."""
        self._directory_owned = False
        self._owned: set[int] = set()
        self._owned_blocks: set[int] = set()
        """The identities of blocks whose state is in no published map. The editor may change these blocks in place."""
        self._published = PagedMap(pages, count, blocks, page)

    def __len__(self) -> int:
        return self._count + sum(map(len, self._blocks))

    def get(self, key: int) -> V | None:
        """The record of `key` with the changes so far, or None."""
        page = self._pages.get(key // self._page)
        record = None if page is None else page.get(key)
        return record if record is not None or not self._blocks else _in_blocks(self._blocks, key)

    def find(self, keys: Array) -> PagedRecords:
        """`PagedMap.find`, with the changes so far."""
        return _find(self._pages, self._page, self._blocks, keys)

    def set(self, key: int, value: V) -> None:
        """Add or replace a record. O(page) for the first change of a page, then O(1). A key of a block must be removed
        first.
        """
        page = self._own(key // self._page)
        self._count += key not in page
        page[key] = value

    def in_block(self, key: int) -> bool:
        """Whether the record of `key` is in a block."""
        at = bisect_right(self._blocks, key, key=_FIRST_OF) - 1
        return at >= 0 and self._blocks[at].find(key) >= 0

    def add_block(self, block: KeyedBlock[V]) -> None:
        """Add records whose keys are between the keys of two other blocks. O(blocks) at the next `freeze`."""
        at = bisect_right(self._blocks, block.first, key=_FIRST_OF)
        before = self._blocks[at - 1].first if at else -1
        ensure(before < block.first, self, "two blocks begin with the same key", first=block.first)
        self._blocks.insert(at, block)
        self._frozen = None

    def replace_block(self, block: KeyedBlock[V], changed: KeyedBlock[V]) -> None:
        """Put a block with the same keys in the place of another. Only this editor may know `changed`. O(blocks)."""
        self._replace(next(at for at, other in enumerate(self._blocks) if other is block), changed)

    def remove(self, key: int) -> None:
        """Remove `key`. Raises KeyError if it does not exist."""
        number = key // self._page
        if key not in self._pages.get(number, ()):
            self._remove_from_block(key)
            return
        page = self._own(number)
        del page[key]
        self._count -= 1
        if not page:
            del self._pages[number]
            self._owned.discard(number)

    def remove_all(self, keys: Array) -> PagedRecords:
        """Remove some keys (int64[k], ascending), without a step for each key of a block.

        Returns the removed records, with the blocks before the change. Raises KeyError if a key does not exist, and
        then changes nothing.
        """
        removed = _find(self._pages, self._page, self._blocks, keys)
        if len(removed.missing):
            raise KeyError(int(removed.missing[0]))
        for key in removed.records:
            self.remove(key)
        if removed.blocks:
            place_of = {id(block): at for at, block in enumerate(self._blocks)}
            for block, places in removed.blocks:
                self._replace(place_of[id(block)], block.without_all(places, id(block) in self._owned_blocks))
            self._blocks = [block for block in self._blocks if block is not None]
        return removed

    def freeze(self) -> PagedMap[V]:
        """A map with all changes so far. Without changes, this is the map that was published last. Later changes copy
        pages again.
        """
        if not self._directory_owned and self._frozen is not None:
            return self._published
        self._directory_owned = False
        self._owned.clear()
        self._owned_blocks.clear()
        if self._frozen is None:
            self._frozen = tuple(self._blocks)
        self._published = PagedMap(self._pages, self._count, self._frozen, self._page)
        return self._published

    def check(self) -> None:
        """Check the present map, and that no page of a published map was changed in place."""
        PagedMap(self._pages, self._count, tuple(self._blocks), self._page).check()
        self._published.check()
        shared = {id(page) for page in self._published.pages()}
        new_pages = {number for number, page in self._pages.items() if id(page) not in shared}
        ensure(
            new_pages == self._owned,
            self,
            "a page was not copied before it was written",
            owned=self._owned,
            own=new_pages,
        )

    def _remove_from_block(self, key: int) -> None:
        at = bisect_right(self._blocks, key, key=_FIRST_OF) - 1
        if at < 0 or self._blocks[at].find(key) < 0:
            raise KeyError(key)
        self._replace(at, self._blocks[at].without(key, id(self._blocks[at]) in self._owned_blocks))
        if self._blocks[at] is None:
            del self._blocks[at]

    def _replace(self, at: int, block: Any) -> None:
        """Put a block without some of its keys in the place of the old one. `block`: None if no key is left."""
        self._owned_blocks.discard(id(self._blocks[at]))
        self._frozen = None
        self._blocks[at] = block
        if block is not None:
            self._owned_blocks.add(id(block))

    def _own(self, number: int) -> dict[int, V]:
        if not self._directory_owned:
            self._pages = dict(self._pages)
            self._directory_owned = True
        if number not in self._owned:
            self._pages[number] = dict(self._pages.get(number, ()))
            self._owned.add(number)
        return self._pages[number]
