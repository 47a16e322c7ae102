"""The store of events: the contract that the service relies on, and its implementations.

    contract   Store: append (durable when it returns), read back for replay
    durable    a directory: SQLite, one transaction for each group of events
    memory     the twin without a disk: same calls, nothing survives the process

A store knows events, but neither the engine's state nor the network.
"""

from psoup.retry_memory import REMEMBERED, Remembered
from psoup_storage.contract import Store
from psoup_storage.durable import DurableStore
from psoup_storage.durable.directory import refuse_other_owner
from psoup_storage.durable.store import CACHE_BYTES
from psoup_storage.memory import MemoryStore

IN_MEMORY = ":memory:"
"""The value of `place` for a store in memory, without a data directory."""


def open_store(
    place: str,
    *,
    reserve_bytes: int,
    cache_bytes: int = CACHE_BYTES,
    hot_bytes: int = 2**62,
    remembered: Remembered = REMEMBERED,
) -> Store:
    """The store in the directory `place`, or a store in memory for `:memory:`. Arguments and errors are those of
    `DurableStore`.

    Raises InvalidInput, reason DATA_DIR, for a directory that belongs to another user. Loader threads begin at once to
    decode the stored chunks that `read` will return.
    """
    if place == IN_MEMORY:
        return MemoryStore()
    refuse_other_owner(place)
    store = DurableStore(
        place, reserve_bytes=reserve_bytes, cache_bytes=cache_bytes, hot_bytes=hot_bytes, remembered=remembered
    )
    store.read_ahead()
    return store


__all__ = ["IN_MEMORY", "DurableStore", "MemoryStore", "Store", "open_store"]
