"""Waiting, locks and work at the same time, as the SDK needs them: with threads, or with tasks of an event loop.

    pause          wait for some seconds                      before the next attempt at a call
    lock           one caller at a time, also during calls    the numbers of a stream's pushes
    event          wait until it is set, or for some time     `close` of a watch
    condition      wait until a change                        the window of a producer
    start          run a function beside the caller           the sender of a producer
    ahead          make the next call meanwhile               `invoke_many`
    apart          compute without delay for other tasks      conversion of many rows

The code of the SDK has no other way to wait. So it is the same for `Client` and for `AsyncClient`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Event(Protocol):
    """As `threading.Event`."""

    def set(self) -> None:
        """Set it, and let all go on that wait."""
        ...

    def is_set(self) -> bool:
        """Whether it is set."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for `timeout` seconds. Returns whether it is set."""
        ...


class Condition(Protocol):
    """As `threading.Condition`."""

    def __enter__(self) -> object: ...

    def __exit__(self, *_: Any) -> object: ...

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until the predicate holds, or for `timeout` seconds. The caller is in the `with` statement."""
        ...

    def notify_all(self) -> None:
        """Let all that wait look at their predicates again."""
        ...


class Worker(Protocol):
    """A function that runs beside its starter."""

    def join(self) -> None:
        """Wait for its end."""
        ...


class Coming(Protocol):
    """The result of a function that runs beside its starter."""

    def result(self) -> Any:
        """Wait for the result. Raises what the function raised."""
        ...


class Ahead(Protocol):
    """Runs functions one after the other, beside its user."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Coming:
        """Run a function."""
        ...


class Waiting(ABC):
    """Base of `Connection`: what its subclasses do with threads, or with tasks."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    def lock(self) -> AbstractContextManager[object]:
        """Make a lock, which may be held during calls."""

    @abstractmethod
    def event(self) -> Event:
        """Make an event that is not set."""

    @abstractmethod
    def condition(self) -> Condition:
        """Make a condition with a lock of its own."""

    @abstractmethod
    def start(self, work: Callable[[], None], name: str) -> Worker:
        """Run a function beside the caller. It ends with the process."""

    @abstractmethod
    def ahead(self) -> AbstractContextManager[Ahead]:
        """Make a runner of functions. At the end of its `with` statement none of them runs any more."""

    def apart(self, is_long: bool, work: Callable[..., T], /, *arguments: Any) -> T:
        """Compute something without I/O. `is_long`: it takes more than a few milliseconds. It ends before this does."""
        return work(*arguments)
