"""The message of a derived stream's derivation: its SELECT, and the state of its pump."""

from __future__ import annotations

from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.status import status_of
from psoup_proto.v1 import streams_pb2
from psoup_service.host.pump_progress import Passed
from psoup_service.wire.convert import duration, timestamp


def derivation(snapshot: Snapshot, view: StreamView, passed: Passed | None) -> streams_pb2.Derivation | None:
    """The message for a stream of the snapshot; None if it is not derived. `passed`: None before its pump has begun."""
    derived = view.spec.derived
    if derived is None:
        return None
    status = status_of(snapshot, view, None if passed is None else passed.reached)
    message = streams_pb2.Derivation(
        select=derived.select,
        sources=status.sources,
        from_now=derived.from_now,
        lag=duration(status.lag),
        held_by=status.held_by,
        operator=derived.operator.value,
        every=None if derived.every is None else duration(derived.every),
        lag_limit=None if derived.lag_limit is None else duration(derived.lag_limit),
        state_limit=derived.state_limit or 0,
    )
    if passed is not None:
        if (reached := timestamp(passed.reached)) is not None:
            message.reached.CopyFrom(reached)
        message.tuples, message.rows = passed.tuples, passed.rows
        message.errors, message.unknown, message.failure = passed.errors, passed.unknown, passed.failure
    return message
