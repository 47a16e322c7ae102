"""The store of events: the contract that the service relies on, and its implementations.

    contract   Store: append (durable when it returns), read back for replay
    durable    a directory: SQLite, one transaction for each group of events
    memory     the twin without a disk: same calls, nothing survives the process
    replica    a copy of the events in object storage, and the way back

A store knows events, but neither the engine's state nor the network.
"""

from pathlib import Path
from typing import Any

from psoup.errors import InvalidInput
from psoup.retry_memory import REMEMBERED, Remembered
from psoup_storage.contract import Store
from psoup_storage.durable import DurableStore
from psoup_storage.durable.directory import refuse_other_owner
from psoup_storage.durable.store import CACHE_BYTES
from psoup_storage.memory import MemoryStore
from psoup_storage.replica.replicated_store import CopyingStore, ReplicatedStore, Replication, uploader_of
from psoup_storage.replica.standby_directory import was_promoted
from psoup_storage.replica.standby_store import StandbyStore

IN_MEMORY = ":memory:"
"""The value of `place` for a store in memory, without a data directory."""


def open_store(
    place: str,
    *,
    reserve_bytes: int,
    cache_bytes: int = CACHE_BYTES,
    hot_bytes: int = 2**62,
    remembered: Remembered = REMEMBERED,
    replication: Replication | None = None,
    standby: str = "",
) -> Store:
    """The store in the directory `place`, or a store in memory for `:memory:`. Arguments and errors are those of
    `DurableStore`. With a `replication` it is a `ReplicatedStore`, and raises as that. `standby`: the copy that a
    `StandbyStore` follows, which is also the place of `replication`. A directory that was promoted goes on as a
    `ReplicatedStore`.

    Raises InvalidInput, reason DATA_DIR, for a directory that belongs to another user. Loader threads begin at once to
    decode the stored chunks that `read` will return.
    """
    if place == IN_MEMORY:
        if standby:
            raise InvalidInput("a standby keeps its events in a data directory, and not in memory only")
        if replication is not None:
            raise InvalidInput("a service that keeps everything in memory has no events on disk to replicate")
        return MemoryStore()
    if standby and (replication is None or replication.place != standby):
        raise InvalidInput("a standby makes no copy until it is promoted: leave out replicate, or standby")
    refuse_other_owner(place)
    limits: dict[str, Any] = {"reserve_bytes": reserve_bytes, "cache_bytes": cache_bytes, "hot_bytes": hot_bytes}
    if replication is not None and standby and not was_promoted(Path(place)):
        store: DurableStore = StandbyStore(place, replication, **limits, remembered=remembered)
    elif replication is None:
        store = DurableStore(place, **limits, remembered=remembered)
    else:
        store = ReplicatedStore(place, replication, **limits, remembered=remembered)
    store.read_ahead()
    return store


__all__ = [
    "IN_MEMORY",
    "CopyingStore",
    "DurableStore",
    "MemoryStore",
    "ReplicatedStore",
    "Replication",
    "StandbyStore",
    "Store",
    "open_store",
    "uploader_of",
]
