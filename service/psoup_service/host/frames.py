"""The frames that a raised error holds: all frames that it passed, with their variables.

    error ──traceback──> frames ──variables──> the request, its table, and often the error itself

Such a reference cycle is freed only by the garbage collector, some hundred calls after the end of the call. If each
call has a table of 200 MB, the memory is full before that.
"""

from __future__ import annotations


def let_go(problem: BaseException) -> None:
    """Free the frames of an error and of its causes. Call it when only the message is still needed."""
    seen, errors = set[int](), [problem]
    while errors:
        error = errors.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = None
        errors += [cause for cause in (error.__cause__, error.__context__) if cause is not None]
