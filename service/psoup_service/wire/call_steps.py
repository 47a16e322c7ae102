"""Common steps of all calls from the request to the last message, for every transport.

    `Calls.run` ─> read ─> check of its stream ──> one reply, before the deadline
                                               └─> messages, each gone in time, up to the age of a stream

A carrier (a transport's side of a call) reads the request and writes messages. All other steps are here, so that all
transports have the same limits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from psoup.errors import Unavailable
from psoup_service.figures.call_notes import NOTES, WorkTime
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
    """The transport's side of a call. `request`: the request, set only for calls that the audit log records."""

    request: Any

    async def read(self) -> Any:
        """Read and parse the request. Raises a PSoupError if the request is refused."""
        ...

    def read_done(self) -> None:
        """Give back the room of the request, which is not needed any more.

        Does nothing if the request was never read.
        """
        ...

    async def write(self, message: Any) -> None:
        """Send a message; returns when there is room for the next one. Raises CancelledError if the client has left."""
        ...


PAYLOADS = frozenset(
    {
        "IngestService/Push",
        "IngestService/PushRows",
        "StagingService/AddPart",
        "MatchingService/Match",
        "QueryService/RegisterMany",
    }
)
"""Calls whose requests may be long. They are freed before the call ends, so that notes must not hold them."""


class Answering:
    """Runs the calls of all carriers of a service."""

    def __init__(self, calls: Calls, limits: Limits, weights: Weights = ONE_TENANT) -> None:
        """`weights`: the tenants' shares of the room for incoming requests."""
        self.calls = calls
        self.limits = limits
        self.receiving = Receiving(limits, weights, calls.meters)
        self._deadlines = Deadlines()

    async def one(
        self, call: NamedCall, carrier: Carrier, behaviour: Callable[[Any, Any], Awaitable[Any]], left: float | None
    ) -> Ended:
        """Run a call with one reply. `left`: seconds to the deadline that the client set; None without a deadline."""

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
        self,
        call: NamedCall,
        carrier: Carrier,
        behaviour: Callable[[Any, Any], AsyncIterator[Any]],
        first_s: float = math.inf,
    ) -> Ended:
        """Run a call with one request and many replies. `first_s`: the deadline of the first reply, in seconds."""

        async def serve() -> None:
            try:
                request = await self._request(call, carrier)
            finally:
                carrier.read_done()
            await self.write_all(behaviour(request, carrier), carrier, first_s)

        return await self.calls.run(call.name, carrier, serve, timed=False, watching=call.watching)

    async def write_all(self, messages: AsyncIterator[Any], carrier: Carrier, first_s: float = math.inf) -> None:
        """Send the servicer's messages. `first_s`: the deadline of the first one, in seconds.

        Raises Unavailable when the stream reaches its greatest age, or when a message waits too long for its client.
        Raises TimeoutError if the first message is late.
        """
        work = WorkTime()
        try:
            async with asyncio.timeout(self.limits.stream_age_s) as age:
                with self._deadlines.within(first_s) if first_s < math.inf else nullcontext():
                    message = await anext(messages, None)
                while message is not None:
                    work.pause()
                    await self._moving(carrier.write(message))
                    work.go_on()
                    message = await anext(messages, None)
        except TimeoutError:
            if not age.expired():
                raise
            raise cut("STREAM_AGE", f"the stream is {self.limits.stream_age_s:g} s old") from None
        finally:
            work.pause()
            await messages.aclose()  # type: ignore[attr-defined]

    async def _request(self, call: NamedCall, carrier: Carrier) -> Any:
        request = within(carrier.principal, await carrier.read())
        if call.name in CHANGES:
            carrier.request = request
        notes = NOTES.get()
        if notes is not None:
            notes.stream = getattr(request, "stream", "")
            notes.request = None if call.name in PAYLOADS else request
        return request

    async def _moving(self, step: Awaitable[Any]) -> None:
        """Wait until a message is sent. Raises Unavailable after `stream_idle_s` seconds."""
        idle = self._deadlines.within(self.limits.stream_idle_s)
        try:
            with idle:
                await step
        except TimeoutError:
            if not idle.expired:
                raise
            raise cut("STREAM_IDLE", f"nothing moved for {self.limits.stream_idle_s:g} s") from None


def within(principal: Principal, request: Any) -> Any:
    """Return the request. Raises NotFound if it names a stream that the principal may not use."""
    if principal.streams:
        stream = getattr(request, "stream", "") or getattr(request, "name", "")
        if stream:
            principal.check_stream(stream)
    return request


def cut(reason: str, why: str) -> Unavailable:
    """The error for a stream that the service ends early."""
    return Unavailable(f"{why}, so it is ended; open a new one and go on", reason=reason)


def draining() -> Unavailable:
    """The error of a stream that waits for its client while the service ends."""
    return Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
