"""Whether a heartbeat is taken: a promise that no tuple with a smaller time will come.

    watermark W     clock           bound = clock + how far ahead of it times may lie
        |-----------------|--------------|
     known already: no event             beyond: refused, or all tuples until then would be late

Looks only; the watermark changes when the event is adopted.
"""

from __future__ import annotations

from psoup.admission.attachment import check_heartbeat
from psoup.admission.catalog import KnownStream
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange
from psoup.events.acknowledgements import HeartbeatAcknowledgement, Prepared
from psoup.events.commands import Heartbeat
from psoup.events.events import WatermarkRaised
from psoup.model import StreamSpec, time_text


def latest_time(spec: StreamSpec, config: EngineConfig, now: int) -> int:
    """The greatest time that a tuple of a stream, or a heartbeat, may have at clock time `now`."""
    return now + (config.max_ahead if spec.ahead is None else min(spec.ahead, config.max_ahead))


def decide_heartbeat(
    stream: KnownStream, command: Heartbeat, config: EngineConfig, sequence: int, now: int
) -> Prepared:
    """The event of a heartbeat, or that it was known. `sequence`: that of the event.

    Raises FailedPrecondition for a stream in system time or one that a job feeds, InvalidInput, OutOfRange.
    """
    if not stream.spec.event_time:
        raise FailedPrecondition(
            f"stream {stream.spec.name!r} is in system time, where the clock is the watermark; a heartbeat is for"
            " streams with TIMESTAMP BY",
            reason="SYSTEM_TIME",
            stream=stream.spec.name,
        )
    check_heartbeat(stream.spec, stream.past)
    if not -(2**63) <= command.time < 2**63:
        raise InvalidInput(f"the heartbeat's time {command.time} is not an int64 of microseconds")
    bound = latest_time(stream.spec, config, now)
    if command.time > bound:
        raise OutOfRange(
            f"the heartbeat's time {time_text(command.time)} lies too far past the clock; {time_text(bound)} is the"
            " most, or the watermark would refuse all tuples until then. The stream's AHEAD says how far"
            " (ALTER STREAM … AHEAD)",
            reason="TOO_FAR_AHEAD",
            time=command.time,
            limit=bound,
        )
    if stream.watermark is not None and command.time <= stream.watermark:
        return Prepared(HeartbeatAcknowledgement(sequence - 1, True, stream.watermark))
    event = WatermarkRaised(sequence, stream.tenant, stream.stream_id, command.time, now)
    return Prepared(HeartbeatAcknowledgement(event.sequence, False, event.watermark), event)
