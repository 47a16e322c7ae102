"""Requests for answers: the time, the windows and the truncation that every call for an answer has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from psoup_client.columns.zones import instant
from psoup_client.times import Instant, to_proto

_Request = TypeVar("_Request")


def question_of(
    kind: Callable[..., _Request],
    as_of: Instant | None,
    zone: str | None,
    window: str,
    windows: Mapping[str, str] | None,
    accept_truncation: bool,
    **more: Any,
) -> _Request:
    """Build a request of the type `kind` from the arguments of `Query.invoke`. `more`: its other fields.

    `zone`: the zone of an `as_of` without one; None: UTC. Raises the errors of `to_proto` for `as_of`.
    """
    time = None if as_of is None else to_proto(instant(as_of, zone))
    return kind(as_of=time, window=window, windows=windows, accept_truncation=accept_truncation, **more)
