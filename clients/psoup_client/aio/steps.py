"""The bridge between the code of the SDK, which calls and returns, and the event loop, which awaits.

    await run(function)  ──switch──>  function … connection.call … wait_for(reply)
            await reply  <──switch──                                    │
                         ──switch, with the reply──>  function goes on <┘

`run` executes a function in a greenlet, a stack of its own. Where the function waits, the greenlet gives the awaitable
to `run`, which awaits it in the caller's task. So one code serves threads and tasks. If the task is cancelled, the
function raises CancelledError where it waits. SQLAlchemy's asyncio extension works in the same way. A switch takes less
than a microsecond.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class _Steps(greenlet):
    """A function that runs in pieces, between its waits."""

    def __init__(self, function: Callable[..., Any], driver: greenlet) -> None:
        super().__init__(function, driver)
        self.driver = driver
        self.gr_context = driver.gr_context  # the caller's context variables, such as the span of a trace


def wait_for(awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable inside a function that `run` executes. Returns its result, or raises its error.

    Raises RuntimeError outside of such a function.
    """
    steps = getcurrent()
    if not isinstance(steps, _Steps):
        if close := getattr(awaitable, "close", None):
            close()
        raise RuntimeError(
            "this needs a call to the service, and an object of AsyncClient makes calls only in methods that are"
            " awaited: await a method of it first"
        )
    result: T = steps.driver.switch(awaitable)
    return result


async def run(function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
    """Execute a function that may use `wait_for`. Returns its result, or raises its error."""
    steps = _Steps(function, getcurrent())
    result: Any = steps.switch(*arguments, **named)
    while not steps.dead:
        try:
            value = await result
        except BaseException as problem:  # also the cancellation of the task
            result = steps.throw(problem)
        else:
            result = steps.switch(value)
    final: T = result
    return final
