"""Pins: a derived stream keeps the tuples of its sources that its pump has not passed, whatever their retention.

    source     [ chunk ][ chunk ][ chunk ][ open
                        ↑ W - width        ↑ W    the instant up to which the stream is derived
               may go     stays: its tuples may meet tuples of later instants

The watermark of a derived stream is W. So a replay has the same pins. A stream that is suspended for too long has no
pins until it resumes (`psoup.derivation.Halt.released`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from psoup.engine.stream.shelf import Shelf
from psoup.events.events import StreamCreated
from psoup.model import StreamSpec


class _Shelved(Protocol):
    @property
    def shelf(self) -> Shelf: ...


class SourcePins:
    """The pins of one stream in its sources. Does nothing for a stream that is not derived."""

    def __init__(self, event: StreamCreated, streams: Mapping[int, _Shelved]) -> None:
        """Pin all tuples of the sources. A replay may lack a source that is dropped later."""
        self._stream_id = event.stream_id
        self._derived = event.spec.derived
        self._watermark: int | None = None
        ids = () if self._derived is None else self._derived.source_ids
        self._pinned = [(i, streams[i].shelf) for i in ids if i in streams]
        self.move(None)

    def alter(self, spec: StreamSpec) -> None:
        """Pin or release what the stream needs after its pump was suspended or resumed. O(sources)."""
        self._derived = spec.derived
        self.move(self._watermark)

    def move(self, watermark: int | None) -> None:
        """Pin only what the stream needs after its watermark has moved. O(sources)."""
        self._watermark = watermark
        if self._derived is not None:
            for source, shelf in self._pinned:
                shelf.pins.set(self._stream_id, self._derived.pin_of(source, watermark))

    def release(self) -> None:
        """Remove all pins, as the stream is dropped."""
        for _, shelf in self._pinned:
            shelf.pins.set(self._stream_id, None)
