"""Idempotency keys: the requests that a stream has taken, so that a repeated request is taken once.

    key ──> digest of the body, event, counts, time        forgotten `key_idle` later, the oldest first

In the log a key is a producer of one batch. Its name has a form of its own (`key_name`). It needs no `since`,
because no key is forgotten before its time. A stream with too many keys refuses further ones.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from typing import NamedTuple

from psoup.config import EngineConfig
from psoup.errors import Conflict, InvalidInput, ResourceExhausted
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Push, Recall
from psoup.events.events import Pushed
from psoup.invariants import ensure
from psoup.retry_memory import KEY_FORM

KEY_BYTES = 500
"""The approximate bytes of a key in memory."""
_DIGEST_BYTES = 16
_NAME = re.compile(KEY_FORM, re.ASCII)
_PREFIX = KEY_FORM.partition("[")[0]


def key_name(key: str) -> str:
    """The name of the producer that stands for a key. O(characters)."""
    return _PREFIX + hashlib.blake2b(key.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def is_key(producer: str) -> bool:
    """Whether the name of a producer stands for a key."""
    return producer.startswith(_PREFIX) and _NAME.fullmatch(producer) is not None


class _Taken(NamedTuple):
    """A request that was taken: the digest of its body, its time, and the facts of its acknowledgement."""

    digest: bytes
    time: int
    sequence: int
    accepted: int
    late: int
    ahead: int
    watermark: int | None


class IdempotencyKeys:
    """The keys of one stream, the oldest first. `nbytes`: the bytes charged for them."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._known: OrderedDict[str, _Taken] = OrderedDict()

    def __len__(self) -> int:
        """The number of remembered keys."""
        return len(self._known)

    @property
    def nbytes(self) -> int:
        """The bytes that are charged for the keys."""
        return KEY_BYTES * len(self._known)

    def admit(self, command: Push | Recall, digest: bytes, now: int) -> PushAcknowledgement | None:
        """Return None for a new key, or the acknowledgement of the request that had the key. O(1).

        Raises Conflict for another body, and InvalidInput for an epoch or a number.
        """
        if command.epoch or command.number:
            raise InvalidInput(
                f"producer {command.producer!r} stands for an idempotency key, which has one batch: epoch 0, number 0;"
                " take another name",
                field="producer",
            )
        taken = self._standing(command.producer, now)
        if taken is None:
            return None
        if taken.digest != digest:
            raise Conflict(
                f"the idempotency key was used for another body, which is event {taken.sequence}; nothing was taken:"
                " send new rows with a new key",
                reason="KEY_REUSED",
                sequence=taken.sequence,
            )
        return PushAcknowledgement(taken.sequence, True, taken.accepted, taken.late, taken.ahead, taken.watermark)

    def check_room(self, now: int, full: ResourceExhausted | None) -> None:
        """Raise ResourceExhausted if one more key has no room. `full`: the error if the memory is used up, or None."""
        limit = self._config.idempotency_keys
        if full is None and len(self._known) < limit:
            return
        oldest = next(iter(self._known.values()), None)
        if oldest is not None and now - oldest.time > self._config.key_idle:
            return
        raise full or ResourceExhausted(
            f"the stream remembers {limit:,} idempotency keys, the most it may; send more rows in each request, or let"
            " the operator remember keys for a shorter time (idempotency_key_s)",
            reason="TOO_MANY_KEYS",
            limit=limit,
        )

    def record(self, event: Pushed) -> None:
        """Record a request that was taken."""
        refused = event.refused
        counts = event.accepted, len(refused.late), len(refused.ahead)
        self._known[event.producer] = _Taken(event.digest, event.time, event.sequence, *counts, event.watermark)
        self._known.move_to_end(event.producer)

    def forget_idle(self, now: int) -> None:
        """Forget the keys that are too old. O(forgotten)."""
        while self._known:
            name, oldest = next(iter(self._known.items()))
            if now - oldest.time <= self._config.key_idle:
                return
            del self._known[name]

    def state(self) -> dict[str, object]:
        """The state on which decisions depend, as plain values."""
        return {name: tuple(taken) for name, taken in self._known.items()}

    def check(self) -> None:
        """Check that keys have the form of keys, and are in the order of their events."""
        last = 0
        for name, taken in self._known.items():
            ensure(is_key(name), self, "the name of a producer is among the keys", name=name)
            ensure(taken.sequence > last, self, "keys are not in the order of their events", last=last)
            last = taken.sequence

    def _standing(self, name: str, now: int) -> _Taken | None:
        taken = self._known.get(name)
        return None if taken is None or now - taken.time > self._config.key_idle else taken
