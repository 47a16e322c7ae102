"""Places at which long work in Python may rest, because other threads of the host need the interpreter for moments.

    tokens, syntax tree, names and types, factors ──may_rest()──> the host's `rest`, which may sleep, or nothing

Reading one statement may take a fifth of a second, and it cannot be divided into steps. So it calls `may_rest` at every
eighth token and step of the parser, and at every bound node. The engine has neither a clock nor threads: the host
decides when to rest. A call costs 50 ns without a host, where it does nothing, and 200 ns with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOVES = 8
"""Small steps of a tokenizer or a parser between two calls of `may_rest`, a few microseconds each. A call at every step
took 6 % of the time of a short statement, at every eighth 1 %. The longest time without a call is the same."""

_rest: ContextVar[Callable[[], object] | None] = ContextVar("rest", default=None)


def may_rest() -> None:
    """Call the `rest` of this context, if there is one. Between two calls are at most some milliseconds of work. The
    caller holds no lock."""
    rest = _rest.get()
    if rest is not None:
        rest()


@contextmanager
def resting(rest: Callable[[], object]) -> Iterator[None]:
    """A context in which `rest` is called at each place. It must be quick unless it rests, and must not raise."""
    token = _rest.set(rest)
    try:
        yield
    finally:
        _rest.reset(token)
