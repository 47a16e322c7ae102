"""Places at which long work in Python may rest: the host's other threads need the interpreter for moments.

    tokens, syntax tree, names and types, factors ──may_rest()──> the host's `rest`, which may sleep, or nothing

To read one statement may take a fifth of a second in which nothing can be taken apart into steps: so what reads it asks
at every eighth token and step of the parser, and at every node that is bound. The engine has neither a clock nor
threads: when to rest is the host's to say. A place costs 50 ns without a host, in which nothing happens, 200 with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOVES = 8
"""Small steps from place to place: of a tokenizer or a parser, a few microseconds each. To ask at each of them took
6 % of the time of a short statement, to ask at every eighth 1 %; the longest time without asking is the same."""

_rest: ContextVar[Callable[[], object] | None] = ContextVar("rest", default=None)


def may_rest() -> None:
    """Call the `rest` of this context, if there is one. No more than some milliseconds of work lie between two calls,
    and no lock is held at any."""
    rest = _rest.get()
    if rest is not None:
        rest()


@contextmanager
def resting(rest: Callable[[], object]) -> Iterator[None]:
    """A context in which `rest` is called at each place; it must be quick unless it rests, and must not raise."""
    token = _rest.set(rest)
    try:
        yield
    finally:
        _rest.reset(token)
