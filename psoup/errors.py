"""All errors of PSoup: one class for each way in which a caller can react.

    PSoupError
    ├── InvalidInput            change the request and send it again
    │   ├── SqlError            the text of a statement: has line, column and an excerpt with a caret
    │   │   └── NotSupported    valid SQL, but PSoup lacks it: names the feature
    │   └── InvalidBatch        the rows of a push: names the column and the row
    ├── NotFound                no such stream, query or tuple: names the nearest
    ├── AlreadyExists           a stream with this name exists
    ├── Conflict                the same ID was used for something else
    ├── FailedPrecondition      the state forbids it now: a stream in use, an epoch fenced, a gap in numbers
    ├── OutOfRange              a window or time outside of the retained or known times
    │   └── RowsRefused         rows of a push that are late or too far ahead: nothing of it was accepted
    ├── ResourceExhausted       a budget is used up: names it, the use and the need
    ├── Unauthenticated         the caller is unknown: the credential is missing or invalid
    ├── PermissionDenied        the caller is known, and may not do this
    ├── Unavailable             starting, draining, or a stream that was cut: the same call may succeed later
    └── Internal                a broken invariant: a defect of PSoup
        └── Corrupt             found by a check of a structure: names it, with a dump and the last events

A message names the object, the value and the remedy. The facts are attributes as well, so that a service can send them
in a form for programs. `reason` is a stable upper-case word for programs to compare.
"""

from __future__ import annotations


class PSoupError(Exception):
    """The base of every error that PSoup raises on purpose."""

    reason = "ERROR"

    def __init__(self, message: str, *, reason: str | None = None, **facts: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, str] = {name: str(value) for name, value in facts.items()}
        if reason is not None:
            self.reason = reason


class InvalidInput(PSoupError):
    """The request can never succeed unchanged."""

    reason = "INVALID_INPUT"


class SqlError(InvalidInput):
    """A statement that PSoup cannot accept, with the place of the fault in its text.

    `line` and `column` count from 1. `excerpt` is the line of the text and a second line with a caret.
    """

    reason = "SQL"

    def __init__(
        self,
        message: str,
        *,
        line: int = 1,
        column: int = 1,
        excerpt: str = "",
        hint: str = "",
        reason: str | None = None,
    ) -> None:
        where = f"line {line}, column {column}: {message}"
        text = where + (f"\n{excerpt}" if excerpt else "") + (f"\nhint: {hint}" if hint else "")
        super().__init__(text, reason=reason, line=line, column=column)
        self.problem = message
        self.line = line
        self.column = column
        self.excerpt = excerpt
        self.hint = hint


class NotSupported(SqlError):
    """A feature of SQL that PSoup refuses by name."""

    reason = "NOT_SUPPORTED"


class InvalidBatch(InvalidInput):
    """A push with rows that do not fit the stream. Nothing of it was accepted."""

    reason = "INVALID_BATCH"


class NotFound(PSoupError):
    """The tenant has no stream, query or tuple with that name or ID."""

    reason = "NOT_FOUND"


class AlreadyExists(PSoupError):
    """The name is in use."""

    reason = "ALREADY_EXISTS"


class Conflict(PSoupError):
    """An earlier request had the same ID, but other content."""

    reason = "CONFLICT"


class FailedPrecondition(PSoupError):
    """The request is valid, but the present state forbids it."""

    reason = "FAILED_PRECONDITION"


class OutOfRange(PSoupError):
    """A time or a window outside of the retained or known times."""

    reason = "OUT_OF_RANGE"


class RowsRefused(OutOfRange):
    """A push that takes all rows or none has rows that are too late, or too far ahead. Nothing of it was accepted."""

    reason = "ROWS_REFUSED"


class ResourceExhausted(PSoupError):
    """A budget is used up. The message names it and a remedy."""

    reason = "RESOURCE_EXHAUSTED"


class Unauthenticated(PSoupError):
    """The call has no valid credential. The message reveals nothing about existing objects."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(PSoupError):
    """The roles of the caller exclude the call. The message reveals nothing about existing objects."""

    reason = "PERMISSION_DENIED"


class Unavailable(PSoupError):
    """The service cannot serve the call now. The caller may repeat the same call a little later.

    The call has had no effect, unless the message says so.
    """

    reason = "UNAVAILABLE"


class Internal(PSoupError):
    """An invariant is violated: a defect of PSoup, never of the caller."""

    reason = "INTERNAL"


class Corrupt(Internal):
    """A structure in memory violates an invariant, and a check of PSoup's own found it (`psoup.invariants`).

    `structure`: its name. `problem`: the violated invariant. `dump`: numbers of the structure. `story`: the last
    applied events, the latest last, each with sequence, kind and stream.
    """

    reason = "CORRUPT"

    def __init__(
        self,
        structure: str,
        problem: str = "",
        dump: str = "",
        story: tuple[str, ...] = (),
        *,
        reason: str | None = None,
    ) -> None:
        text = structure + (f": {problem}" if problem else "") + (f" ({dump})" if dump else "")
        message_text = f"{text}; the last events: {', '.join(story)}" if story else text
        super().__init__(message_text, reason=reason, structure=structure)
        self.structure = structure
        self.problem = problem
        self.dump = dump
        self.story = story

    def after(self, story: tuple[str, ...]) -> Corrupt:
        """A copy of the error that also names the last applied events."""
        return Corrupt(self.structure, self.problem, self.dump, story)
