"""A batch: whether it is the producer's next, which of its rows are taken, and whether there is room for them."""

from __future__ import annotations

from psoup.admission.attachment import check_push
from psoup.admission.batches import NONE_REFUSED, in_event_time, in_system_time, payload_digest, read_columns
from psoup.admission.budget import Budget
from psoup.admission.catalog import KnownStream
from psoup.admission.heartbeats import latest_time
from psoup.admission.producers import check_identity
from psoup.columns import Batch, Column
from psoup.config import EngineConfig
from psoup.events.acknowledgements import Prepared, PushAcknowledgement
from psoup.events.commands import STAGED, Push
from psoup.events.events import Pushed, RefusedTuples


def decide_push(
    stream: KnownStream, command: Push, budget: Budget, config: EngineConfig, sequence: int, now: int
) -> Prepared:
    """What becomes of a push behind event `sequence`; raises what a refusal is. Changes nothing. O(bytes)."""
    check_push(stream.spec, stream.past)
    check_identity(command)
    columns, digest = None, command.digest
    needed = forgotten = 0
    if command.producer:
        if not digest:
            columns = read_columns(stream.spec, command.table, config)
            digest = payload_digest(columns)
        earlier = stream.producers.admit(command, digest, now, sequence)
        if earlier is not None:
            return Prepared(earlier)
        needed, forgotten = stream.producers.needed(command), stream.producers.making_way(command, now)
    if columns is None:
        columns = read_columns(stream.spec, command.table, config, staged=digest == STAGED)
    batch, refused, watermark = _taken(stream, command, columns, config, now)
    budget.check_batch(stream.spec, needed + (batch.nbytes if len(batch) else 0))
    counts = (len(batch), len(refused.late), len(refused.ahead), watermark)
    if not (command.producer or len(batch) or refused.count):
        return Prepared(PushAcknowledgement(sequence, False, *counts))
    event = Pushed(
        sequence + 1,
        stream.tenant,
        stream.stream_id,
        batch,
        refused,
        watermark,
        now,
        command.producer,
        command.epoch,
        command.number,
        digest,
        forgotten=forgotten,
    )
    return Prepared(PushAcknowledgement(event.sequence, False, *counts), event)


def _taken(
    stream: KnownStream, command: Push, columns: tuple[Column, ...], config: EngineConfig, now: int
) -> tuple[Batch, RefusedTuples, int | None]:
    """The rows that are taken, the times of those that are not, and the watermark after them."""
    if stream.spec.event_time:
        bound = latest_time(stream.spec, config, now)
        return in_event_time(stream.spec, columns, stream.watermark, bound, whole=command.whole)
    batch, watermark = in_system_time(columns, command.table.num_rows, stream.watermark, now)
    return batch, NONE_REFUSED, watermark
