"""Exactly-once pushes: the last batches of each producer by (epoch, number), with their acknowledgements.

    epoch 7:   0 1 2 3 4 5 | 6 = expected next           a greater epoch starts at 0, and fences epoch 7
                   '-----'
                   remembered: digest and acknowledgement, so that a repeat is answered but not accepted twice

    event  … 40 … 52 … 61 … 70 …        producers by their last batches, the longest silent first
           a     b | c     d            a and b made way for others: the horizon is 52

A producer is forgotten after a long idle time. It is forgotten earlier if there are too many producers, or if its
tenant's producers take too much memory (`MemoryBudget.full_of_producers`). Its client may still send a batch again. So
as soon as the horizon has moved, a producer with an unknown name must prove that it is new. Its client names an event
(`since`) that happened before it first sent number 0. This event must be after the horizon. All batches of forgotten
producers are at or before the horizon, so no batch is accepted twice.

Idempotency keys are producers of one batch, in a table of their own (`psoup.admission.rows.idempotency_keys`).

Each stream has one such table. Only `record` changes it. The state depends only on events. So the log must keep the
remembered batches, and the last event that moved the horizon.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from psoup.admission.rows.idempotency_keys import KEY_BYTES, IdempotencyKeys, is_key
from psoup.config import EngineConfig
from psoup.errors import Conflict, FailedPrecondition, NotFound, ResourceExhausted
from psoup.events.acknowledgements import ProducerAcknowledgement, PushAcknowledgement
from psoup.events.commands import Locate, Push, Recall
from psoup.events.events import Pushed
from psoup.invariants import ensure
from psoup.values.digests import comparable

PRODUCER_BYTES = 1_000
"""Bytes of a producer in memory, as measured, without its acknowledgements."""
ACKNOWLEDGEMENT_BYTES = 300
"""Bytes of each remembered acknowledgement of a producer, as measured, and the most bytes of its source position."""

_Kept = tuple[bytes, int, int, int, int, int | None, int]
"""A remembered batch: its digest, and sequence, accepted, late, ahead, watermark and first_row as acknowledged."""


@dataclass(slots=True)
class _KnownProducer:
    """A remembered producer. `expected`: the number of its next batch. `rows`: as in ProducerAcknowledgement.

    `last`, `sequence`: the time and the event of its last batch. `kept`: the last batches by number, without a gap.
    `source`: the source position, b"" without one.
    """

    epoch: int
    expected: int
    last: int
    sequence: int
    rows: int | None = None
    source: bytes = b""
    kept: dict[int, _Kept] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES * (len(self.kept) + bool(self.source))


class Producers:
    """The producers of one stream, the longest silent first. `nbytes`: the bytes charged for them."""

    def __init__(self, config: EngineConfig) -> None:
        self.nbytes = 0
        self._config = config
        self._known: OrderedDict[str, _KnownProducer] = OrderedDict()
        self._keys = IdempotencyKeys(config)
        self._horizon = 0
        self._moved = 0
        """The time when the horizon last moved. After the idle time of producers the horizon no longer matters."""

    def __len__(self) -> int:
        """The number of remembered producers, without idempotency keys."""
        return len(self._known)

    def __contains__(self, name: str) -> bool:
        """Whether a batch of this name adds no producer: it is known, or it stands for an idempotency key."""
        return name in self._known or is_key(name)

    def admit(self, command: Push | Recall, digest: bytes, now: int, sequence: int) -> PushAcknowledgement | None:
        """Return None for the producer's next batch, or the acknowledgement of a batch that was accepted before.

        `sequence`: the sequence of the last event. Raises FailedPrecondition for a gap, a fenced epoch, or a repeat of
        a batch that was forgotten. An unknown producer that may be a forgotten one gets this error, too.
        Raises Conflict for a repeat with another digest, and ResourceExhausted for one producer too many. O(1).
        """
        if is_key(command.producer):
            return self._keys.admit(command, digest, now)
        producer = self._standing(command.producer, now)
        if producer is None:
            self._check_not_forgotten(command, now, sequence)
            self.making_way(command, now)
        if producer is not None and command.epoch < producer.epoch:
            raise FailedPrecondition(
                f"producer {command.producer!r} is fenced: epoch {command.epoch} is over, epoch {producer.epoch} has"
                " begun; another instance runs under this name, or choose a greater epoch",
                reason="EPOCH_FENCED",
                producer=command.producer,
                epoch=producer.epoch,
            )
        same_epoch = producer is not None and command.epoch == producer.epoch
        expected = producer.expected if producer is not None and same_epoch else 0
        if command.number == expected:
            return None
        if command.number > expected:
            raise FailedPrecondition(
                f"producer {command.producer!r}, epoch {command.epoch}: number {command.number} leaves a gap, number"
                f" {expected} is expected; send that one first",
                reason="NUMBER_GAP",
                producer=command.producer,
                epoch=command.epoch,
                expected=expected,
            )
        assert producer is not None
        return self._remembered(command, digest, producer)

    def making_way(self, command: Push | Recall, now: int, full: ResourceExhausted | None = None) -> int:
        """The event up to which producers must be forgotten, so that this batch has room. 0 if none must be forgotten.

        `full`: the error if the tenant's producers may take no more memory, or None. The longest silent producers make
        way, at most two, as they take more memory than a batch needs. If they have not been silent for long enough,
        raises `full`, or ResourceExhausted for one producer too many.
        """
        if is_key(command.producer):
            self._keys.check_room(now, full)
            return 0
        is_known = command.producer in self._known
        if full is None and (is_known or len(self._known) < self._config.producers):
            return 0
        freed, needed = 0, 0 if full is None or isinstance(command, Recall) else self.needed(command)
        for name, oldest in self._known.items():
            if not freed and now - oldest.last > self._config.producer_idle:
                return 0
            rested = now - oldest.last >= self._config.producer_rest
            if not rested or name == command.producer or not (is_known or command.since):
                break
            freed += oldest.nbytes
            if freed >= needed:
                return oldest.sequence
        raise full or ResourceExhausted(
            f"the stream remembers {len(self._known):,} producers, the most it may; use one of their names with a"
            " greater epoch, say since which event this producer is new (`since`), or wait until an idle one is"
            " forgotten",
            reason="TOO_MANY_PRODUCERS",
            limit=self._config.producers,
        )

    def position(self, command: Locate, now: int) -> ProducerAcknowledgement:
        """The epoch of a producer, and the number of its next batch. Raises NotFound for an unknown producer. O(1)."""
        producer = self._standing(command.producer, now)
        if producer is None:
            raise NotFound(
                f"nothing is known of producer {command.producer!r} of stream {command.stream!r}: it has sent nothing,"
                " or it was forgotten, as it was silent for long or made way for others; a name that was in use goes"
                " on with a greater epoch, from what the stream has of it",
                reason="UNKNOWN_PRODUCER",
                producer=command.producer,
                stream=command.stream,
            )
        return ProducerAcknowledgement(
            producer.sequence, False, producer.epoch, producer.expected, producer.rows, producer.last, producer.source
        )

    def of_pump(self, name: str) -> tuple[int, int | None]:
        """The number of the next batch of a pump, and the rows that it has sent. 0 and 0 if it is not known."""
        producer = self._known.get(name)
        return (0, 0) if producer is None else (producer.expected, producer.rows)

    def sent_before(self, command: Push) -> int | None:
        """The number of rows that the producer has sent in its epoch before this batch. None if it is not known."""
        return self._known[command.producer].rows if command.number else 0

    def source_after(self, command: Push, now: int) -> bytes:
        """The source position that is recorded after this batch; b"" if there is none. O(1).

        Raises FailedPrecondition if the batch is to follow another position than the recorded one.
        """
        producer = self._standing(command.producer, now)
        recorded = b"" if producer is None else producer.source
        if command.after is None or command.after == recorded:
            return command.source or recorded
        following = f"source position {command.after!r}" if command.after else "no source position"
        raise FailedPrecondition(
            f"producer {command.producer!r}: number {command.number} follows {following}, and"
            f" {repr(recorded) if recorded else 'none'} is recorded; nothing was taken: read the recorded position"
            " (GetProducer), and send what comes after it in the source",
            reason="SOURCE_POSITION",
            producer=command.producer,
            recorded=recorded.hex(),
        )

    def needed(self, command: Push | Pushed) -> int:
        """Bytes charged for remembering a push, without the bytes of producers that are forgotten for it. O(1)."""
        if is_key(command.producer):
            return KEY_BYTES
        producer = self._known.get(command.producer)
        count, limit = len(command.shared) or 1, self._config.kept_acknowledgements
        if producer is None:
            return PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES * (min(count, limit) + bool(command.source))
        first = bool(command.source) and not producer.source
        return ACKNOWLEDGEMENT_BYTES * (first + min(count, limit - len(producer.kept)))

    def record(self, event: Pushed) -> None:
        """Record an accepted batch. Forget the producers that made room for it, or were silent for too long."""
        self._move_horizon(event)
        self.nbytes -= self._keys.nbytes
        self._keys.forget_idle(event.time)
        if is_key(event.producer):
            self._keys.record(event)
        self.nbytes += self._keys.nbytes
        if not is_key(event.producer):
            self._record(event)
        self._forget_idle(event.time)

    def _record(self, event: Pushed) -> None:
        producer = self._standing(event.producer, event.time)
        if producer is None or producer.epoch != event.epoch or producer.expected != event.number:
            self._forget(event.producer)
            producer = self._known[event.producer] = _KnownProducer(
                event.epoch, event.number, event.time, event.sequence
            )
            self.nbytes += PRODUCER_BYTES
        self._keep(producer, event)
        self._known.move_to_end(event.producer)

    def state(self) -> dict[str, object]:
        """The state on which decisions depend, as plain values."""
        producers = {
            name: (p.epoch, p.expected, p.last, p.sequence, p.rows, p.source, dict(p.kept))
            for name, p in self._known.items()
        }
        return {"horizon": (self._horizon, self._moved), "known": producers, "keys": self._keys.state()}

    def check(self) -> None:
        """Check that remembered numbers have no gap, end before the expected one, and are not too many."""
        self._keys.check()
        total = sum(producer.nbytes for producer in self._known.values()) + self._keys.nbytes
        ensure(self.nbytes == total, self, "it is charged otherwise than it holds", charged=self.nbytes, held=total)
        last = self._horizon
        for producer in self._known.values():
            numbers, expected = list(producer.kept), producer.expected
            wanted = list(range(expected - len(numbers), expected))
            ensure(numbers == wanted, self, "remembered numbers have a gap", numbers=numbers, expected=expected)
            limit = self._config.kept_acknowledgements
            ensure(
                len(numbers) <= limit, self, "more numbers are remembered than allowed", count=len(numbers), most=limit
            )
            order = producer.sequence > last
            ensure(
                order, self, "producers are not in the order of their last batches", last=last, next=producer.sequence
            )
            last = producer.sequence

    def _standing(self, name: str, now: int) -> _KnownProducer | None:
        producer = self._known.get(name)
        return None if producer is None or now - producer.last > self._config.producer_idle else producer

    def _check_not_forgotten(self, command: Push | Recall, now: int, sequence: int) -> None:
        """Raise FailedPrecondition if an unknown producer may be a forgotten one, as it could send a batch twice."""
        if command.since > sequence:
            raise FailedPrecondition(
                f"producer {command.producer!r} is new since event {command.since}, and the last event is {sequence}:"
                " it began with another state of this service; take a greater epoch",
                reason="UNKNOWN_SEQUENCE",
                producer=command.producer,
                sequence=sequence,
            )
        if command.since >= self._horizon or now - self._moved > self._config.producer_idle:
            return
        raise FailedPrecondition(
            f"producer {command.producer!r} is not known, and may be one that was forgotten: the stream had more"
            f" producers than it remembers, and forgot those without a batch after event {self._horizon}. Whether"
            f" number {command.number} of epoch {command.epoch} was taken cannot be told, and it was not taken now; if"
            " it was never sent before, send it as number 0 of a greater epoch, and say `since` which event that is so",
            reason="PRODUCER_FORGOTTEN",
            producer=command.producer,
            epoch=command.epoch,
            number=command.number,
            sequence=sequence,
        )

    def _remembered(self, command: Push | Recall, digest: bytes, producer: _KnownProducer) -> PushAcknowledgement:
        record = producer.kept.get(command.number)
        if record is None:
            raise FailedPrecondition(
                f"producer {command.producer!r}, epoch {command.epoch}: number {command.number} was taken long ago, and"
                f" only the last {self._config.kept_acknowledgements} are remembered; the next is {producer.expected}",
                reason="NUMBER_TOO_OLD",
                producer=command.producer,
                epoch=command.epoch,
                expected=producer.expected,
            )
        digest_then, sequence, accepted, late, ahead, watermark, first_row = record
        if not (digest_then == digest if comparable(digest_then, digest) else _as_many(command, record)):
            raise Conflict(
                f"producer {command.producer!r}, epoch {command.epoch}: number {command.number} was used for another"
                " payload; nothing was taken, send new rows under a new number",
                reason="PAYLOAD_CONFLICT",
                producer=command.producer,
                epoch=command.epoch,
                number=command.number,
            )
        return PushAcknowledgement(sequence, True, accepted, late, ahead, watermark, first_row)

    def _keep(self, producer: _KnownProducer, event: Pushed) -> None:
        refused, first_row = event.refused, 0
        late, ahead = len(refused.late), len(refused.ahead)
        for number, (digest, rows) in enumerate(event.batches, event.number):
            producer.kept[number] = (digest, event.sequence, rows, late, ahead, event.watermark, first_row)
            gone = producer.kept.pop(number - self._config.kept_acknowledgements, None)
            self.nbytes += ACKNOWLEDGEMENT_BYTES if gone is None else 0
            producer.expected, first_row = number + 1, first_row + rows
        producer.last, producer.sequence = event.time, event.sequence
        self.nbytes += ACKNOWLEDGEMENT_BYTES * (bool(event.source) - bool(producer.source))
        producer.source = event.source
        producer.rows = None if event.before is None else event.before + event.accepted + refused.count

    def _move_horizon(self, event: Pushed) -> None:
        """Forget the producers that made room for the event's batch, and set the horizon to the last of them."""
        if not event.forgotten:
            return
        self._horizon = event.forgotten
        self._moved = event.time
        while self._known:
            name, producer = next(iter(self._known.items()))
            if producer.sequence > event.forgotten:
                return
            self._forget(name)

    def _forget_idle(self, now: int) -> None:
        while self._known:
            name, producer = next(iter(self._known.items()))
            if now - producer.last <= self._config.producer_idle:
                return
            self._forget(name)

    def _forget(self, name: str) -> None:
        producer = self._known.pop(name, None)
        self.nbytes -= 0 if producer is None else producer.nbytes


def _as_many(command: Push | Recall, record: _Kept) -> bool:
    """Whether a repeated batch has as many rows as the accepted batch."""
    _, _, accepted, late, ahead, _, _ = record
    return isinstance(command, Push) and command.table.num_rows == accepted + late + ahead
