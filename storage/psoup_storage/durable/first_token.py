"""A token for an operator, written into the directory of a service that does not run.

A user that may write to the directory can read all its data, so no token is needed. In this way an operator makes the
first token if no client can call yet, or replaces a lost one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from psoup.events.access import AccessToken, TokenIssued
from psoup_storage.durable.store import DurableStore


def issue_offline(path: Path, token: AccessToken) -> int:
    """Append the event of a token to the log of a directory; returns its sequence. A missing directory is created.

    Raises InvalidInput, reason DATA_DIR_IN_USE, while a service runs on it, and the errors of opening a store. O(log).
    """
    store = DurableStore(path)
    try:
        event = TokenIssued(store.sequence + 1, replace(token, issued=time.time_ns() // 1_000))
        store.append([event])
    finally:
        store.close()
    return event.sequence
