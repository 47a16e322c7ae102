"""Places of followers of tables: the lowest one counts, for a bounded time; positions that lost an entry are reset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from psoup.answer.follow.kept_entries import FollowPlace, kept_from, oldest_place
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.local import LocalPSoup
from psoup.published.followed_places import NO_FLOOR, FollowedPlaces
from psoup.published.snapshot import StreamView
from psoup.work.clock import VirtualClock

HOUR = 3_600_000_000


def test_the_lowest_place_is_the_floor_until_it_is_forgotten() -> None:
    places = FollowedPlaces(keep=100)
    assert places.floor(1) == NO_FLOOR
    places.note(1, "a", 50, 0, newest=True)
    places.note(1, "b", 40, 10, newest=False)
    places.note(2, "a", 7, 0, newest=True)
    assert (places.floor(1), places.floor(2)) == (40, 7)
    places.note(1, "b", 40, 90, newest=False)  # it has not moved, although there is more
    places.note(1, "a", 50, 90, newest=True)  # it is at the newest entry
    places.tick(111)
    assert (places.floor(1), places.floor(2)) == (50, NO_FLOOR)


def test_clients_cannot_keep_more_and_more_places() -> None:
    places = FollowedPlaces(keep=100)
    for number in range(8_300):
        places.note(1, number, number, 0, newest=False)
    assert places.floor(1) == 8_300 - 8_192


def thinned(view: StreamView, gone: list[int]) -> StreamView:
    """The view after some tuples of its first chunk have left."""
    entry = view.chunks[0]
    data = entry.data
    assert isinstance(data, ChunkView) and data.versions is not None
    rows = np.setdiff1d(np.arange(len(data)), gone)
    columns = tuple(column.take(rows) for column in data.columns)
    left = replace(
        data, places=data.places.keep(rows), times=data.times[rows], columns=columns, versions=data.versions.take(rows)
    )
    return replace(view, chunks=[replace(entry, data=left), *view.chunks[1:]])


def test_a_place_before_an_entry_that_has_left_is_lost() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute("CREATE TABLE ads (k BIGINT, PRIMARY KEY (k))")
    soup.push("ads", pa.table({"k": range(10)}))
    soup.push("ads", pa.table({"k": [3, 4]}))  # 10 and 11 replace 3 and 4
    soup.push("ads", pa.table({"k": [3]}))  # 12 replaces 10
    view = soup.engine.snapshot().stream("ads", soup.tenant)

    def kept(view: StreamView) -> list[int]:
        return [kept_from(view, FollowPlace(at), 0).next_id for at in range(14)]

    assert kept(view) == list(range(14)) and oldest_place(view, 0) == FollowPlace(0)
    without = thinned(view, [3])  # entry 10 cannot be compared
    assert oldest_place(without, 0) == FollowPlace(11)
    assert kept(without) == [11] * 11 + [11, 12, 13]
    without = thinned(view, [3, 10])  # nor can entry 12
    assert kept(without) == [13] * 13 + [13]
    without = thinned(view, [5])  # nothing came after it
    assert oldest_place(without, 0) == FollowPlace(6)
    assert kept(without) == [6] * 6 + list(range(6, 14))


def test_versions_stay_until_the_places_of_followers_have_passed_them() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, follow_keep=20 * HOUR), VirtualClock(10**15))
    soup.execute("CREATE TABLE ads (k BIGINT, PRIMARY KEY (k)) HISTORY 1 HOUR")
    stream_id, followed = soup.engine.snapshot().stream("ads", soup.tenant).stream_id, soup.engine.snapshot().followed
    for _ in range(5):
        soup.push("ads", pa.table({"k": range(64)}))
        soup.clock.advance(seconds=7_200)
    followed.note(stream_id, "reader", 70, soup.clock.now(), newest=False)

    def oldest() -> int:
        soup.maintain()
        return oldest_place(soup.engine.snapshot().stream("ads", soup.tenant), soup.clock.now()).next_id

    assert oldest() <= 70, "a version that a follower must still be told has left"
    followed.note(stream_id, "reader", 200, soup.clock.now(), newest=False)
    assert 70 < oldest() <= 200
    soup.clock.advance(seconds=21 * 3_600)
    assert oldest() > 200, "a place that is older than follow_keep keeps nothing"
