"""Where events are kept: the contract that the service relies on, and its implementations.

    contract   Store: append (durable when it returns), read back for replay
    memory     the twin without a disk: same calls, nothing survives the process

Knows events, and neither the engine's state nor the network.
"""

from psoup_storage.contract import Store
from psoup_storage.memory import MemoryStore

__all__ = ["MemoryStore", "Store"]
