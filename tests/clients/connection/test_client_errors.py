"""Every status has a class of the SDK, and every error of the engine reaches the client as the right one."""

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from psoup import errors as engine
from psoup_client import errors
from psoup_service.wire.status import status_of


class Failed(grpc.RpcError):
    """A failed call, as grpc raises it."""

    def __init__(self, code: grpc.StatusCode, details: str, trailers: Any = ()) -> None:
        super().__init__()
        self._answer = (code, details, trailers)

    def code(self) -> grpc.StatusCode:
        return self._answer[0]

    def details(self) -> str:
        return self._answer[1]

    def trailing_metadata(self) -> Any:
        return self._answer[2]


def subclasses(base: type) -> list[type]:
    return [base, *(deeper for child in base.__subclasses__() for deeper in subclasses(child))]


def over_the_wire(error: engine.PSoupError) -> errors.PSoupError:
    status = status_of(error)
    code = next(c for c in grpc.StatusCode if c.value[0] == status.code)
    return errors.from_rpc(Failed(code, status.message, [("grpc-status-details-bin", status.SerializeToString())]))


CLASSES = {
    engine.PSoupError: errors.ServerFault,
    engine.InvalidInput: errors.InvalidRequest,
    engine.SqlError: errors.InvalidStatement,
    engine.NotSupported: errors.NotSupported,
    engine.InvalidBatch: errors.InvalidData,
    engine.RowsRefused: errors.RowsRefused,
    engine.NotFound: errors.NotFound,
    engine.AlreadyExists: errors.AlreadyExists,
    engine.Conflict: errors.Conflict,
    engine.FailedPrecondition: errors.FailedPrecondition,
    engine.OutOfRange: errors.OutOfRange,
    engine.ResourceExhausted: errors.ResourceExhausted,
    engine.Unauthenticated: errors.AccessDenied,
    engine.PermissionDenied: errors.AccessDenied,
    engine.Unavailable: errors.Unavailable,
    engine.Internal: errors.ServerFault,
    engine.Corrupt: errors.ServerFault,
}


def test_every_code_has_a_class() -> None:
    assert set(errors.BY_CODE) == set(grpc.StatusCode) - {grpc.StatusCode.OK}


def test_every_class_comes_from_some_status() -> None:
    of_a_status = {*errors.BY_CODE.values(), *errors.BY_FIELD.values(), *errors.BY_REASON.values()}
    reachable = of_a_status | {errors.PositionLost, errors.BatchesLost}  # what followers and producers make of replies
    classes = {cls for cls in subclasses(errors.PSoupError) if cls.__module__ == errors.__name__}
    assert reachable == classes - {errors.PSoupError}


def test_every_error_of_the_engine_is_listed() -> None:
    tree = {cls for cls in subclasses(engine.PSoupError) if cls.__module__ == engine.__name__}
    assert set(CLASSES) == tree


@pytest.mark.parametrize(("raised", "expected"), CLASSES.items())
def test_error_over_the_wire(raised: type[engine.PSoupError], expected: type[errors.PSoupError]) -> None:
    reason = "ROWS_REFUSED" if raised is engine.RowsRefused else "SPECIAL"
    seen = over_the_wire(raised("what to do", reason=reason))
    assert type(seen) is expected
    assert seen.reason == reason
    assert "what to do" in seen.message
    assert (seen.retry_after is not None) == (expected is errors.Unavailable)


def test_place_in_a_statement() -> None:
    seen = over_the_wire(engine.SqlError("no such column", line=3, column=8, excerpt="SELECT b\n       ^"))
    assert isinstance(seen, errors.InvalidStatement)
    assert (seen.line, seen.column) == (3, 8)
    assert "SELECT b\n       ^" in seen.message


def test_every_class_has_a_reason_of_its_own() -> None:
    reasons = [cls.reason for cls in subclasses(errors.PSoupError)]
    assert len(reasons) == len(set(reasons))


def test_nobody_answers() -> None:
    seen = errors.from_rpc(Failed(grpc.StatusCode.UNAVAILABLE, "connection refused"), "10.0.0.1:7433")
    assert "10.0.0.1:7433" in seen.message
    assert "psoup serve" in seen.message


@pytest.mark.parametrize(
    ("said", "address", "way"),
    [
        ("last error: UNKNOWN: x: Hostname Verification Check failed.", "https://10.0.0.1:7433", "other names"),
        ("last error: UNKNOWN: x: Failed parsing HTTP/2 (got frame type 80)", "10.0.0.1:7434", "the page"),
        ("last error: UNAVAILABLE: x: Socket closed", "https://10.0.0.1:7433", "PSOUP_CA"),
        ("last error: UNAVAILABLE: x: Socket closed", "10.0.0.1:7433", "write https://10.0.0.1:7433"),
    ],
)
def test_who_answers_and_is_no_service_is_told_from_nobody(said: str, address: str, way: str) -> None:
    failed = Failed(grpc.StatusCode.UNAVAILABLE, f"failed to connect to all addresses; {said}")
    message = errors.from_rpc(failed, address).message
    assert way in message and "psoup serve" not in message
    found = errors.from_rpc(Failed(grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with HTTP status: 404"), "a:1")
    assert (found.reason, "no PSoup service is there" in found.message) == ("NO_SUCH_CALL", True)


def test_a_certificate_of_its_own_may_be_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_CERT", "mine.pem")
    failed = Failed(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: x: Socket closed")
    assert "certificate of PSOUP_CERT" in errors.from_rpc(failed, "https://10.0.0.1:7433").message


@pytest.mark.parametrize("trailers", [None, (), [("grpc-status-details-bin", b"\xff\xff")], [("other", "x")]])
def test_details_that_are_missing_or_broken(trailers: Any) -> None:
    seen = errors.from_rpc(Failed(grpc.StatusCode.NOT_FOUND, "gone", trailers))
    assert isinstance(seen, errors.NotFound)
    assert (seen.message, seen.reason, seen.facts) == ("gone", "NOT_FOUND", {})


@pytest.mark.parametrize("seconds", [2**62, -(2**62)])
def test_a_pause_that_no_clock_can_measure_is_left_out(seconds: int) -> None:
    status = status_of(engine.Unavailable("later", reason="COPY_BEHIND"))
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.seconds = seconds
    status.details.add().Pack(retry)
    trailers = [("grpc-status-details-bin", status.SerializeToString())]
    problem = errors.from_rpc(Failed(grpc.StatusCode.UNAVAILABLE, "later", trailers))
    assert (type(problem), problem.reason, problem.retry_after) == (errors.Unavailable, "COPY_BEHIND", 1.0)
