"""The steps of every call, for every transport: limit, gate, turn, work, error, measurements.

    begin ─> place among the calls ─> gate ─> tenant's meters ─> its turn ─> the work ─> end: a reply, an error of the
                    └──────── PSoupError ──┴────────────┴──────────── CancelledError of `ender`, defects ──┘   tree, or
                                                                                                           the deadline

A failed call always ends with a documented error; INTERNAL means a defect, which is logged. The transport reads
requests and writes replies and errors (`psoup_service.wire.grpc_calls`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from psoup.errors import FailedPrecondition, Internal, PSoupError, Unavailable
from psoup.expressions import supplied_functions
from psoup_service.figures.call_notes import CallNotes
from psoup_service.figures.metrics import Metrics
from psoup_service.gate.call_turns import CallTurns
from psoup_service.gate.credentials import Gate
from psoup_service.gate.held_refusals import HeldRefusals
from psoup_service.gate.meters import NOT_METERED, Meters
from psoup_service.gate.principal import Principal
from psoup_service.host.frames import let_go
from psoup_service.host.push_pauses import PushPauses
from psoup_service.host.turns.giving_way import GivingWay
from psoup_service.wire.limits import Limits
from psoup_service.wire.status import DEADLINE, GONE, OK, code_of
from psoup_service.wire.under_way import CallsUnderWay
from psoup_service.wire.writing_calls import WRITING

_log = logging.getLogger(__name__)

_ALWAYS = frozenset({"Health/Check"})
"""Names of calls that skip limits, meters and turns: a busy service is still healthy."""

_NO_WATCH = _NO_TURN = nullcontext()

_NOT_NOW = frozenset({"STARTING", "DRAINING"})


class Caller(Protocol):
    """The caller's side of a call, as a servicer sees it. `principal`: the caller's identity, set by the gate."""

    principal: Principal
    protocol: ClassVar[str]
    """The protocol of the call: "grpc", "http", "pg" or "mcp"."""

    def peer(self) -> str:
        """The name of the connection. Senders with different names take turns."""
        ...

    def local(self) -> bool:
        """Whether the caller is on this machine."""
        ...

    def certificate_names(self) -> Sequence[str]:
        """The names in the client's certificate, the most important first; empty without a certificate."""
        ...

    def certificate_ends(self) -> int:
        """The end of the client's certificate, in microseconds since 1970. Called only if the certificate has names."""
        ...

    def authorization(self) -> str:
        """The value of the metadata `authorization`, "" if it is missing."""
        ...

    def traceparent(self) -> str:
        """The caller's span, as W3C Trace Context writes it; "" if the caller sends none."""
        ...

    def about(self) -> str:
        """The subject of the call, for the audit log; "" if it is not known."""
        ...


class Ended(NamedTuple):
    """The outcome of a call: a reply, an error, or "late" if the deadline passed."""

    reply: Any = None
    error: PSoupError | Literal["late"] | None = None


class Observers(Protocol):
    """The observers of calls (`psoup_service.wire.call_watch`)."""

    def begin(self, name: str, caller: Caller) -> CallNotes | None:
        """Begin the notes about a call, in its context; returns None if no observer wants them."""
        ...

    def ended(self, notes: CallNotes | None, name: str, caller: Caller, code: str, seconds: float | None) -> None:
        """Tell the observers that a call has ended. `seconds`: its duration; None for a call with many messages."""
        ...


