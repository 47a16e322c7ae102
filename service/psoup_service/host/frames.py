"""The frames that a raised error holds: every frame that it passed, and all that their variables name.

    error ──traceback──> frames ──variables──> the request, its table, and often the error itself

Such a circle is not freed when the call ends, but when the garbage collector runs, some hundred calls later. With a
table of 200 MB in each call that is all of the memory.
"""

from __future__ import annotations


def let_go(problem: BaseException) -> None:
    """Free the frames of an error and of its causes, once its message is all that is still needed."""
    seen, errors = set[int](), [problem]
    while errors:
        error = errors.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = None
        errors += [cause for cause in (error.__cause__, error.__context__) if cause is not None]
