"""Exactly once for each (producer, epoch, number): who sent what last, and what was answered.

    epoch 7:   0 1 2 3 4 5 | 6 = expected next           a greater epoch starts again at 0 and fences 7 off
                   '-----'
                   remembered: digest and acknowledgement, so that a repeat is answered and not taken again

Kept for one stream. `admit` only looks, `record` only changes; the state after `record` depends on the event alone.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from psoup.config import EngineConfig
from psoup.errors import Conflict, FailedPrecondition, InvalidInput, ResourceExhausted
from psoup.events import STAGED, Push, PushAcknowledgement, Pushed, Recall

MAX_NAME_BYTES = 256
_MAX_INT64 = 2**63 - 1


@dataclass(slots=True)
class _Producer:
    """`kept`: number -> (digest, sequence, accepted, late, ahead, watermark); contiguous, up to `expected`."""

    epoch: int
    expected: int
    last: int
    kept: dict[int, tuple[bytes, int, int, int, int, int | None]] = field(default_factory=dict)


class Producers:
    """The producers of one stream, the longest silent first."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._known: OrderedDict[str, _Producer] = OrderedDict()

    def admit(self, command: Push | Recall, digest: bytes, now: int) -> PushAcknowledgement | None:
        """None: the batch is next in line. An acknowledgement: it was taken before, and this was the answer.

        Raises FailedPrecondition for a gap, a fenced epoch, or a repeat too old to be recognised; Conflict for a
        repeat with another digest; ResourceExhausted for one producer too many. Changes nothing. O(1).
        """
        producer = self._standing(command.producer, now)
        if producer is None and len(self._known) >= self._config.producers and command.producer not in self._known:
            self._refuse_another(now)
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

    def record(self, event: Pushed) -> None:
        """Adopt a batch that was accepted, and forget the producers that were silent too long before it."""
        producer = self._standing(event.producer, event.time)
        if producer is None or producer.epoch != event.epoch:
            producer = self._known[event.producer] = _Producer(event.epoch, 0, event.time)
        refused = event.refused
        producer.kept[event.number] = (
            event.digest,
            event.sequence,
            event.accepted,
            len(refused.late),
            len(refused.ahead),
            event.watermark,
        )
        producer.kept.pop(event.number - self._config.kept_acknowledgements, None)
        producer.expected = event.number + 1
        producer.last = event.time
        self._known.move_to_end(event.producer)
        self._forget_idle(event.time)

    def state(self) -> dict[str, object]:
        """Everything that decides, as plain values."""
        return {name: (p.epoch, p.expected, p.last, dict(p.kept)) for name, p in self._known.items()}

    def check(self) -> None:
        """Remembered numbers are contiguous, end at the expected one and are not more than allowed."""
        for name, producer in self._known.items():
            numbers = list(producer.kept)
            assert numbers == list(range(producer.expected - len(numbers), producer.expected)), (name, producer)
            assert len(numbers) <= self._config.kept_acknowledgements, (name, len(numbers))

    def _standing(self, name: str, now: int) -> _Producer | None:
        producer = self._known.get(name)
        return None if producer is None or now - producer.last > self._config.producer_idle else producer

    def _remembered(self, command: Push | Recall, digest: bytes, producer: _Producer) -> PushAcknowledgement:
        kept = producer.kept.get(command.number)
        if kept is None:
            raise FailedPrecondition(
                f"producer {command.producer!r}, epoch {command.epoch}: number {command.number} was taken long ago, and"
                f" only the last {self._config.kept_acknowledgements} are remembered; the next is {producer.expected}",
                reason="NUMBER_TOO_OLD",
                producer=command.producer,
                epoch=command.epoch,
                expected=producer.expected,
            )
        known, sequence, accepted, late, ahead, watermark = kept
        if known != digest:
            raise Conflict(
                f"producer {command.producer!r}, epoch {command.epoch}: number {command.number} was used for another"
                " payload; nothing was taken, send new rows under a new number",
                reason="PAYLOAD_CONFLICT",
                producer=command.producer,
                epoch=command.epoch,
                number=command.number,
            )
        return PushAcknowledgement(sequence, True, accepted, late, ahead, watermark)

    def _refuse_another(self, now: int) -> None:
        oldest = next(iter(self._known.values()))
        if now - oldest.last > self._config.producer_idle:
            return
        raise ResourceExhausted(
            f"the stream remembers {len(self._known):,} producers, the most it may; use one of their names with a"
            " greater epoch, or wait until an idle one is forgotten",
            reason="TOO_MANY_PRODUCERS",
            limit=self._config.producers,
        )

    def _forget_idle(self, now: int) -> None:
        while self._known:
            name, producer = next(iter(self._known.items()))
            if now - producer.last <= self._config.producer_idle:
                return
            del self._known[name]


def check_identity(command: Push | Recall) -> None:
    """Raise InvalidInput for a producer, epoch or number that no batch can have."""
    if not command.producer and command.digest == STAGED:
        raise InvalidInput("a batch in parts needs a producer's name, so that it is taken once; give one")
    if len(command.producer.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise InvalidInput(f"the producer's name is longer than {MAX_NAME_BYTES} bytes; take a shorter one")
    for what, value in (("epoch", command.epoch), ("number", command.number)):
        if not 0 <= value <= _MAX_INT64:
            raise InvalidInput(f"producer {command.producer!r}: {what} {value} is not between 0 and {_MAX_INT64}")
        if value and not command.producer:
            raise InvalidInput(f"{what} {value} without a producer's name means nothing; name the producer")
