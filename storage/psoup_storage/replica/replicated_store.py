"""The store on disk whose events are also copied; see the package.

append     the events are on the disk ─> queue of the uploader      `copy_gate` says when they may be acknowledged

While the copy is behind for longer than it may be, `append` refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psoup.errors import InvalidInput
from psoup.events.events import Event
from psoup_storage.contract import Store
from psoup_storage.durable.store import DurableStore
from psoup_storage.replica.gate import ReplicaGate
from psoup_storage.replica.notes import notes_of
from psoup_storage.replica.targets import Target, open_target
from psoup_storage.replica.uploader import Uploader


@dataclass(frozen=True, slots=True)
class Replication:
    """The place that events are copied to, and the limits.

    `queue_bytes`: the most bytes of events that wait for the uploader. `base_s`: seconds between two base images.
    `now`: the time in microseconds since 1970. `lag_most_s`, `remote`: see `ReplicaGate`. `keep_s`: see `OldObjects`.
    """

    place: str
    queue_bytes: int
    base_s: float
    now: Callable[[], int]
    lag_most_s: float = math.inf
    remote: bool = False
    keep_s: float = math.inf

    def check(self) -> None:
        """Raise InvalidInput for a place on which acknowledgements must not rely."""
        if self.remote and "://" not in self.place:
            raise InvalidInput(
                f"replicate_ack = remote needs object storage, and {self.place} is a directory: network file"
                " systems do not give exclusive creation that can be relied on; set replicate_ack to local",
                reason="SETTING",
            )


class CopyingStore(DurableStore):
    """A store on disk that may have an uploader. `uploader.start` begins to copy, once all events are replayed.

    `uploader`: None while the store makes no copy.
    """

    uploader: Uploader | None = None

    def made_uploader(self, target: Target, replication: Replication, writer: str) -> Uploader:
        """An uploader of this store, which has looked at the target. `writer`: see `Uploader`.

        Raises as `Uploader.check`.
        """
        uploader = Uploader(
            target,
            self.incarnation,
            self.freeze,
            lambda: self.sequence,
            replication.now,
            lambda: notes_of(self.noted),
            queue_bytes=replication.queue_bytes,
            base_s=replication.base_s,
            remote=replication.remote,
            keep_s=replication.keep_s,
            writer=writer,
        )
        uploader.check()
        return uploader

    def copy_by(self, uploader: Uploader, replication: Replication) -> None:
        """Copy all events that are appended from now on. No call of `append` may be under way."""
        self.copy_gate = ReplicaGate(uploader, replication.lag_most_s, remote=replication.remote)
        self.uploader = uploader

    def append(self, events: Sequence[Event]) -> None:
        """See `Store`. Raises Unavailable as `CopyGate.check`; then no event is stored."""
        uploader = self.uploader
        if events:
            self.copy_gate.check()
        before = self.sequence
        super().append(events)
        if events and uploader is not None:
            uploader.queue.put(before, events)

    def close(self) -> None:
        """Copy the last events, then close; see `Uploader.close`. Idempotent."""
        if self.uploader is not None:
            self.uploader.close()
        super().close()


class ReplicatedStore(CopyingStore):
    """A store on disk with an uploader.

    Raises as `DurableStore`, and InvalidInput for a target that cannot be the copy of this directory.
    """

    uploader: Uploader
    copy_gate: ReplicaGate

    def __init__(self, path: Path | str, replication: Replication, **options: Any) -> None:
        replication.check()
        target = open_target(replication.place)
        super().__init__(path, **options)
        try:
            self.copy_by(self.made_uploader(target, replication, self.writer), replication)
        except BaseException:
            super(CopyingStore, self).close()
            raise


def uploader_of(store: Store) -> Uploader | None:
    """The uploader of a store that makes a copy; None for any other."""
    return store.uploader if isinstance(store, CopyingStore) else None