class Calls:
    """Runs calls.

    `under_way`: counts open calls. `meters`: measures the use of each tenant. `turns`: orders the calls of tenants on
    the event loop.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        gate: Gate,
        meters: Meters,
        way: GivingWay,
        turns: CallTurns,
        pauses: PushPauses,
        observers: Observers,
        elsewhere: Callable[[], PSoupError | None],
    ) -> None:
        """`way`: learns of each call, so that long work of other tenants rests meanwhile.

        `turns`: each call waits here for its turn. `pauses`: learns of refused pushes. `observers`: learn of each call.
        `elsewhere`: returns the error of a call that writes, at a standby.
        """
        self._metrics = metrics
        self._gate = gate
        self.meters = meters
        self._way = way
        self.turns = turns
        self._pauses = pauses
        self._observers = observers
        self._elsewhere = elsewhere
        self._refusals = HeldRefusals()
        metrics.by_tenant(meters)
        self.under_way = CallsUnderWay(limits)
        metrics.open.set_function(lambda: self.under_way.open)

    def is_open(self) -> bool:
        """Whether callers need no credential. Raises Unavailable during a start, until the tokens are known."""
        return self._gate.is_open()

    async def run(
        self, name: str, caller: Caller, serve: Callable[[], Awaitable[Any]], *, timed: bool, watching: bool = False
    ) -> Ended:
        """Run a call from its beginning to its end.

        `timed`: the time of the call is measured. `watching`: the call lasts as long as its client, and has another
        limit. Raises CancelledError if the client has left.
        """
        started, code, ended = time.perf_counter(), OK, Ended()
        notes = self._observers.begin(name, caller)
        if supplied_functions.are_there():
            supplied_functions.caller.set(caller.peer())
        self.under_way.enter(watching)
        try:
            principal = self._gate.admit(name, caller)
            if name not in _ALWAYS:
                self.under_way.check(watching, partial(self.meters.has_few, principal.tenant, watching))
            metered = NOT_METERED if name in _ALWAYS else self.meters.call(principal.tenant, name, watching=watching)
            watched = self.under_way.watched(principal) if watching else _NO_WATCH
            with watched, metered, self._gate.under_way(principal, ender):
                ended = Ended(await self._in_turn(name, principal.tenant, serve, timed))
        except PSoupError as problem:
            error = _not_now(problem)
            code, ended = code_of(error).name, Ended(error=error)
            self._metrics.refused(error)
            if isinstance(error, Internal):
                _log.error("call failed", extra={"call": name, "reason": error.reason, "problem": error.message})
            let_go(problem)
            await self._refusals.hold(caller.principal.tenant, error)
        except TimeoutError:
            code, ended = DEADLINE, Ended(error="late")
        except (asyncio.CancelledError, GeneratorExit) as ending:
            cause = _cause(ending)
            code, ended = GONE if cause is None else code_of(cause).name, Ended(error=cause)
            if cause is None:
                raise
        except Exception as defect:
            error = Internal(f"{name} failed by a defect of the service ({type(defect).__name__})")
            code, ended = code_of(error).name, Ended(error=error)
            _log.exception("a defect ended a call", extra={"call": name})
            let_go(defect)
        finally:
            self.under_way.leave(watching)
            seconds = time.perf_counter() - started if timed else None
            self._observers.ended(notes, name, caller, code, seconds)
            self._count(name, caller, code, seconds)
        return ended

    def _count(self, name: str, caller: Caller, code: str, seconds: float | None) -> None:
        """Count a call that has ended, and record it in the audit log if that wants it."""
        self._pauses.ended(name, caller.principal.tenant, code)
        self._metrics.call_ended(name, code, caller.protocol, seconds)
        if self._gate.audit.wants(name, code, caller.principal):
            self._gate.tell(name, code, caller)

    async def _in_turn(self, name: str, tenant: str, serve: Callable[[], Awaitable[Any]], timed: bool) -> Any:
        """Wait for the tenant's turn, run the work of the call and return its result. Refuses to write at a standby."""
        if name in WRITING and (refusal := self._elsewhere()) is not None:
            raise refusal
        turn = _NO_TURN if name in _ALWAYS else await self.turns.come_in(tenant)
        with turn if timed else _NO_TURN, self._way.beside(tenant):
            return await serve()


def ender() -> Callable[[PSoupError], None]:
    """Return a function that ends the present call with an error, also while its client does not read.

    The function may be called from any thread.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "a call is a task"

    def end(error: PSoupError) -> None:
        with suppress(RuntimeError):  # the loop is closed, and so the call has ended
            loop.call_soon_threadsafe(task.cancel, error)

    return end


def _cause(ending: BaseException) -> PSoupError | None:
    """The error with which the `ender` of a call has cancelled it; None if the client has left."""
    cause = ending.args[0] if ending.args else None
    if not isinstance(cause, PSoupError):
        return None
    task = asyncio.current_task()
    assert task is not None, "a call is a task"
    task.uncancel()
    return cause


def _not_now(error: PSoupError) -> PSoupError:
    """Turn the error of a starting or draining host into Unavailable, so that the client tries again."""
    if isinstance(error, FailedPrecondition) and error.reason in _NOT_NOW:
        return Unavailable(error.message, reason=error.reason, **error.facts)
    return error
