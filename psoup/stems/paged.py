"""A map from IDs to records that readers can keep while the writer goes on: copy-on-write, page by page.

    PagedMap ── directory {page number: page} ── page {id: record}, up to 512 of them

A published map never changes. An `Editor` copies the directory once and each page it touches once, so a run of
changes costs the changes plus a page each, never the whole map. Keys are integers from 0; iteration is in key order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")

_PAGE = 512


class PagedMap(Generic[V]):
    """An immutable map int -> V. Lookup O(1); iteration in key order."""

    __slots__ = ("_count", "_pages")

    def __init__(self, pages: dict[int, dict[int, V]] | None = None, count: int = 0) -> None:
        self._pages: dict[int, dict[int, V]] = {} if pages is None else pages
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def get(self, key: int) -> V | None:
        """The record of `key`, or None."""
        page = self._pages.get(key // _PAGE)
        return None if page is None else page.get(key)

    def items(self, start: int = 0) -> Iterator[tuple[int, V]]:
        """(key, record) for all keys >= start, ascending. O(pages) to begin with, then O(1) each."""
        first = start // _PAGE
        for number in sorted(n for n in self._pages if n >= first):
            page = self._pages[number]
            for key in sorted(page):
                if key >= start:
                    yield key, page[key]

    def edit(self) -> Editor[V]:
        """A writer's handle; this map stays as it is."""
        return Editor(self._pages, self._count)


class Editor(Generic[V]):
    """Changes on their way into the next PagedMap; used by one thread."""

    __slots__ = ("_count", "_directory_owned", "_owned", "_pages")

    def __init__(self, pages: dict[int, dict[int, V]], count: int) -> None:
        self._pages = pages
        self._count = count
        self._directory_owned = False
        self._owned: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def get(self, key: int) -> V | None:
        """The record of `key` with the changes so far, or None."""
        page = self._pages.get(key // _PAGE)
        return None if page is None else page.get(key)

    def set(self, key: int, value: V) -> None:
        """Add or replace. O(page) the first time a page is touched, then O(1)."""
        page = self._own(key // _PAGE)
        self._count += key not in page
        page[key] = value

    def remove(self, key: int) -> None:
        """Take `key` out; KeyError if it is not there."""
        number = key // _PAGE
        page = self._own(number)
        del page[key]
        self._count -= 1
        if not page:
            del self._pages[number]
            self._owned.discard(number)

    def freeze(self) -> PagedMap[V]:
        """The map with all changes so far; later changes copy again."""
        self._directory_owned = False
        self._owned.clear()
        return PagedMap(self._pages, self._count)

    def _own(self, number: int) -> dict[int, V]:
        if not self._directory_owned:
            self._pages = dict(self._pages)
            self._directory_owned = True
        if number not in self._owned:
            self._pages[number] = dict(self._pages.get(number, ()))
            self._owned.add(number)
        return self._pages[number]
