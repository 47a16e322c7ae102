"""The status of a derived stream for people: how far it is derived, and which source holds it back."""

from __future__ import annotations

from typing import NamedTuple

from psoup.published.snapshot import Snapshot, StreamView


class DerivedStatus(NamedTuple):
    """The position of a derived stream. Times are microseconds.

    `lag`: from the position to the newest tuple of a source that is a stream; 0 if all are derived. `held_by`: the
    source whose watermark holds the stream back, "" if none does. `sources`: the names of the sources, each once.
    """

    sources: tuple[str, ...]
    lag: int
    held_by: str


def status_of(snapshot: Snapshot, view: StreamView, reached: int | None) -> DerivedStatus:
    """The status of the derived stream `view`. `reached`: the instant up to which its pump has looked; None for its
    watermark."""
    derived = view.spec.derived
    sources = [] if derived is None else [snapshot.by_id[i] for i in derived.source_ids if i in snapshot.by_id]
    streams = [source for source in sources if source.spec.table is None]
    times = [source.last_time for source in streams if source.last_time is not None]
    times += [int(run[-1]) for source in streams for run in source.waiting if len(run)]
    position = max([at for at in (reached, view.watermark) if at is not None], default=None)
    newest = max(times, default=None)
    lag = 0 if newest is None or position is None else max(0, newest - position)
    if newest is not None and position is None:
        lag = newest - min(times)
    return DerivedStatus(tuple([source.spec.name for source in sources]), lag, _held_by(sources, position, newest))


def _held_by(sources: list[StreamView], position: int | None, newest: int | None) -> str:
    """The source in event time with the least watermark, if tuples wait for it."""
    timed = [source for source in sources if source.spec.event_time]
    if not timed or newest is None or (position is not None and newest <= position):
        return ""
    slowest = min(timed, key=lambda source: -(2**63) if source.watermark is None else source.watermark)
    return slowest.spec.name if slowest.watermark is None or slowest.watermark <= newest else ""
