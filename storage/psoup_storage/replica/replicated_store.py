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
from psoup_storage.durable.store import DurableStore
from psoup_storage.replica.gate import ReplicaGate
from psoup_storage.replica.notes import notes_of
from psoup_storage.replica.targets import open_target
from psoup_storage.replica.uploader import Uploader


@dataclass(frozen=True, slots=True)
class Replication:
    """The place that events are copied to, and the limits.

    `queue_bytes`: the most bytes of events that wait for the uploader. `base_s`: seconds between two base images.
    `now`: the time in microseconds since 1970. `lag_most_s`, `remote`: see `ReplicaGate`.
    """

    place: str
    queue_bytes: int
    base_s: float
    now: Callable[[], int]
    lag_most_s: float = math.inf
    remote: bool = False


class ReplicatedStore(DurableStore):
    """A store on disk with an uploader. `uploader.start` begins to copy, once all events are replayed.

    Raises as `DurableStore`, and InvalidInput for a target that cannot be the copy of this directory.
    """

    copy_gate: ReplicaGate

    def __init__(self, path: Path | str, replication: Replication, **options: Any) -> None:
        if replication.remote and "://" not in replication.place:
            raise InvalidInput(
                f"replicate_ack = remote needs object storage, and {replication.place} is a directory: network file"
                " systems do not give exclusive creation that can be relied on; set replicate_ack to local",
                reason="SETTING",
            )
        target = open_target(replication.place)
        super().__init__(path, **options)
        try:
            self.uploader = Uploader(
                target,
                self.incarnation,
                self.freeze,
                lambda: self.sequence,
                replication.now,
                lambda: notes_of(self.noted),
                queue_bytes=replication.queue_bytes,
                base_s=replication.base_s,
                remote=replication.remote,
            )
            self.copy_gate = ReplicaGate(self.uploader, replication.lag_most_s, remote=replication.remote)
            self.uploader.check()
        except BaseException:
            super().close()
            raise

    def append(self, events: Sequence[Event]) -> None:
        """See `Store`. Raises Unavailable as `CopyGate.check`; then no event is stored."""
        if events:
            self.copy_gate.check()
        before = self.sequence
        super().append(events)
        if events:
            self.uploader.queue.put(before, events)

    def close(self) -> None:
        """Copy the last events, then close; see `Uploader.close`. Idempotent."""
        self.uploader.close()
        super().close()
