"""The version of the lists of streams and queries: it tells whether a catalogue is still right."""

from __future__ import annotations

from typing import Any

from psoup.published.snapshot import Snapshot


class DirectoryVersion:
    """The streams and queries of a snapshot. Equal to another one if no stream and no query has changed since."""

    __slots__ = ("_queries", "_specs")

    def __init__(self, snapshot: Snapshot) -> None:
        self._queries = snapshot.queries
        self._specs = [view.spec for view in snapshot.by_id.values()]

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, DirectoryVersion)
            and self._queries is other._queries
            and len(self._specs) == len(other._specs)
            and all(left is right for left, right in zip(self._specs, other._specs, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]
