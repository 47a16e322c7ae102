"""What an error that was raised holds: every frame that it passed, and all that their variables name.

    error ──traceback──> frames ──variables──> the request, its table, and often the error itself

Such a circle is not freed when the call ends, but when the collector comes by, some hundred calls later. With a table
of 200 MB in each of them that is all of the memory.
"""

from __future__ import annotations


def let_go(problem: BaseException) -> None:
    """Have an error, and those that led to it, forget the frames they passed: what is to be told of it is known."""
    seen, left = set[int](), [problem]
    while left:
        error = left.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = None
        left += [cause for cause in (error.__cause__, error.__context__) if cause is not None]
