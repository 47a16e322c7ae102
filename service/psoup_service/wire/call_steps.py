"""Common steps of all calls from the request to the last message, for every transport.

    `Calls.run` ─> read ─> of whom it may speak ─> one reply, before the deadline
                                               └─> messages, each gone in time, up to the age of a stream

A carrier (a transport's side of a call) reads the request and writes messages. All other steps are here, so that all
transports have the same limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from psoup.errors import Unavailable
from psoup_service.gate.audit import CHANGES
from psoup_service.gate.principal import Principal
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights
from psoup_service.wire.calls import Caller, Calls, Ended
from psoup_service.wire.limits import Limits
from psoup_service.wire.request_bodies import Deadlines, Receiving


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call by its name, "Service/Method". A `watching` call lasts as long as its client."""

    name: str
    watching: bool


class Carrier(Caller, Protocol):
    """A call on its way in and out. `request`: what it asks for, of a call that the audit log tells."""

    request: Any

    async def read(self) -> Any:
        """The request, parsed; raises what is wrong with it."""
        ...

    def read_done(self) -> None:
        """The request is not needed any more; harmless if it was never read."""
        ...

    async def write(self, message: Any) -> None:
        """Send a message; returns when there is room for the next one. Raises CancelledError if the client has left."""
        ...


class Answering:
    """Runs the calls of all carriers of a service."""

    def __init__(self, calls: Calls, limits: Limits, weights: Weights = ONE_TENANT) -> None:
        """`weights`: of tenants, which share the room for incoming requests."""
        self.calls = calls
        self.limits = limits
        self.receiving = Receiving(limits, weights, calls.meters)
        self._deadlines = Deadlines()

    async def one(
        self, call: NamedCall, carrier: Carrier, behaviour: Callable[[Any, Any], Awaitable[Any]], left: float | None
    ) -> Ended:
        """Run a call with one reply. `left`: seconds to its deadline, as its client says; None if he does not."""

        async def serve() -> Any:
            limits = self.limits
            with self._deadlines.within(
                limits.default_deadline_s if left is None else min(left, limits.longest_deadline_s)
            ):
                try:
                    return await behaviour(await self._request(call, carrier), carrier)
                finally:
                    carrier.read_done()

        return await self.calls.run(call.name, carrier, serve, timed=True, watching=call.watching)

    async def many(
        self, call: NamedCall, carrier: Carrier, behaviour: Callable[[Any, Any], AsyncIterator[Any]]
    ) -> Ended:
        """Run a call with a request and many messages."""

        async def serve() -> None:
            try:
                request = await self._request(call, carrier)
            finally:
                carrier.read_done()
            await self.write_all(behaviour(request, carrier), carrier)

        return await self.calls.run(call.name, carrier, serve, timed=False, watching=call.watching)

    async def write_all(self, messages: AsyncIterator[Any], carrier: Carrier) -> None:
        """Send the servicer's messages, for at most the age of a stream; a client that stalls is cut off sooner."""
        try:
            async with asyncio.timeout(self.limits.stream_age_s) as age:
                async for message in messages:
                    await self._moving(carrier.write(message))
        except TimeoutError:
            if not age.expired():
                raise
            raise cut("STREAM_AGE", f"the stream is {self.limits.stream_age_s:g} s old") from None
        finally:
            await messages.aclose()  # type: ignore[attr-defined]

    async def _request(self, call: NamedCall, carrier: Carrier) -> Any:
        request = within(carrier.principal, await carrier.read())
        if call.name in CHANGES:
            carrier.request = request
        return request

    async def _moving(self, step: Awaitable[Any]) -> None:
        """Wait for one message to go, up to the idle time."""
        idle = self._deadlines.within(self.limits.stream_idle_s)
        try:
            with idle:
                await step
        except TimeoutError:
            if not idle.expired:
                raise
            raise cut("STREAM_IDLE", f"nothing moved for {self.limits.stream_idle_s:g} s") from None


def within(principal: Principal, request: Any) -> Any:
    """The request; raises NotFound if it names a stream that is none of the principal's."""
    if principal.streams:
        stream = getattr(request, "stream", "") or getattr(request, "name", "")
        if stream:
            principal.check_stream(stream)
    return request


def cut(reason: str, why: str) -> Unavailable:
    """The error of a stream that is ended before its end."""
    return Unavailable(f"{why}, so it is ended; open a new one and go on", reason=reason)


def draining() -> Unavailable:
    """The error of a stream that waits for its client while the service ends."""
    return Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
