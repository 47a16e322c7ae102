"""The message of a derived stream's derivation: its SELECT, and the state of its pump."""

from __future__ import annotations

from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.progress import Progress
from psoup.pumps.status import DerivedStatus, SourcePin, status_of
from psoup_proto.v1 import streams_pb2
from psoup_service.wire.completeness import gap
from psoup_service.wire.convert import duration, timestamp


def derivation(snapshot: Snapshot, view: StreamView, progress: Progress | None) -> streams_pb2.Derivation | None:
    """The message for a stream of the snapshot; None if it is not derived. `progress`: as in `status_of`."""
    status = status_of(snapshot, view, progress)
    return None if status is None else derivation_of(status)


def derivation_of(status: DerivedStatus) -> streams_pb2.Derivation:
    """The message of a status."""
    derived, progress = status.derived, status.progress
    return streams_pb2.Derivation(
        select=derived.select,
        sources=status.sources,
        from_now=derived.from_now,
        reached=timestamp(status.reached),
        lag=duration(status.lag),
        held_by=status.held_by,
        tuples=progress.tuples,
        rows=progress.rows,
        errors=progress.errors,
        unknown=progress.unknown,
        failure=status.reason,
        operator=derived.operator.value,
        every=None if derived.every is None else duration(derived.every),
        lag_limit=None if derived.lag_limit is None else duration(derived.lag_limit),
        state_limit=derived.state_limit or 0,
        state=status.state,
        since=timestamp(status.since),
        late=status.late,
        gaps=map(gap, status.gaps),
        pins=map(_pin, status.pins),
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        state_bound=progress.state_bound,
    )


def _pin(pin: SourcePin) -> streams_pb2.SourcePin:
    return streams_pb2.SourcePin(source=pin.source, time=timestamp(pin.time), released=pin.released, unread=pin.unread)
