"""The copy of the events (`replicate`) for the operator: figures, and a notice while it is behind or has stopped."""

from __future__ import annotations

from psoup_storage import ReplicatedStore
from psoup_storage.contract import Store


def copy_figures(store: Store) -> dict[str, int]:
    """The figures of the copy; all are 0 without one. Any thread."""
    events, seconds, objects, dropped, stopped = 0, 0.0, 0, 0, False
    if isinstance(store, ReplicatedStore):
        uploader = store.uploader
        events, seconds = uploader.lag()
        objects, dropped, stopped = uploader.numbers, uploader.queue.dropped, bool(uploader.failure)
    return {
        "copy_lag_events": events,
        "copy_lag_seconds": round(seconds),
        "copy_objects": objects,
        "copy_dropped": dropped,
        "copy_stopped": int(stopped),
    }


def copy_notice(store: Store) -> str:
    """The reason why the copy lacks events; "" if it is up to date, and without a copy. Any thread."""
    if not isinstance(store, ReplicatedStore):
        return ""
    uploader = store.uploader
    if uploader.failure:
        return f"events are not copied any more: {uploader.failure}"
    return uploader.trouble and f"{uploader.trouble}; {uploader.lag()[0]:,} events wait for it"
