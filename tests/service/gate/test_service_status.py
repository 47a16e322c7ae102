"""The table of errors and codes, in both directions, and what a client can read out of a status."""

import grpc
import pytest
from google.rpc import error_details_pb2

from psoup import errors
from psoup_service.wire.status import CODES, OWN_CODES, code_of, status_of


def tree(cls: type[errors.PSoupError]) -> set[type[errors.PSoupError]]:
    return {cls}.union(*(tree(child) for child in cls.__subclasses__()))


def test_every_error_has_a_code() -> None:
    declared = {cls for cls in tree(errors.PSoupError) if cls.__module__ == errors.__name__}
    assert declared - {errors.PSoupError} == set(CODES)


def test_every_code_has_an_error_or_a_reason_to_have_none() -> None:
    not_used = {
        grpc.StatusCode.OK,
        grpc.StatusCode.UNKNOWN,  # a defect is INTERNAL
        grpc.StatusCode.DATA_LOSS,
    }
    assert set(grpc.StatusCode) == set(CODES.values()) | OWN_CODES | not_used
    assert not set(CODES.values()) & (OWN_CODES | not_used)


def test_a_subclass_from_elsewhere_has_the_code_of_its_base() -> None:
    class Finer(errors.OutOfRange):
        pass

    assert code_of(Finer("x")) is grpc.StatusCode.OUT_OF_RANGE
    assert code_of(errors.PSoupError("x")) is grpc.StatusCode.INTERNAL


def details(error: errors.PSoupError) -> dict[str, object]:
    found: dict[str, object] = {}
    for packed in status_of(error).details:
        name = packed.TypeName().rpartition(".")[2]
        message = getattr(error_details_pb2, name)()
        packed.Unpack(message)
        found[name] = message
    return found


def test_a_statement_error_says_where() -> None:
    error = errors.SqlError("no column 'pirce'", line=3, column=8, excerpt="x\n^", reason="UNKNOWN_COLUMN")
    found = details(error)
    assert found["ErrorInfo"] == error_details_pb2.ErrorInfo(
        reason="UNKNOWN_COLUMN", domain="psoup", metadata={"line": "3", "column": "8"}
    )
    assert found["BadRequest"].field_violations[0].field == "statement"
    assert found["BadRequest"].field_violations[0].description == "line 3, column 8: no column 'pirce'"


def test_what_may_succeed_later_says_when() -> None:
    assert details(errors.Unavailable("x"))["RetryInfo"].retry_delay.seconds == 1
    busy = details(errors.ResourceExhausted("x", reason="BUSY", retry_after_ms=50))
    assert busy["RetryInfo"].retry_delay.nanos == 50_000_000
    assert busy["QuotaFailure"].violations[0].subject == "BUSY"
    assert "RetryInfo" not in details(errors.ResourceExhausted("x"))


@pytest.mark.parametrize("text", ["x" * 100_000, "ü" * 50_000, "\ud800" * 9_999, "\0\n\x7f" * 5_000])
def test_a_status_fits_in_metadata(text: str) -> None:
    error = errors.InvalidInput(text, reason="R", **{f"fact{i}": text for i in range(50)})
    status = status_of(error)
    assert len(status.SerializeToString()) < 5_000
    assert len(status.message.encode()) <= 1_000
