"""Errors on the wire: one table from the error tree to gRPC's canonical codes, with `google.rpc` details.

    SqlError("line 3, column 8: …", reason="UNKNOWN_COLUMN", line=3, column=8)
      ──> INVALID_ARGUMENT "line 3, column 8: …"
          ErrorInfo(reason="UNKNOWN_COLUMN", domain="psoup", metadata={"line": "3", "column": "8"})
          BadRequest(field="statement", description="…")

The code says what to do in general; the ErrorInfo's `reason` says what happened. Every class of the tree has a code,
and several classes may share one. This module does not decide what is an error.
"""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
from google.protobuf import duration_pb2, message
from google.rpc import error_details_pb2, status_pb2

from psoup import errors

DOMAIN = "psoup"
"""The domain that defines the reasons."""

CODES: dict[type[errors.PSoupError], grpc.StatusCode] = {
    errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    errors.SqlError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotSupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.InvalidBatch: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.Conflict: grpc.StatusCode.ABORTED,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.RowsRefused: grpc.StatusCode.OUT_OF_RANGE,
    errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Internal: grpc.StatusCode.INTERNAL,
    errors.Corrupt: grpc.StatusCode.INTERNAL,
}
"""The code of each class of `psoup.errors`. A test compares the table with the classes."""

OWN_CODES = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
"""Codes that no error class has: they describe the call, not its content."""

OK, DEADLINE, GONE = (grpc.StatusCode[name].name for name in ("OK", "DEADLINE_EXCEEDED", "CANCELLED"))
_DETAILS_KEY = "grpc-status-details-bin"
_MESSAGE_BYTES = 1_000
_FACT_CHARS = 200
_FACTS = 12
_RETRY_MS = 1_000


def code_of(error: errors.PSoupError) -> grpc.StatusCode:
    """The code of an error's class, or of the nearest class above it that is in the table."""
    for cls in type(error).__mro__:
        if cls in CODES:
            return CODES[cls]
    return grpc.StatusCode.INTERNAL


def status_of(error: errors.PSoupError) -> status_pb2.Status:
    """The error as `google.rpc.Status`. Long texts are cut: a client may refuse more than 8 KiB of metadata."""
    status = status_pb2.Status(code=code_of(error).value[0], message=_cut(error.message, _MESSAGE_BYTES))
    facts = {name: _cut(value, _FACT_CHARS) for name, value in list(error.facts.items())[:_FACTS]}
    parts: list[message.Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=facts)]
    if isinstance(error, errors.InvalidInput):
        parts.append(_bad_request(error))
    elif isinstance(error, errors.ResourceExhausted):
        subject = error.facts.get("quota") or error.facts.get("budget") or error.reason
        violation = error_details_pb2.QuotaFailure.Violation(subject=subject, description=status.message[:200])
        parts.append(error_details_pb2.QuotaFailure(violations=[violation]))
    wait = _retry_ms(error)
    if wait is not None:
        delay = duration_pb2.Duration(seconds=wait // 1_000, nanos=wait % 1_000 * 1_000_000)
        parts.append(error_details_pb2.RetryInfo(retry_delay=delay))
    for part in parts:
        status.details.add().Pack(part)
    return status


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: errors.PSoupError) -> NoReturn:
    """End the call with the error's status, by the exception that gRPC expects of a handler."""
    status = status_of(error)
    await context.abort(code_of(error), status.message, ((_DETAILS_KEY, status.SerializeToString()),))
    raise AssertionError("abort returned")


def _retry_ms(error: errors.PSoupError) -> int | None:
    """Milliseconds after which the same call may succeed; None if it cannot."""
    if "retry_after_ms" in error.facts:
        return int(error.facts["retry_after_ms"])
    return _RETRY_MS if isinstance(error, errors.Unavailable) else None


def _bad_request(error: errors.InvalidInput) -> error_details_pb2.BadRequest:
    field, description = error.facts.get("field", "request"), error.message
    if isinstance(error, errors.SqlError):
        field, description = "statement", f"line {error.line}, column {error.column}: {error.problem}"
    elif isinstance(error, errors.InvalidBatch):
        field = "arrow_ipc"
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=_cut(description, _FACT_CHARS))
    return error_details_pb2.BadRequest(field_violations=[violation])


def _cut(text: str, limit: int) -> str:
    """Cut a text to at most `limit` bytes of UTF-8. A lone surrogate, which UTF-8 cannot encode, becomes an escape."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return raw.decode()
    return raw[: limit - 3].decode("utf-8", "ignore") + "…"
