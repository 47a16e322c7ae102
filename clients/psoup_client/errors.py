"""Errors of a client: one class for each thing that the caller can do about it.

    PSoupError
    ├── InvalidRequest          change the request and send it again
    │   ├── InvalidStatement    the text of a statement: has line, column and a caret excerpt in its message
    │   │   └── NotSupported    understood, but PSoup does not do it (yet)
    │   └── InvalidData         rows that do not fit the stream: names the column and the row
    │       └── RowsRefused     rows that the stream refuses: lists them, and nothing was taken
    ├── NotFound                no such stream, query or tuple
    ├── AlreadyExists           a stream of that name is there
    ├── Conflict                the same ID was used for something else
    ├── FailedPrecondition      the state forbids it now: a stream in use, an epoch fenced, a page expired
    │   └── BatchesLost         a service that took over lacks batches that a producer has acknowledged
    ├── OutOfRange              a window or a time outside what is kept or known
    │   └── PositionLost        a follower cannot go on from its position: has what was missed, and where it goes on
    ├── ResourceExhausted       a budget is used up: the message says which
    ├── AccessDenied            who you are, or what you may do
    ├── Unavailable             no service answers, or it starts or drains: try again later
    ├── DeadlineExceeded        no reply within the deadline; what was asked for may have happened or not
    ├── Cancelled               the call was given up on this side, or the client is closed
    └── ServerFault             a defect of PSoup, or a server that does not know the call

A reply with an error status is turned into one of these by `from_rpc`: the canonical gRPC code picks the class, and the
stable word in its `google.rpc.ErrorInfo` (`reason`) makes it finer. The message is the server's; it says what to do.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from psoup_client.no_reply import unanswered, who_answered
from psoup_client.tracebacks import is_inner, render, shortened
from psoup_proto.v1 import queries_pb2


class PSoupError(Exception):
    """Base of every error that the SDK raises.

    `message` is for people; `reason` is a stable upper-case word for programs. `facts` are the names and values in the
    message. `retry_after`: seconds that the server asks to wait, or None.
    """

    reason = "ERROR"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        facts: dict[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.facts = dict(facts or {})
        self.retry_after = retry_after
        if reason is not None:
            self.reason = reason

    def _render_traceback_(self) -> list[str]:
        """Return the lines of a traceback for IPython, which calls this method."""
        return render(self, without_frames(self).__traceback__)


class InvalidRequest(PSoupError):
    """The request can never succeed as it is."""

    reason = "INVALID_INPUT"


class InvalidStatement(InvalidRequest):
    """A statement that cannot be understood; the message shows the place with a caret."""

    reason = "SQL"

    @property
    def line(self) -> int:
        """The line of the problem, from 1; 0 if it is not known."""
        return _number(self.facts.get("line"))

    @property
    def column(self) -> int:
        """The column of the problem, from 1; 0 if it is not known."""
        return _number(self.facts.get("column"))


class NotSupported(InvalidStatement):
    """A feature of SQL that PSoup refuses by its name."""

    reason = "NOT_SUPPORTED"


class InvalidData(InvalidRequest):
    """Rows that do not fit the stream; nothing of that batch was taken."""

    reason = "INVALID_BATCH"


LISTED_ROWS = 1_000
"""The greatest number of rows that a RowsRefused lists."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A refused row: its number among the caller's rows, from 0, and the reason."""

    row: int
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}"

    def _repr_html_(self) -> str:
        """Show the row and the reason in a notebook."""
        return f"<p>{escape(str(self))}</p>"


