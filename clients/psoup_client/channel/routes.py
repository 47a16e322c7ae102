"""The addresses of a client, and to which of them a call goes.

    Client("a:7433,b:7433")     read    a, and b if a is away or behind
                                write   a; if a is a standby it refuses (reason STANDBY), and the write goes to b

An address that is away or behind comes last for `REST_S` seconds. A call tries each address once without a pause. Then
all of them are tried again after a pause, as with one address. Some calls may not be repeated. They go to the next
address only if the one before has certainly done nothing.

gRPC can try several addresses of one target itself. But these share one name for TLS and one token. Writes would go to
a standby for ever, because it answers. So each address has a channel of its own. It connects with the first call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psoup_client.channel.token import CallToken
from psoup_client.errors import FailedPrecondition, PSoupError, ServerFault, Unavailable
from psoup_client.no_reply import among_several

REST_S = 10.0
"""Seconds for which an address that is away or behind comes after all addresses that are not."""

STANDBY = "STANDBY"
"""The reason for which a standby refuses a write."""

_NO_WRITES = frozenset({STANDBY, "COPY_BEHIND"})
"""The reasons for which a service refuses a write, and takes reads. With COPY_BEHIND it cannot reach the storage of its
copy. A standby may have been promoted meanwhile.
"""

_DID_NOTHING = frozenset({STANDBY, "STANDBY_BEHIND", "STARTING"})
"""The reasons that a service gives only before it begins with a call."""

_AWAY = _DID_NOTHING | _NO_WRITES | {Unavailable.reason, "DRAINING", "COPY_FENCED", "FAILED"}
"""The reasons for which a call goes on at the next address. `Unavailable.reason`: no service answers."""


class Mark(NamedTuple):
    """The last failure at an address. `at`: its time on the monotonic clock, in seconds."""

    at: float
    error: PSoupError


@dataclass(slots=True, eq=False)
class Route:
    """The service at one address. `place`: its number among the addresses of the client, from 0."""

    place: int
    address: str
    token: CallToken
    away: Mark | None = None
    """Why it did not answer, or was behind; None once it has answered."""
    refused: Mark | None = None
    """Its refusal of a write; None once it has taken one."""


class Method:
    """A call of a stub that can be sent to each of several addresses. Called itself, it is sent to the first.

    `writes`: whether a service that takes reads has refused it.
    """

    __slots__ = ("at", "writes")

    def __init__(self, at: Sequence[Any]) -> None:
        self.at = at
        self.writes = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Send the call to the first address."""
        return self.at[0](*arguments, **named)


class Channels:
    """Several channels in the place of one, for gRPC's stubs: each call of a stub is a `Method`."""

    def __init__(self, channels: Sequence[Any]) -> None:
        self.unary_unary = _each(channels, "unary_unary")
        self.unary_stream = _each(channels, "unary_stream")
        self.stream_unary = _each(channels, "stream_unary")
        self.stream_stream = _each(channels, "stream_stream")


def _each(channels: Sequence[Any], kind: str) -> Callable[..., Method]:
    return lambda *arguments, **named: Method([getattr(each, kind)(*arguments, **named) for each in channels])


def at(method: Any, route: Route) -> Any:
    """The call of a stub at an address. With one address the stub has no `Method`."""
    return method.at[route.place] if isinstance(method, Method) else method


class Routes:
    """The addresses of a client. Any thread may use it."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self.several = len(routes) > 1
        self.last = routes[0]
        """The address that answered last."""

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def best(self, method: Any, tried: Sequence[Route] = ()) -> Route | None:
        """Choose the address for a call, not one of those `tried`. None if no other is left.

        The first in the user's order that is fit for it. If none is, the one that failed the longest time ago.
        """

        if not self.several:
            return None if tried else self._routes[0]

        def order(route: Route) -> tuple[bool, float]:
            mark = _mark(route, method)
            return (False, route.place) if mark is None else (True, mark.at)

        return min((route for route in self._routes if route not in tried), key=order, default=None)

    def answered(self, route: Route, method: Any) -> None:
        """Note that an address has answered a call."""
        self.last, route.away = route, None
        if isinstance(method, Method) and method.writes:
            route.refused = None

    def failed(self, route: Route, method: Any, error: PSoupError) -> PSoupError:
        """Note that a call has failed at an address. Returns the error for the caller.

        It names each address if none has been fit for the call for `REST_S` seconds. It is Unavailable, so that the
        caller repeats the call, unless all addresses are standbys.
        """
        if not self.several or not is_away(error):
            return error
        mark = Mark(time.monotonic(), error)
        if error.reason in _NO_WRITES:
            method.writes, route.refused, route.away = True, mark, None
        else:
            route.away = mark
        marks = [(each, _mark(each, method)) for each in self._routes]
        recent = [(each.address, mark.error) for each, mark in marks if mark and mark.at > time.monotonic() - REST_S]
        if len(recent) == len(marks):
            return _together(recent)
        return error if isinstance(error, Unavailable) else _repeatable(error, error.message)


class Trip:
    """The addresses that one call tries: each once, then all of them again. `repeats`: whether it may be sent twice."""

    def __init__(self, routes: Routes, method: Any, *, repeats: bool = True) -> None:
        self._routes, self._method, self._repeats = routes, method, repeats
        self._tried: list[Route] = []
        self.route = self._choose()
        self.error: PSoupError
        """The error for the caller, once the call does not go on."""

    def goes_on(self, error: PSoupError, *, was_sent: bool) -> bool:
        """Note that the call has failed at its address. Returns whether it goes to the next address now.

        `was_sent`: whether the call may have reached a service.
        """
        self.error = self._routes.failed(self.route, self._method, error)
        self._tried.append(self.route)
        if is_away(error) and (self._repeats or not may_be_done(error, was_sent=was_sent)):
            following = self._routes.best(self._method, self._tried)
            if following is not None:
                self.route = following
                return True
        self._tried.clear()
        self.route = self._choose()
        return False

    def _choose(self) -> Route:
        route = self._routes.best(self._method)
        assert route is not None, "a client has an address"
        return route


def is_away(error: PSoupError) -> bool:
    """Whether another address may take the call."""
    return isinstance(error, Unavailable | FailedPrecondition | ServerFault) and error.reason in _AWAY


def may_be_done(error: PSoupError, *, was_sent: bool) -> bool:
    """Whether a service may have done what a failed call asks for, or a part of it."""
    return was_sent and error.reason not in _DID_NOTHING


def _mark(route: Route, method: Any) -> Mark | None:
    """The last reason for which an address is not fit for a call, or None.

    It is fit again some time after it was away. A standby does not become fit for writes by itself.
    """
    away, refused = route.away, route.refused if isinstance(method, Method) and method.writes else None
    if away is not None and away.at <= time.monotonic() - REST_S:
        away = None
    return away if refused is None or (away is not None and away.at > refused.at) else refused


def _together(failures: Sequence[tuple[str, PSoupError]]) -> PSoupError:
    """The error of a call that no address takes. `failures`: each address with its error."""
    first = next((error for _, error in failures if error.reason != STANDBY), failures[0][1])
    lines = "".join(f"\n    {address}: {among_several(error.message)}" for address, error in failures)
    message = f"none of the {len(failures)} addresses takes the call:{lines}"
    if first.reason == STANDBY:
        return FailedPrecondition(message, reason=STANDBY, facts=first.facts)
    return _repeatable(first, message)


def _repeatable(error: PSoupError, message: str) -> Unavailable:
    return Unavailable(message, reason=error.reason, facts=error.facts, retry_after=error.retry_after)
