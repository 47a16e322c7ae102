"""What can go wrong in a client, one class for each thing the caller can do about it.

    PSoupError
    ├── InvalidRequest          change the request and send it again
    │   ├── InvalidStatement    the text of a statement: has line, column and a caret excerpt in its message
    │   │   └── NotSupported    understood, but PSoup does not do it (yet)
    │   └── InvalidData         rows that do not fit the stream: names the column and the row
    ├── NotFound                no such stream, query or tuple
    ├── AlreadyExists           a stream of that name is there
    ├── Conflict                the same ID was used for something else
    ├── FailedPrecondition      the state forbids it now: a stream in use, an epoch fenced, a page expired
    ├── OutOfRange              a window or a time outside what is kept or known
    ├── ResourceExhausted       a budget is used up: the message says which
    ├── AccessDenied            who you are, or what you may do
    ├── Unavailable             nobody answers, or the service starts or drains: try again later
    ├── DeadlineExceeded        no reply within the deadline; what was asked for may have happened or not
    ├── Cancelled               the call was given up on this side, or the client is closed
    └── ServerFault             a defect of PSoup, or a server that does not know the call

A reply with an error status is turned into one of these by `from_rpc`: the canonical gRPC code picks the class, and the
stable word in its `google.rpc.ErrorInfo` (`reason`) makes it finer. The message is the server's; it says what to do.
"""

from __future__ import annotations

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2


class PSoupError(Exception):
    """Base of every error that the SDK raises.

    `message` is for people; `reason` is a stable upper-case word for programs; `facts` are the names and values that
    the message mentions; `retry_after` is how many seconds the server asks to wait, or None.
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


class NotFound(PSoupError):
    """There is nothing of that name or ID."""

    reason = "NOT_FOUND"


class AlreadyExists(PSoupError):
    """The name is taken."""

    reason = "ALREADY_EXISTS"


class Conflict(PSoupError):
    """The same ID came before with other content; a retry does not help."""

    reason = "CONFLICT"


class FailedPrecondition(PSoupError):
    """The request is sound, but the present state forbids it."""

    reason = "FAILED_PRECONDITION"


class OutOfRange(PSoupError):
    """A time or a window outside what is retained or known."""

    reason = "OUT_OF_RANGE"


class ResourceExhausted(PSoupError):
    """A budget or limit is used up."""

    reason = "RESOURCE_EXHAUSTED"


class AccessDenied(PSoupError):
    """The credentials are missing, not valid, or not enough."""

    reason = "ACCESS_DENIED"


class Unavailable(PSoupError):
    """Nobody answers at the address, or the service is starting or draining."""

    reason = "UNAVAILABLE"


class DeadlineExceeded(PSoupError):
    """No reply within the deadline. Unknown whether a change was made; the SDK's own calls can all be repeated."""

    reason = "DEADLINE_EXCEEDED"


class Cancelled(PSoupError):
    """The call was given up on this side, or the client is closed."""

    reason = "CANCELLED"


class ServerFault(PSoupError):
    """A defect of PSoup, or a server that does not know the call."""

    reason = "INTERNAL"


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
"""The class for every gRPC code but OK."""

BY_REASON: dict[tuple[grpc.StatusCode, str], type[PSoupError]] = {
    (grpc.StatusCode.INVALID_ARGUMENT, InvalidData.reason): InvalidData,
    (grpc.StatusCode.UNIMPLEMENTED, NotSupported.reason): NotSupported,
}
"""Finer classes, where code and `reason` together say more. A place in a statement makes an InvalidStatement."""

_DETAILS_KEY = "grpc-status-details-bin"


def from_rpc(problem: grpc.RpcError, address: str = "") -> PSoupError:
    """The SDK's error for a failed call; `address` is named where nobody answered."""
    code: grpc.StatusCode = problem.code()
    message: str = problem.details() or code.name
    info, retry_after = _read_details(problem)
    facts = dict(info.metadata)
    kind = BY_CODE[code]
    if code is grpc.StatusCode.INVALID_ARGUMENT and "line" in facts:
        kind = InvalidStatement
    kind = BY_REASON.get((code, info.reason), kind)
    if kind is Unavailable and not info.reason and address:
        message = f"no PSoup service answers at {address} ({message}); start one with: psoup serve"
    if kind is DeadlineExceeded and not info.reason:
        message = f"no reply from {address or 'the service'} within the deadline; allow more time with timeout="
    return kind(message, reason=info.reason or None, facts=facts, retry_after=retry_after)


def _read_details(problem: grpc.RpcError) -> tuple[error_details_pb2.ErrorInfo, float | None]:
    """The ErrorInfo and the RetryInfo's delay that came with a status; empty ones if none did."""
    info, retry_after = error_details_pb2.ErrorInfo(), None
    trailers = problem.trailing_metadata() or () if hasattr(problem, "trailing_metadata") else ()
    for key, value in trailers:
        if key != _DETAILS_KEY:
            continue
        try:
            details = status_pb2.Status.FromString(value).details
        except DecodeError:  # whoever sent it was no PSoup; code and message still hold
            continue
        for detail in details:
            retry = error_details_pb2.RetryInfo()
            if detail.Is(info.DESCRIPTOR):
                detail.Unpack(info)
            elif detail.Is(retry.DESCRIPTOR):
                detail.Unpack(retry)
                retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return info, retry_after


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