class RowsRefused(InvalidData):
    """Rows that are too late, too far ahead, or without a fitting value in a column. NULL does not fit NOT NULL.

    No row of the push is taken. The same push again is harmless, and is refused again.

    `total`: the number of refused rows. `rows`: the first 1,000 of them, in order. Values that do not fit are looked
    for in the first such column, and in 65,536 rows. `taken`: 0, or the number of rows that earlier parts of a very
    large push had brought in.
    """

    reason = "ROWS_REFUSED"

    def __init__(
        self,
        message: str,
        *,
        rows: tuple[RefusedRow, ...] = (),
        taken: int = 0,
        reason: str | None = None,
        facts: dict[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, facts=facts, retry_after=retry_after)
        self.rows = rows
        self.taken = taken

    @property
    def late(self) -> int:
        """The number of rows that are too late: their times are below the watermark."""
        return _number(self.facts.get("late"))

    @property
    def ahead(self) -> int:
        """The number of rows that are too far ahead of the clock."""
        return _number(self.facts.get("ahead"))

    @property
    def total(self) -> int:
        """The number of refused rows: late, ahead, or without a fitting value in the column that the message names."""
        return self.late + self.ahead + _number(self.facts.get("nulls")) + _number(self.facts.get("misfits"))


class NotFound(PSoupError):
    """No stream, query or tuple has that name or ID."""

    reason = "NOT_FOUND"

    @property
    def replaced_by(self) -> str:
        """The ID of the query that replaced the requested one; "" if none did."""
        return self.facts.get("replaced_by", "")


class AlreadyExists(PSoupError):
    """The name is taken."""

    reason = "ALREADY_EXISTS"


class Conflict(PSoupError):
    """The same ID came before with other content; a retry does not help."""

    reason = "CONFLICT"


class FailedPrecondition(PSoupError):
    """The request is sound, but the present state forbids it."""

    reason = "FAILED_PRECONDITION"


class BatchesLost(FailedPrecondition):
    """Batches that the service had acknowledged to a producer, and has lost: from number `first` to before `end`."""

    reason = "BATCHES_LOST"

    def __init__(self, message: str, *, first: int = 0, end: int = 0, **details: Any) -> None:
        super().__init__(message, **details)
        self.first = first
        self.end = end


class OutOfRange(PSoupError):
    """A time or a window outside the kept or known range."""

    reason = "OUT_OF_RANGE"


class PositionLost(OutOfRange):
    """The position of a follower cannot be continued: data was put back, or tuples after it have left the stream.

    `position`: the position of the oldest tuple that is kept, to go on with. `first_id`: the ID of this tuple.
    `missed`: the number of tuples that were missed; None if the service cannot tell. `why`: NOT_KEPT,
    OTHER_STREAM, INCARNATION, ROLLED_BACK, KEY or FORMAT.
    """

    reason = "POSITION_LOST"

    def __init__(self, message: str, *, position: str, why: str, missed: int | None, first_id: int) -> None:
        super().__init__(message)
        self.position = position
        self.why = why
        self.missed = missed
        self.first_id = first_id


class ResourceExhausted(PSoupError):
    """A budget or limit is used up."""

    reason = "RESOURCE_EXHAUSTED"


class AccessDenied(PSoupError):
    """The credentials are missing, not valid, or not enough."""

    reason = "ACCESS_DENIED"


class Unavailable(PSoupError):
    """No service answers at the address, or it is starting or draining."""

    reason = "UNAVAILABLE"


class DeadlineExceeded(PSoupError):
    """No reply came within the deadline. A change may have been made or not; all calls of the SDK can be repeated."""

    reason = "DEADLINE_EXCEEDED"


class Cancelled(PSoupError):
    """The call was given up on this side, or the client is closed."""

    reason = "CANCELLED"


class ServerFault(PSoupError):
    """A defect of PSoup, or a server that does not know the call."""

    reason = "INTERNAL"


def without_frames(problem: PSoupError) -> PSoupError:
    """Return the same error without frames of the SDK in its traceback.

    A ServerFault keeps all frames, because they may show a defect of the SDK.
    """
    if isinstance(problem, ServerFault):
        return problem
    if problem.__context__ is not None and is_inner(problem.__context__.__traceback__):
        problem.__cause__ = None
        problem.__suppress_context__ = True
    return problem.with_traceback(shortened(problem.__traceback__))


BY_CODE: dict[grpc.StatusCode, type[PSoupError]] = {
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNKNOWN: ServerFault,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.PERMISSION_DENIED: AccessDenied,
    grpc.StatusCode.UNAUTHENTICATED: AccessDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.UNIMPLEMENTED: ServerFault,
    grpc.StatusCode.INTERNAL: ServerFault,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DATA_LOSS: ServerFault,
}
"""The class of errors for every gRPC code but OK."""

BY_REASON: dict[tuple[grpc.StatusCode, str], type[PSoupError]] = {
    (grpc.StatusCode.OUT_OF_RANGE, RowsRefused.reason): RowsRefused,
}
"""The finer class of errors if the `google.rpc.ErrorInfo` of a reply has this reason."""

BY_FIELD: dict[tuple[grpc.StatusCode, str], type[PSoupError]] = {
    (grpc.StatusCode.INVALID_ARGUMENT, "statement"): InvalidStatement,
    (grpc.StatusCode.INVALID_ARGUMENT, "arrow_ipc"): InvalidData,
    (grpc.StatusCode.UNIMPLEMENTED, "statement"): NotSupported,
}
"""The finer class of errors if the `google.rpc.BadRequest` of a reply names this field of the request."""

NO_SUCH_CALL = "NO_SUCH_CALL"
"""The reason if a service does not know a call: it has an older version, or is not a PSoup service."""

_DETAILS_KEY = "grpc-status-details-bin"


def from_rpc(problem: grpc.RpcError, address: str = "", lost: str = "") -> PSoupError:
    """Convert an error of gRPC to an error of the SDK. The message names `address` if no service answered.

    `lost`: the error of an earlier attempt at the call, or "".
    """
    code: grpc.StatusCode = problem.code()
    message: str = problem.details() or code.name
    details = _Details(problem)
    info, retry_after = details.info, details.retry_after
    kind = BY_REASON.get((code, info.reason)) or BY_FIELD.get((code, details.field), BY_CODE[code])
    if kind is Unavailable and not info.reason and address:
        message = unanswered(message, address)
    reason = info.reason or None
    if code is grpc.StatusCode.UNIMPLEMENTED and reason is None:
        reason = NO_SUCH_CALL
        message = f"{address or 'the service'} does not know this call ({message}): {who_answered(message)}"
    if kind is DeadlineExceeded and not info.reason:
        message = f"no reply from {address or 'the service'} within the deadline; "
        message += f"the attempt before: {lost}" if lost else "allow more time with timeout="
    return kind(message, reason=reason, facts=dict(info.metadata), retry_after=retry_after)


def from_failure(failure: queries_pb2.Failure) -> PSoupError:
    """Convert the failure of one query among many to an error."""
    kind = _BY_NUMBER.get(failure.code, ServerFault)
    return kind(failure.message, reason=failure.reason or None, facts=dict(failure.facts))


_BY_NUMBER = {code.value[0]: kind for code, kind in BY_CODE.items()}


class _Details:
    """The `google.rpc` details of a status; empty if the status has none.

    `field`: the first field that a BadRequest names. `retry_after`: seconds, from RetryInfo.
    """

    def __init__(self, problem: grpc.RpcError) -> None:
        self.info = error_details_pb2.ErrorInfo()
        self.field = ""
        self.retry_after: float | None = None
        for key, value in problem.trailing_metadata() or ():
            if key != _DETAILS_KEY:
                continue
            try:
                for part in status_pb2.Status.FromString(value).details:
                    self._add(part)
            except DecodeError:  # the sender was not a PSoup service; code and message still hold
                continue

    def _add(self, part: any_pb2.Any) -> None:
        retry, request = error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        if part.Unpack(self.info):
            return
        if part.Unpack(retry):
            with suppress(OverflowError, ValueError):  # a service can write any number
                self.retry_after = retry.retry_delay.ToTimedelta().total_seconds()
        elif part.Unpack(request) and request.field_violations:
            self.field = request.field_violations[0].field


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def after_rows(problem: PSoupError, rows: int) -> PSoupError:
    """Return the same error with its row counted among all rows. `rows` rows came before the refused part."""
    row = problem.facts.get("row", "")
    if not rows or not row.isdigit():
        return problem
    among = str(int(row) + rows)
    message = re.sub(rf"\brow {row}\b", f"row {among}", problem.message, count=1)
    return type(problem)(
        message, reason=problem.reason, facts={**problem.facts, "row": among}, retry_after=problem.retry_after
    )
