"""A token for an operator, written into the directory of a service that does not run.

Who may write to the directory may have all that is in it, so no token is asked for. It is how the first one is made
where no client can come in yet, and how a lost one is replaced.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from psoup.events.access import AccessToken, TokenIssued
from psoup_storage.durable.store import DurableStore


def issue_offline(path: Path, token: AccessToken) -> int:
    """Append the event of a token to the log of a directory, which is made if it is not there; returns its sequence.

    Raises InvalidInput, reason DATA_DIR_IN_USE, while a service runs on it, and what opening a store raises. O(log).
    """
    store = DurableStore(path)
    try:
        event = TokenIssued(store.sequence + 1, replace(token, issued=time.time_ns() // 1_000))
        store.append([event])
    finally:
        store.close()
    return event.sequence
