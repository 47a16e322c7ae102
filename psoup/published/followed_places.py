"""The places in tables at which followers and groups may go on. Versions that they still need stay.

    noted     reader 7: entry 41, at 10:00       reader 9: entry 60, at 10:02       group mailer: entry 55, at 09:30
    floor     41         entries from there on, and the version before each, must stay
    forgotten reader 7, once `keep` has passed since it was noted

The service notes a place when it gives the position to a client. It notes the positions of groups again and again.
Places are in memory only: after a restart the places of absent clients are unknown.
"""

from __future__ import annotations

from collections.abc import Hashable

NO_FLOOR = 2**62
"""The floor of a table without followers."""
_MOST = 8_192
"""The most places of a table. One more replaces the lowest, so that a client cannot keep more and more versions."""


class FollowedPlaces:
    """The places of followers, by table. Any thread may call it. `keep`: microseconds for which a place counts.

    Each step reads or changes a dict at once, in C. So no lock is needed.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._places: dict[int, dict[Hashable, tuple[int, int]]] = {}

    def note(self, stream_id: int, reader: Hashable, next_id: int, now: int, *, newest: bool) -> None:
        """Note that a reader may go on before the entry `next_id`. O(1), rarely O(places).

        `now`: the clock. `newest`: whether no entry is left to tell. The time of a place counts from the arrival of its
        reader there, unless no entry is left.
        """
        places = self._places.setdefault(stream_id, {})
        last = places.get(reader)
        if last is None and len(places) >= _MOST:
            lowest, _ = min(list(places.items()), key=lambda place: place[1])
            places.pop(lowest, None)
        if last is None or newest or last[0] != next_id:
            places[reader] = next_id, now

    def floor(self, stream_id: int) -> int:
        """The first entry that a follower may still be told. NO_FLOOR if there is no follower. O(places)."""
        places = list(self._places.get(stream_id, {}).values())
        return min((next_id for next_id, _ in places), default=NO_FLOOR)

    def tick(self, now: int) -> None:
        """Forget the places that were noted before `now` less `keep`. `now`: the clock, microseconds. O(places)."""
        for places in list(self._places.values()):
            for reader, (_, noted) in list(places.items()):
                if noted < now - self._keep:
                    places.pop(reader, None)
