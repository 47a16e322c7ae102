"""Points at which long Python work may rest, so that other threads of the host get the interpreter.

    tokens, syntax tree, names and types, factors ──may_rest()──> the host's `rest`, which may sleep, or nothing

Parsing and binding one statement may take a fifth of a second, and cannot be divided into tasks. So the tokenizer and
the parser call `may_rest` at every eighth step, and the binder at every node. The engine has neither a clock nor
threads: the host decides when to rest. A call costs 50 ns without a host, where it does nothing, and 200 ns with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOVES = 8
"""Steps of the tokenizer or the parser between two calls of `may_rest`. A step takes a few microseconds.

A call at every step took 6 % of the time of a short statement. At every eighth step it took 1 %. The longest time
without a call was the same.
"""

_rest: ContextVar[Callable[[], object] | None] = ContextVar("rest", default=None)


def may_rest() -> None:
    """Call the `rest` of this context, if there is one.

    Callers do at most some milliseconds of work between two calls. A caller holds no lock.
    """
    rest = _rest.get()
    if rest is not None:
        rest()


@contextmanager
def resting(rest: Callable[[], object]) -> Iterator[None]:
    """A context in which `may_rest` calls `rest`. The function must return quickly unless it sleeps, and must not
    raise."""
    token = _rest.set(rest)
    try:
        yield
    finally:
        _rest.reset(token)
