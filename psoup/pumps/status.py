"""The status of a derived stream for people: one record, which every view of the service shows.

stream show, stream list, explain, metrics, page  <── DerivedStatus ──  snapshot, and the counts of the pump
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.derivation import EVERYTHING, Derivation, Gap, Halt
from psoup.published.delays import WAITING, delay_below
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.progress import NOT_BEGUN, Progress

RUNNING, REBUILDING = "running", "rebuilding"


class SourcePin(NamedTuple):
    """The tuples that a source keeps for a derived stream, whatever its RETENTION.

    `time`: the least time of such a tuple, in microseconds; None for all tuples. `released`: whether it keeps nothing.
    `unread`: the number of tuples that the pump has not looked at. 0 for a table in system time beside event time.
    """

    source: str
    time: int | None
    released: bool
    unread: int


class DerivedStatus(NamedTuple):
    """The definition and the status of a derived stream. Times and spans are microseconds.

    `state`: running, rebuilding, waiting (for room in memory), suspended or stopped. `since`: the time at which it was
    suspended or stopped, or began to wait. `reason`: the failure that stopped it, or why it finds no room. Or the
    last failure of a pump that tries again; "" without one. `late`:
    whether the lag is more than LAG AT MOST, `limit`.

    `reached`: the instant up to which the stream has all rows. `lag`: from there to the newest tuple of a source that
    is a stream. It is 0 if only tuples at the watermark are left. `held_by`: the source that holds the stream back, ""
    if none does. Its watermark does, or the clock, if it is a table in system time beside a stream in event time. If a
    stream below does not run or waits, directly or not, it is that stream.

    `sources`: the names of the sources, each once. `pins`: one for each of them. `gaps`: the instants that were left
    out. `progress`: the counts of the pump since the start of the process.
    """

    derived: Derivation
    state: str
    since: int | None
    reason: str
    late: bool
    limit: int
    reached: int | None
    lag: int
    held_by: str
    sources: tuple[str, ...]
    pins: tuple[SourcePin, ...]
    gaps: tuple[Gap, ...]
    progress: Progress

    @property
    def catches_up(self) -> bool:
        """Whether it runs, and has not derived all that its sources have closed."""
        every = self.derived.every or 0
        return self.lag > every and not self.held_by and self.since is None


def status_of(snapshot: Snapshot, view: StreamView, progress: Progress | None = None) -> DerivedStatus | None:
    """The status of the stream `view`; None if it is not derived. `progress`: of its pump; None before it has begun.

    O(sources), and O(log chunks) for each.
    """
    derived, progress = view.spec.derived, progress or NOT_BEGUN
    if derived is None:
        return None
    sources = [snapshot.by_id[i] for i in derived.source_ids if i in snapshot.by_id]
    position = max([at for at in (progress.reached, view.watermark) if at is not None], default=None)
    ends, slowest = _ends(sources), _slowest(sources, progress.clock)
    newest = None if ends is None else ends[1]
    closed = None if progress.behind else _closed(derived, sources, slowest, position, newest)
    position = position if closed is None else closed
    lag = 0 if ends is None else max(0, ends[1] - (ends[0] if position is None else position))
    waits = slowest is not None and newest is not None and slowest.holds_back(newest)
    if closed is not None and not waits and derived.every is None:
        lag = 0
    waits = waits and (closed is not None or slowest is None or slowest.end is None)
    held_by = slowest.source.spec.name if waits and slowest is not None else ""
    wait = None if derived.halt is not None else snapshot.waits.of(view.stream_id)
    halt = derived.halt if wait is None else Halt(wait.since, wait.why)
    below = delay_below(snapshot, derived.source_ids)
    return DerivedStatus(
        derived=derived,
        state=WAITING if wait else halt.word if halt else REBUILDING if progress.rebuilding else RUNNING,
        since=None if halt is None else halt.since,
        reason=progress.failure if halt is None else halt.why,
        late=lag > derived.most_lag,
        limit=derived.most_lag,
        reached=position,
        lag=lag,
        held_by=held_by if below is None else below.stream,
        sources=tuple([source.spec.name for source in sources]),
        pins=tuple([_pin(derived, source, view.watermark, position) for source in sources]),
        gaps=derived.gaps,
        progress=progress,
    )


def _pin(derived: Derivation, source: StreamView, watermark: int | None, position: int | None) -> SourcePin:
    time, unread = derived.pin_of(source.stream_id, watermark), 0
    if derived.event_time and not source.spec.event_time:  # the times of its versions say nothing about instants
        return SourcePin(source.spec.name, None if time == EVERYTHING else time, time is None, 0)
    if source.last_time is not None and (position is None or source.last_time > position):
        first = source.first_id
        first = first if position is None else max(first, source.timeline().through(position))
        unread = source.next_id - first
    return SourcePin(source.spec.name, None if time == EVERYTHING else time, time is None, unread)


def _ends(sources: Sequence[StreamView]) -> tuple[int, int] | None:
    """The least and the greatest time of a tuple of the sources that are streams. None without tuples."""
    streams = [source for source in sources if source.spec.table is None]
    runs = [run for source in streams for run in source.waiting if len(run)]
    first = [source.first_time for source in streams if source.first_time is not None]
    last = [source.last_time for source in streams if source.last_time is not None]
    last += [int(run[-1]) for run in runs]
    return (min([*first, *(int(run[0]) for run in runs), *last]), max(last)) if last else None


class _Closing(NamedTuple):
    """A source with the last instant that it has closed. `end`: None if it has closed none."""

    source: StreamView
    end: int | None

    def holds_back(self, time: int) -> bool:
        """Whether tuples of this time wait for this source. Tuples at its watermark do not: their instant is open."""
        is_open = self.source.spec.event_time and self.source.spec.derived is None
        return self.end is None or self.end + is_open < time


def _slowest(sources: Sequence[StreamView], clock: int | None) -> _Closing | None:
    """The source whose last closed instant is the least one. None if all sources are in system time.

    Beside a source in event time, a table in system time closes the instants that the clock has reached.
    """
    if not any(source.spec.event_time for source in sources):
        return None
    closing = [_Closing(source, _end(source)) for source in sources if source.spec.event_time]
    if clock is not None:
        ends = [(source, source.last_time) for source in sources if not source.spec.event_time]
        closing += [_Closing(source, clock if last is None else max(clock, last)) for source, last in ends]
    return min(closing, key=lambda each: -(2**63) if each.end is None else each.end)


def _end(source: StreamView) -> int | None:
    """The last closed instant of a source in event time. None if none is closed."""
    return None if source.watermark is None else source.watermark - (source.spec.derived is None)


def _closed(
    derived: Derivation,
    sources: Sequence[StreamView],
    slowest: _Closing | None,
    position: int | None,
    newest: int | None,
) -> int | None:
    """The last instant that all sources have closed. None if tuples up to it are left to read, or if none is closed.

    With EVERY, it is a tick. None for a stream that does not run.
    """
    if derived.halt is not None:
        return None
    at = newest if slowest is None else slowest.end
    if at is None:
        return None
    at = at if derived.every is None else at // derived.every * derived.every
    if position is not None and at <= position:
        return position
    return None if any(_has_tuples(derived, source, position, at) for source in sources) else at


def _has_tuples(derived: Derivation, source: StreamView, position: int | None, at: int) -> bool:
    """Whether a source has tuples at instants after `position`, up to `at`."""
    if source.last_time is None or (derived.event_time and not source.spec.event_time):
        return False
    timeline = source.timeline()
    first = source.first_id if position is None else max(source.first_id, timeline.through(position))
    return first < timeline.through(at)
