"""The place at which a partition is read on. No record is skipped unless the user says so.

    no partition has a place      the first start: --from decides
    only this one has none        it was added: the first record
    Kafka has the place           go on there
    Kafka removed the records     RECORDS_GONE
    the topic was made anew       TOPIC_MADE_ANEW

The errors name the offsets that Kafka has, and --from as the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from psoup_client import FailedPrecondition, OutOfRange, PSoupError
from psoup_client.phrases import counted
from psoup_kafka.place import Place

From = Literal["earliest", "latest"] | int
"""The begin of a partition: at its first record, behind its last one, or at an offset."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The records of a partition that Kafka has: offsets `low` to `high` - 1.

    `time_before`: the timestamp of the record before the recorded place; None if it was not found.
    """

    topic: str
    partition: int
    low: int
    high: int
    time_before: int | None = None


def begin(bounds: Bounds, recorded: Place | None, chosen: From | None, first_start: bool) -> Place:
    """Return the place at which to read on. Raises OutOfRange and FailedPrecondition, which name the way out.

    `chosen`: --from, if it was given. `first_start`: whether no partition of the feed has a place.
    """
    if recorded is None:
        return _at(bounds, (chosen if chosen is not None else "earliest") if first_start else "earliest")
    problem = _lost(bounds, recorded)
    if problem is None:
        return recorded
    if chosen is None:
        raise problem
    return _at(bounds, chosen)


def check_new(name: str, stream: str, group: Mapping[int, int]) -> None:
    """Raise FailedPrecondition if the consumer group of a feed without positions shows that it ran before.

    `group`: the group's offsets by partition. An offset of 0 shows nothing.
    """
    taken = {partition: offset for partition, offset in sorted(group.items()) if offset}
    if not taken:
        return
    listed = ", ".join(f"partition {partition}: {offset}" for partition, offset in taken.items())
    raise FailedPrecondition(
        f"{stream!r} has no positions of the feed {name!r}, and its consumer group has offsets ({listed}): the stream"
        " was made anew, or the service has forgotten the positions after a week without the feed. --from earliest"
        " takes all records, perhaps again; --from latest later ones; --from OFFSET goes on at an offset",
        reason="POSITIONS_GONE",
        facts={"name": name},
    )


def _lost(bounds: Bounds, recorded: Place) -> PSoupError | None:
    """The error if this partition does not have the recorded place any more."""
    where = f"partition {bounds.partition} of topic {bounds.topic!r}"
    ways = (
        f"--from earliest goes on at offset {bounds.low}, --from latest at {bounds.high}, behind all records that are"
        " there now"
    )
    facts = {
        "partition": str(bounds.partition),
        "recorded": str(recorded.next),
        "low": str(bounds.low),
        "high": str(bounds.high),
    }
    changed = None not in (bounds.time_before, recorded.time) and bounds.time_before != recorded.time
    if recorded.next > bounds.high or changed:
        why = (
            f"the feed has taken the records before offset {recorded.next}, and {where} ends at {bounds.high}"
            if recorded.next > bounds.high
            else f"the record at offset {recorded.next - 1} of {where} is another one than the feed has taken"
        )
        return FailedPrecondition(
            f"{why}: the topic was deleted and made anew, or it is a topic of other brokers. If the new records are to"
            f" follow the old ones: {ways}. Else feed another stream, or take another --name",
            reason="TOPIC_MADE_ANEW",
            facts=facts,
        )
    if recorded.next < bounds.low:
        return OutOfRange(
            f"Kafka has removed records of {where} that the feed has not taken: it would go on at offset"
            f" {recorded.next}, and the first one that is left is {bounds.low}"
            f" ({counted(bounds.low - recorded.next, 'offset')} lost). To go on without them: {ways}. A greater"
            " retention.ms or retention.bytes of the topic keeps records for longer",
            reason="RECORDS_GONE",
            facts=facts,
        )
    return None


def _at(bounds: Bounds, chosen: From) -> Place:
    if chosen == "earliest":
        return Place(bounds.low)
    if chosen == "latest":
        return Place(bounds.high)
    if not bounds.low <= chosen <= bounds.high:
        raise OutOfRange(
            f"--from {chosen}: partition {bounds.partition} of topic {bounds.topic!r} has offsets {bounds.low} to"
            f" {bounds.high}; choose one of them, earliest or latest",
            reason="NO_SUCH_OFFSET",
            facts={"partition": str(bounds.partition)},
        )
    return Place(chosen)
