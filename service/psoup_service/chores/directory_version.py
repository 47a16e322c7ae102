"""The note of the version that last used a data directory, for a line of the log after an upgrade."""

from __future__ import annotations

import logging

from psoup_storage.contract import Store

_NOTE = "version"

_log = logging.getLogger(__name__)


def note_version(store: Store, version: str) -> None:
    """Log the first start of a version on a data directory with events, and note the version there."""
    before = store.noted(_NOTE)
    if before == version:
        return
    if store.durable and store.sequence:
        _log.info(
            "the data directory is used by this version for the first time",
            extra={"version": version, "earlier_version": before or "unknown"},
        )
    store.note(_NOTE, version, sync=True)
