"""Heartbeats: the promises that no tuple below a time will come, which move the watermark without tuples.

    watermark W      a heartbeat of a client at T            bound = clock + AHEAD
      ───── W ──────────────────── T ─────────────────────────── bound ────
      tuples below T are late from now on; a heartbeat past the bound is refused, as all tuples until then would be late

The functions change nothing. The state changes when admission adopts the event.
"""

from __future__ import annotations

from psoup.admission.attachment import check_heartbeat
from psoup.admission.catalog import KnownStream
from psoup.admission.rows.push_times import latest_time
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange
from psoup.events.acknowledgements import HeartbeatAcknowledgement, Prepared
from psoup.events.commands import Heartbeat
from psoup.events.events import WatermarkRaised
from psoup.model import time_text


def decide_heartbeat(
    stream: KnownStream, command: Heartbeat, config: EngineConfig, sequence: int, now: int
) -> Prepared:
    """Decide on a heartbeat. `sequence`: the sequence that its event gets.

    Raises FailedPrecondition for a stream in system time, or fed by a job with lateness. Raises InvalidInput or
    OutOfRange for a time that is not allowed.
    """
    if not stream.spec.event_time:
        raise FailedPrecondition(
            f"{stream.spec.noun} {stream.spec.name!r} is in system time, where the clock is the watermark; a heartbeat"
            " is for streams with TIMESTAMP BY",
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
    reached = stream.watermark is not None and command.time <= stream.watermark
    if reached and stream.spec.idle_after is None:
        return Prepared(HeartbeatAcknowledgement(sequence - 1, True, stream.watermark))
    watermark = stream.watermark if reached and stream.watermark is not None else command.time
    # even if the watermark stays, the event shows that the stream is alive
    event = WatermarkRaised(sequence, stream.tenant, stream.stream_id, watermark, now, stream.live)
    return Prepared(HeartbeatAcknowledgement(event.sequence, reached, event.watermark), event)
