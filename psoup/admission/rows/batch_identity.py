"""The check of the names and numbers that a producer's batch carries: producer, epoch, number, source position."""

from __future__ import annotations

from psoup.derivation import PRODUCER_PREFIX
from psoup.errors import InvalidInput
from psoup.events.commands import STAGED, Push, Recall

MAX_NAME_BYTES = 256
"""The most bytes of a producer's name."""
MAX_SOURCE_BYTES = 256
"""The most bytes of a source position."""
_MAX_INT64 = 2**63 - 1


def check_identity(command: Push | Recall) -> None:
    """Raise InvalidInput for an invalid producer, epoch or number."""
    if command.producer.startswith(PRODUCER_PREFIX):
        raise InvalidInput(
            f"producer {command.producer[:MAX_NAME_BYTES]!r}: names that begin with {PRODUCER_PREFIX!r} are for the"
            " streams that the service derives; take another name",
            reason="RESERVED_PRODUCER",
            producer=command.producer[:MAX_NAME_BYTES],
        )
    if not command.producer and command.digest == STAGED:
        raise InvalidInput("a batch in parts needs a producer's name, so that it is taken once; give one")
    if len(command.producer.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise InvalidInput(f"the producer's name is longer than {MAX_NAME_BYTES} bytes; take a shorter one")
    if isinstance(command, Push):
        _check_source(command)
    number = command.number + max(len(command.shared) - 1, 0) if isinstance(command, Push) else command.number
    for label, value in (("epoch", command.epoch), ("number", number), ("since", command.since)):
        if not 0 <= value <= _MAX_INT64:
            raise InvalidInput(f"producer {command.producer!r}: {label} {value} is not between 0 and {_MAX_INT64}")
        if value and not command.producer:
            raise InvalidInput(f"{label} {value} without a producer's name means nothing; name the producer")


def _check_source(command: Push) -> None:
    """Raise InvalidInput for a source position that is too long, or has no producer."""
    for label, position in (("position", command.source), ("after", command.after)):
        if position is None or (label == "position" and not position):
            continue
        if not command.producer:
            raise InvalidInput(
                f"{label} {position[:MAX_SOURCE_BYTES]!r} is a source position, which is kept for a producer, and the"
                " batch names no producer; name one, or leave the position out",
                field=label,
            )
        if len(position) > MAX_SOURCE_BYTES:
            raise InvalidInput(
                f"producer {command.producer!r}: {label} has {len(position):,} bytes; a source position has at most"
                f" {MAX_SOURCE_BYTES}",
                field=label,
            )
