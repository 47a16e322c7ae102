"""Requests for answers: the time, the windows and the truncation that every call for an answer has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from psoup_client.times import Instant, to_proto


class _Question(Protocol):
    """A message that asks for an answer."""

    @property
    def as_of(self) -> Timestamp: ...


_AnyQuestion = TypeVar("_AnyQuestion", bound=_Question)


def question_of(
    kind: Callable[..., _AnyQuestion],
    as_of: Instant | None,
    window: str,
    windows: Mapping[str, str] | None,
    accept_truncation: bool,
    **more: Any,
) -> _AnyQuestion:
    """Return a request of a `kind` with the arguments of `Query.invoke`; `more` are its other fields.

    Raises what `to_proto` raises for `as_of`.
    """
    request = kind(window=window, windows=windows, accept_truncation=accept_truncation, **more)
    if as_of is not None:
        request.as_of.CopyFrom(to_proto(as_of))
    return request
