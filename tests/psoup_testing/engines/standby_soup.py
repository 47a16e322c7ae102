"""The embedded engine of a standby. It follows a copy, of whose objects a test hides the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from psoup_storage import StandbyStore
from psoup_storage.replica import standby_store
from psoup_storage.replica.objects import object_name
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines import format_fixture
from psoup_testing.engines.format_fixture import END, Soup


class VisibleTarget(DirectoryTarget):
    """A copy in a directory. Only the objects up to the number `last` are visible."""

    def __init__(self, place: Path, last: int) -> None:
        super().__init__(place)
        self.last = last

    def has(self, name: str) -> bool:
        return self._shows(name) and super().has(name)

    def read(self, name: str) -> bytes | None:
        return super().read(name) if self._shows(name) else None

    def names_after(self, name: str) -> Iterator[str]:
        return (later for later in super().names_after(name) if self._shows(later))

    def _shows(self, name: str) -> bool:
        return not name.startswith("log/") or name <= object_name(self.last)


@contextmanager
def standby(path: Path, target: DirectoryTarget) -> Iterator[Soup]:
    """An engine on the directory of a standby; see `follow`."""

    def opened(directory: Path) -> StandbyStore:
        with patch.object(standby_store, "open_target", lambda place: target):
            return StandbyStore(directory, target.place)

    with patch.object(format_fixture, "DurableStore", opened):
        soup = Soup(path, END)
    try:
        yield soup
    finally:
        soup.store.close()


def store_of(soup: Soup) -> StandbyStore:
    """The store of a standby."""
    assert isinstance(soup.store, StandbyStore)
    return soup.store


def follow(soup: Soup) -> int:
    """Apply all objects that are visible; returns how many. Raises as `StandbyStore.next`."""
    store, count = store_of(soup), 0
    while (news := store.next()) is not None:
        count += 1
        for event in news.events:
            soup.admission.replay(event)
        if news.events:
            store.append(news.events)
            soup.admission.give_back(soup.engine.apply(news.events).freed_bytes)
        store.applied(news.place)
    return count
