"""Chunks that streamed answers hold: charged to the memory budget also after the engine has dropped them.

    stream A  [c1 c2 c3]                  retention drops c1, c2: A still holds them, so they stay charged
    stream B     [c2 c3 c4]               c2 counts once
    snapshot           [c4 c5 c6 …        if more than an eighth of the memory is held that way, or pushes need the
                                          room, the oldest streamed answer of the tenant that holds most for its weight
                                          is ended (STREAM_BEHIND)

A streamed answer keeps the chunks of its window until its client has read it, or has stalled for the idle time. The
sequencer settles the charges before it prepares commands; that costs nothing while no answer holds chunks.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from psoup.budgets import PINNED_BYTES
from psoup.data.archived_chunk import Chunk
from psoup.errors import PSoupError, ResourceExhausted
from psoup.model import DEFAULT_TENANT
from psoup_service.host.turns.fair_turns import Weight, equal

SHARE = 8
"""Slow readers may hold at most one `SHARE`-th of the memory budget."""
_SPARE = 16
"""Slow readers leave at least one `_SPARE`-th of the memory budget to pushes."""

_Key = tuple[int, int]
"""A stream, and the first ID of a chunk."""


@dataclass(slots=True)
class _HeldChunk:
    """A chunk that streamed answers of a tenant hold. `gone`: the engine has dropped it from memory."""

    size: int
    tenant: str
    users: int = 0
    gone: bool = False


@dataclass(eq=False, slots=True)
class Pin:
    """The chunks that one streamed answer of a tenant holds. `end`: ends it with an error, from any thread."""

    end: Callable[[PSoupError], None]
    tenant: str
    keys: list[_Key] = field(default_factory=list)
    ending: bool = False


class Pins:
    """All chunks that streamed answers hold. Any thread.

    `limit`: the memory budget, in bytes. `snapshot`: returns the published state. `weight`: returns a tenant's weight.
    """

    def __init__(self, limit: int, snapshot: Callable[[], Any], weight: Weight = equal) -> None:
        self._limit = limit
        self._weight = weight
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._pins: dict[Pin, None] = {}
        """The pins of all streamed answers under way, the oldest first."""
        self._held: dict[_Key, _HeldChunk] = {}
        self._present: dict[int, list[int]] = {}
        """For each stream of tuples a heap: first IDs of chunks that the engine still has. Some were released since."""
        self._bytes = 0
        self._charged = 0
        self.ended = 0
        """The number of streamed answers that were ended because their clients read too slowly."""

    @property
    def bytes(self) -> int:
        """Bytes of chunks that only slow readers still hold."""
        return self._bytes

    def held_by(self, tenant: str) -> int:
        """Bytes of chunks that only slow readers of one tenant still hold. O(chunks held)."""
        with self._lock:
            return sum(chunk.size for chunk in self._held.values() if chunk.gone and chunk.tenant == tenant)

    @property
    def streams(self) -> int:
        """The number of streamed answers under way."""
        return len(self._pins)

    def counters(self) -> dict[str, int]:
        """Figures for the operator."""
        return {"pinned_bytes": self.bytes, "pinning_streams": self.streams, "streams_behind": self.ended}

    def hold(
        self,
        stream_id: int,
        chunks: Iterable[Chunk],
        end: Callable[[PSoupError], None],
        tenant: str = DEFAULT_TENANT,
    ) -> Pin:
        """Note that a streamed answer has begun, and holds `chunks` of one stream of tuples."""
        return self.hold_all([(stream_id, chunks)], end, tenant)

    def hold_all(
        self,
        parts: Iterable[tuple[int, Iterable[Chunk]]],
        end: Callable[[PSoupError], None],
        tenant: str = DEFAULT_TENANT,
    ) -> Pin:
        """Note that a streamed answer has begun. `parts`: its streams of tuples, each with the chunks that it holds."""
        pin = Pin(end, tenant)
        with self._lock:
            for stream_id, chunks in parts:
                pin.keys += [self._hold(stream_id, chunk, tenant) for chunk in chunks if chunk.in_memory]
            self._pins[pin] = None
        return pin

    def _hold(self, stream_id: int, chunk: Chunk, tenant: str) -> _Key:
        """Count one more user of a chunk."""
        key = (stream_id, chunk.first_id)
        entry = self._held.get(key)
        if entry is None:
            entry = self._held[key] = _HeldChunk(chunk.nbytes, tenant)
            heappush(self._present.setdefault(stream_id, []), chunk.first_id)
        elif not entry.gone:
            entry.size = max(entry.size, chunk.nbytes)  # it was open, and has grown
        entry.users += 1
        return key

    def release(self, pin: Pin) -> None:
        """Note that a streamed answer has ended: it holds its chunks no more."""
        with self._lock:
            del self._pins[pin]
            for key in pin.keys:
                entry = self._held[key]
                entry.users -= 1
                if not entry.users:
                    del self._held[key]
                    self._bytes -= entry.size * entry.gone
            if not self._pins:
                self._present.clear()

    def settle(self, used: int) -> int:
        """The bytes to give back to the memory budget; negative if more must be charged.

        `used`: the bytes that are charged to the budget now. Ends streamed answers if they hold too much.
        """
        if not self._pins and not self._charged:
            return 0
        ends: list[Pin] = []
        with self._lock:
            self._look()
            charged, self._charged = self._charged, self._bytes
            others = used - charged
            allowed = min(self._limit // SHARE, max(self._limit - self._limit // _SPARE - others, 0))
            if self._bytes > allowed:
                ends = self._behind(allowed)
        for pin in ends:
            pin.end(_behind(self._bytes, allowed))
        return charged - self._charged

    def _look(self) -> None:
        """Mark the chunks that have left the engine's memory since the last look."""
        if not self._present:
            return
        views = self._snapshot().by_id
        for stream_id, present in list(self._present.items()):
            view = views.get(stream_id)
            while present and (view is None or present[0] < view.hot_id):
                entry = self._held.get((stream_id, heappop(present)))
                if entry is not None and not entry.gone:
                    entry.gone = True
                    self._bytes += entry.size
            if not present:
                del self._present[stream_id]

    def _behind(self, allowed: int) -> list[Pin]:
        """The streamed answers that must end so that at most `allowed` bytes are held. Each step ends the oldest one of
        the tenant that holds most for its weight. O(pins x tenants + chunks held).
        """
        gone = {key: entry for key, entry in self._held.items() if entry.gone}
        users = {key: entry.users for key, entry in gone.items()}
        holds, pins = Counter[str](), defaultdict[str, deque[Pin]](deque)
        for entry in gone.values():
            holds[entry.tenant] += entry.size
        for pin in self._pins:
            if any(key in users for key in pin.keys):
                pins[pin.tenant].append(pin)
        behind = list[Pin]()
        while holds.total() > allowed and pins:
            heaviest = max(pins, key=lambda tenant: holds[tenant] / self._weight(tenant))
            pin = pins[heaviest].popleft()
            if not pins[heaviest]:
                del pins[heaviest]
            for key in pin.keys:
                if key in users:
                    users[key] -= 1
                    holds[heaviest] -= 0 if users[key] else gone[key].size
            if not pin.ending:
                pin.ending = True
                self.ended += 1
                behind.append(pin)
        return behind


def _behind(size: int, allowed: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"this answer is read too slowly: {size:,} bytes of tuples are kept only for readers that are behind, and"
        f" {allowed:,} is the most just now; invoke the query again, over the part of the window that is missing, and"
        " read it at once",
        reason="STREAM_BEHIND",
        **PINNED_BYTES.over(size, allowed),
    )
