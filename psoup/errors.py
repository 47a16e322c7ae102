"""All errors, one class for each thing the caller can do about it.

    PSoupError
    ├── InvalidInput            change the request and send it again
    │   ├── SqlError            the text of a statement: has line, column and an excerpt with a caret
    │   │   └── NotSupported    understood, but PSoup does not do it (yet): names the feature
    │   └── InvalidBatch        the rows of a push: names the column and the row
    ├── NotFound                no such stream, query or tuple: names the nearest
    ├── AlreadyExists           a stream of that name is there
    ├── Conflict                the same ID was used for something else
    ├── FailedPrecondition      the state forbids it now: a stream in use, an epoch fenced, a gap in numbers
    ├── OutOfRange              a window or time outside what is kept or known
    ├── ResourceExhausted       a budget is used up: says which, how much, and what would be needed
    ├── Unauthenticated         who calls is not known: a credential is missing, or is not valid
    ├── PermissionDenied        who calls is known, and may not do this
    ├── Unavailable             starting, draining, or a stream that was cut: the same call may succeed later
    └── Internal                a broken invariant: a defect of PSoup
        └── Corrupt             found by a check of a structure: names it, with a dump and the last events

Messages name the thing, the value and the way out; the facts are attributes as well, so that a service
can send them in a machine's form. `reason` is a stable upper-case word for programs to compare.
"""

from __future__ import annotations


class PSoupError(Exception):
    """Base of every error that PSoup raises on purpose."""

    reason = "ERROR"

    def __init__(self, message: str, *, reason: str | None = None, **facts: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, str] = {name: str(value) for name, value in facts.items()}
        if reason is not None:
            self.reason = reason


class InvalidInput(PSoupError):
    """The request can never succeed as it is."""

    reason = "INVALID_INPUT"


class SqlError(InvalidInput):
    """A statement that cannot be understood, with the place in its text.

    `line` and `column` count from 1; `excerpt` is the line of the text and a second line with a caret.
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
    """A feature of SQL that PSoup refuses by its name."""

    reason = "NOT_SUPPORTED"


class InvalidBatch(InvalidInput):
    """A push whose rows do not fit the stream; nothing of it was taken."""

    reason = "INVALID_BATCH"


class NotFound(PSoupError):
    """No stream, query or tuple of that name or ID is known to this tenant."""

    reason = "NOT_FOUND"


class AlreadyExists(PSoupError):
    """The name is in use."""

    reason = "ALREADY_EXISTS"


class Conflict(PSoupError):
    """The same ID came before with other content."""

    reason = "CONFLICT"


class FailedPrecondition(PSoupError):
    """The request is sound, but the present state forbids it."""

    reason = "FAILED_PRECONDITION"


class OutOfRange(PSoupError):
    """A time or a window outside what is retained or known."""

    reason = "OUT_OF_RANGE"


class ResourceExhausted(PSoupError):
    """A budget is used up; the message says which and what would help."""

    reason = "RESOURCE_EXHAUSTED"


class Unauthenticated(PSoupError):
    """The call brings no credential, or one that is not valid; it says nothing of what there is."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(PSoupError):
    """The roles of the caller do not include the call; it says nothing of what there is."""

    reason = "PERMISSION_DENIED"


class Unavailable(PSoupError):
    """Not now: repeat the same call a little later. Nothing of it has happened, unless the message says so."""

    reason = "UNAVAILABLE"


class Internal(PSoupError):
    """An invariant does not hold: a defect of PSoup, never of the caller."""

    reason = "INTERNAL"


class Corrupt(Internal):
    """A structure in memory is not what it must be; a check found it (`psoup.invariants`).

    `structure`: its name. `problem`: what does not hold. `dump`: numbers of the structure. `story`: the last events
    that were applied, the latest one last: sequence, kind and stream of each.
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
        told = f"{text}; the last events: {', '.join(story)}" if story else text
        super().__init__(told, reason=reason, structure=structure)
        self.structure, self.problem, self.dump, self.story = structure, problem, dump, story

    def after(self, story: tuple[str, ...]) -> Corrupt:
        """The same error, with the last events."""
        return Corrupt(self.structure, self.problem, self.dump, story)
