"""The time domains of the streams of a statement: streams of two domains have no NOW in common.

event time               a column has the time of a tuple.
system time              the service's clock has it.
derived, system time     the clock had the times of the tuples that a row was derived from. NOW waits for the pump.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.model import StreamSpec
from psoup.plan.inputs import Source

EVENT_TIME, SYSTEM_TIME, DERIVED_SYSTEM_TIME = "event time", "system time", "derived, system time"


class Mixed(NamedTuple):
    """Two streams of different domains, as a message and a hint. `place`: the place in FROM of the second."""

    message: str
    hint: str
    place: int


def time_domain(spec: StreamSpec) -> str:
    """The time domain of a stream, in words."""
    if spec.derived is not None and not spec.derived.event_time:
        return DERIVED_SYSTEM_TIME
    return EVENT_TIME if spec.event_time else SYSTEM_TIME


def mixed_domains(leaves: Sequence[Source]) -> Mixed | None:
    """The first two streams of different time domains. None if all have one. Tables have no part in it."""
    by_domain = {time_domain(leaf.spec): leaf for leaf in leaves if leaf.spec.table is None}
    if len(by_domain) < 2:
        return None
    if DERIVED_SYSTEM_TIME in by_domain:
        derived = by_domain[DERIVED_SYSTEM_TIME]
        other = next(leaf for domain, leaf in by_domain.items() if domain != DERIVED_SYSTEM_TIME)
        return Mixed(
            f"{derived.spec.name!r} is derived from the time of the service's clock, and {other.spec.name!r} is not:"
            " they have no NOW in common",
            f"derive a stream from {other.spec.name} as well, and join the two derived streams"
            if time_domain(other.spec) == SYSTEM_TIME
            else f"create the sources of {derived.spec.name} with TIMESTAMP BY a column",
            other.place,
        )
    timed, other = by_domain[EVENT_TIME], by_domain[SYSTEM_TIME]
    return Mixed(
        f"stream {timed.spec.name!r} has a time of its own and {other.spec.name!r} that of the service's clock: they"
        " have no NOW in common",
        f"derive or query each of them by itself, or create {other.spec.name} again with TIMESTAMP BY a column",
        other.place,
    )
