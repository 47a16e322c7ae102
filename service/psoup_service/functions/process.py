"""The service's end of the process in which functions of the operator run: calls with a time limit.

    evaluation, on any thread ──> one call at a time ──socket──> child: the function, over copies of its arguments
                                   │ no reply in time, or the child has died: it is killed, and that is a failure
                                   └ the third failure for a client: it is not called for that one for ten minutes

A function that hangs, or ends its process, blocks a thread and all waiting calls for one call's time. Such
failures are counted for each client, so that one client's calls do not take the function away from another. Arriving
tuples and upkeep have one count, for the life of the service. When that is reached, the queries leave the index and are
evaluated when a client invokes them.

A refused call raises FailedPrecondition; all other queries go on. A new child loads the same sources. If the sources
have changed since the service started, no function is called any more: kept results belong to the old functions.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from psoup.errors import FailedPrecondition, InvalidInput, PSoupError
from psoup.expressions import supplied_functions
from psoup.expressions.supplied_functions import Answer, Supplied, signature_of
from psoup.functions import FunctionRaised
from psoup.phrases import counted
from psoup.sql.supplied_names import make_known
from psoup_service.functions import messages

MOST_FAILURES = 3
"""The failures (hanging, or ending the process) after which a function is not called any more for one client."""
FORGIVEN_S = 600.0
"""Seconds after which a client's failures do not count any more."""
_START_S = 30.0
"""Seconds in which the child must start, in addition to the seconds of a call. It loads libraries."""
_NOT_CALLED = (
    f"for this client, and is called for it again {FORGIVEN_S / 60:g} minutes later",
    "while tuples came, and is called for them again after a restart",
)
_log = logging.getLogger(__name__)


class _Child:
    """A running child, and its HELLO message (`told`). Raises InvalidInput if it refuses the modules or dies."""

    def __init__(self, modules: Sequence[str], seconds: float, memory_mib: int) -> None:
        self.end, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "psoup_service.functions.child", str(theirs.fileno())]
        command += [str(seconds), str(memory_mib), *modules]
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        named = ", ".join(modules)
        try:
            _, content = messages.receive(self.end, time.monotonic() + _START_S + seconds)
            self.told = messages.facts(content)
        except (TimeoutError, messages.Gone) as problem:
            self.kill()
            reason = (
                f"did not load in {_START_S + seconds:g} s" if isinstance(problem, TimeoutError) else self._ending()
            )
            raise InvalidInput(f"the functions of {named} cannot be used: their process {reason}") from None
        if "error" in self.told:
            self.kill()
            raise InvalidInput(self.told["error"], reason="FUNCTIONS")

    def _ending(self) -> str:
        code = self._process.returncode
        return f"was ended by signal {-code}, or took too long" if code < 0 else f"ended with exit code {code}"

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.end.close()
        try:
            self._process.wait(0.05)  # it may have ended by itself
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class FunctionFailures:
    """Counts the failures of each function by client.

    The client None stands for arriving tuples and upkeep. `now`: seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._counts: dict[tuple[str | None, str], tuple[int, float]] = {}

    def of(self, client: str | None, name: str) -> int:
        """The number of failures that still count."""
        return self._counts.get((client, name), (0, 0.0))[0] if client is None or self._lately(client, name) else 0

    def add(self, client: str | None, name: str) -> int:
        """Count a failure and forget expired ones; returns the number that counts."""
        failures = self.of(client, name) + 1
        self._counts = {key: count for key, count in self._counts.items() if key[0] is None or self._lately(*key)}
        self._counts[client, name] = failures, self._now()
        return failures

    def _lately(self, client: str | None, name: str) -> bool:
        return self._now() - self._counts.get((client, name), (0, -FORGIVEN_S))[1] < FORGIVEN_S


class FunctionProcess:
    """The functions of some modules. `seconds`: the time of one call. Raises InvalidInput if they cannot be loaded."""

    def __init__(self, modules: Sequence[str], seconds: float, memory_mib: int) -> None:
        self._start = partial(_Child, tuple(modules), seconds, memory_mib)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._closed = False
        self._failures = FunctionFailures(time.monotonic)
        self._child: _Child | None = self._start()
        self._told = self._child.told
        self.functions = tuple(map(self._supplied, self._told["functions"]))

    def _supplied(self, facts: dict[str, Any]) -> Supplied:
        name = facts["signature"]
        return Supplied(signature_of(name), partial(self._call, name), facts["cost"], facts["about"])

    def install(self) -> None:
        """Make the functions known to statements of this process.

        Raises InvalidInput for a name that SQL already has.
        """
        make_known(self.functions)
        for function in self.functions:
            _log.info("a function was loaded", extra={"function": function.signature.shown, "about": function.about})

    def close(self) -> None:
        """End the child; calls are refused from then on. Idempotent."""
        with self._lock:
            if not self._closed and supplied_functions.installed() == tuple(sorted(self.functions, key=_name_of)):
                supplied_functions.install(())
            self._closed = True
            if self._child is not None:
                self._child.kill()
            self._child = None

    def _call(self, name: str, arrays: Sequence[pa.Array]) -> Answer:
        """Call a function in the child.

        Raises FailedPrecondition for a failure, FunctionRaised if the function raised.
        """
        call = messages.write_call(name, arrays)
        with self._lock:
            if self._closed:
                raise self._refused(name, "cannot be called any more: the service ends")
            client = supplied_functions.caller.get()
            if self._failures.of(client, name) >= MOST_FAILURES:
                raise self._refused(name, f"failed {counted(MOST_FAILURES, 'time')} {_NOT_CALLED[client is None]}")
            kind, content = self._asked(name, call)
        try:
            if kind == messages.VALUES:
                return messages.read_values(content)
            error = messages.facts(content).get("error", "")
        except messages.Gone:
            raise self._refused(name, "returned what cannot be read") from None
        if kind == messages.RAISED:
            raise FunctionRaised(error)
        raise FailedPrecondition(error, reason="FUNCTION_BROKEN", function=signature_of(name).name)

    def _asked(self, name: str, call: memoryview) -> tuple[int, bytes]:
        try:
            if self._child is None:
                self._child = self._started()
            until = time.monotonic() + self._seconds
            messages.send(self._child.end, messages.CALL, call, until)
            return messages.receive(self._child.end, until)
        except (TimeoutError, messages.Gone, PSoupError) as problem:
            if self._child is not None:
                self._child.kill()
                self._child = None
            reason = "ended the process in which it runs"
            if isinstance(problem, TimeoutError):
                reason = f"did not return in {self._seconds:g} s"
            elif isinstance(problem, PSoupError):
                reason = f"cannot be loaded again: {problem.message}"
            failures = self._failures.add(supplied_functions.caller.get(), name)
            _log.error("a function %s", reason, extra={"function": signature_of(name).shown, "failures": failures})
            raise self._refused(name, reason) from None

    def _started(self) -> _Child:
        child = self._start()
        if child.told != self._told:
            child.kill()
            raise InvalidInput("its module is not as it was when the service started; start the service again")
        return child

    def _refused(self, name: str, reason: str) -> FailedPrecondition:
        signature = signature_of(name)
        return FailedPrecondition(
            f"the function {signature.shown} {reason}; queries that need it are refused",
            reason="FUNCTION_FAILED",
            function=signature.name,
        )


def _name_of(function: Supplied) -> str:
    return function.signature.name
