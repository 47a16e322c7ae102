"""The embedded engine of a standby. It follows a copy, of whose objects a test hides the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from psoup_storage import StandbyStore, uploader_of
from psoup_storage.replica import standby_store
from psoup_storage.replica.fences import Fence
from psoup_storage.replica.objects import object_name
from psoup_storage.replica.standby_store import News
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines import format_fixture
from psoup_testing.engines.copy_target import copy_at
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
            return StandbyStore(directory, copy_at(target.place))

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
        _apply(soup, news)
        assert news.fence is None
        store.applied(news.place)
    return count


def to_fence(soup: Soup) -> Fence | None:
    """Apply all visible objects up to the fence of the standby's promotion. None if that is not there."""
    store = store_of(soup)
    while (news := store.next()) is not None:
        _apply(soup, news)
        if news.fence is not None:
            return news.fence
        store.applied(news.place)
    return None


def begin_promotion(soup: Soup) -> int:
    """Write the fence of the standby's promotion. Returns its number. Raises as `StandbyStore.begin_promotion`."""
    return store_of(soup).begin_promotion(soup.admission.ids.range)


def take_up(soup: Soup) -> int:
    """Follow up to the fence, and write from then on. Returns the number of the promotion."""
    fence, store = to_fence(soup), store_of(soup)
    assert fence is not None and fence.reach == store.sequence
    store.promote(fence)
    soup.admission.ids.begin(store.promotion)
    uploader = uploader_of(store)
    assert uploader is not None
    uploader.start()
    return store.promotion


def _apply(soup: Soup, news: News) -> None:
    for event in news.events:
        soup.admission.replay(event)
    if news.events:
        store_of(soup).append(news.events)
        soup.admission.give_back(soup.engine.apply(news.events).freed_bytes)
