"""Errors in HTTP: a status, and the facts of the error as JSON.

    SqlError ──> 400 {"code":"INVALID_ARGUMENT","reason":"UNKNOWN_COLUMN","message":…,"line":3,"column":8,"hint":…}

Code and reason are gRPC's (`psoup_service.wire.status`), and long texts are cut as there.
"""

from __future__ import annotations

from typing import Any

import orjson
from google.rpc import error_details_pb2, status_pb2

from psoup.errors import PSoupError, SqlError
from psoup_service.wire.status import DEADLINE, code_of, status_of

STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "INTERNAL": 500,
}
"""The HTTP status of each code that a call can end with. A test checks that no code is missing."""

_BY_REASON = {
    "HOST": 421,
    "METHOD": 405,
    "CONTENT_TYPE": 415,
    "CONTENT_ENCODING": 415,
    "ACCEPT": 406,
    "BATCH_TOO_LARGE": 413,
    "BODY_TOO_LARGE": 413,
    "LENGTH_REQUIRED": 411,
    "MESSAGE_TOO_LARGE": 413,
    "RECEIVE_DEADLINE": 408,
    "HEAD_TOO_LARGE": 431,
}
"""Statuses for reasons of errors that HTTP has a status for."""


def http_status(error: PSoupError) -> int:
    """The status of an error."""
    return _BY_REASON.get(error.reason) or STATUSES[code_of(error).name]


def described(error: PSoupError) -> dict[str, Any]:
    """The body of an error for a page; long texts are cut."""
    status = status_of(error)
    facts: dict[str, Any] = {"code": code_of(error).name, "message": status.message, "reason": error.reason}
    _add_details(facts, status)
    if isinstance(error, SqlError):
        facts |= {"problem": error.problem, "line": error.line, "column": error.column}
        if error.hint:
            facts["hint"] = error.hint
    return facts


def late(name: str) -> dict[str, Any]:
    """The JSON body of the error for a call that is past its deadline."""
    message = f"{name} did not end within its deadline"
    return {"code": DEADLINE, "message": message, "reason": DEADLINE, "metadata": {}}


def encoded(facts: dict[str, Any]) -> bytes:
    """A description as JSON."""
    return orjson.dumps(facts)


def _add_details(facts: dict[str, Any], status: status_pb2.Status) -> None:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    facts["metadata"] = {}
    for detail in status.details:
        if detail.Unpack(info):
            facts["metadata"] = dict(info.metadata)
        elif detail.Unpack(retry):
            facts["retryAfterMs"] = retry.retry_delay.ToMilliseconds()
