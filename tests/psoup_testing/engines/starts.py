"""Data directories that a start finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from psoup.events.events import Event
from psoup_storage import DurableStore
from psoup_storage.durable.log.codec import encode


def kept(path: Path, row: Callable[[Event], Any] = encode) -> list[Any]:
    """The events that a start finds, each as `row` makes it: as a row of the log."""
    store = DurableStore(path)
    try:
        return [row(event) for event in store.read()]
    finally:
        store.close()
