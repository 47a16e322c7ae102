"""The places in tables at which followers and groups may go on. Versions that they still need stay.

    noted     reader 7: entry 41, at 10:00       reader 9: entry 60, at 10:02       group mailer: entry 55, at 09:30
    floor     41         entries from there on, and the version before each, must stay
    forgotten reader 7, once `keep` has passed since it was noted

The service notes a place when it gives the position to a client. It notes the positions of groups again and again.
Places are in memory only: after a restart the places of absent clients are unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

NO_FLOOR = 2**62
"""The floor of a table without followers."""
_MOST = 8_192
"""The most places of a table. One more replaces the lowest, so that a client cannot keep more and more versions."""


class FollowedPlaces:
    """The places of followers, by table. Any thread may call it. `keep`: microseconds for which a place counts."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._places: dict[int, dict[Hashable, tuple[int, int]]] = {}

    def note(self, stream_id: int, reader: Hashable, next_id: int, now: int, *, newest: bool) -> None:
        """Note that a reader may go on before the entry `next_id`. O(1), rarely O(places).

        `now`: the clock. `newest`: whether no entry is left to tell. The time of a place counts from the arrival of its
        reader there, unless no entry is left.
        """
        with self._lock:
            places = self._places.setdefault(stream_id, {})
            last = places.get(reader)
            if last is None and len(places) >= _MOST:
                del places[min(places, key=places.__getitem__)]
            if last is None or newest or last[0] != next_id:
                places[reader] = next_id, now

    def floor(self, stream_id: int) -> int:
        """The first entry that a follower may still be told. NO_FLOOR if there is no follower. O(places)."""
        with self._lock:
            places = self._places.get(stream_id, {})
            return min((next_id for next_id, _ in places.values()), default=NO_FLOOR)

    def tick(self, now: int) -> None:
        """Forget the places that were noted before `now` less `keep`. `now`: the clock, microseconds. O(places)."""
        with self._lock:
            for stream_id, places in list(self._places.items()):
                for reader in [reader for reader, (_, noted) in places.items() if noted < now - self._keep]:
                    del places[reader]
                if not places:
                    del self._places[stream_id]
