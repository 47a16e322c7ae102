"""A client's channel is the caller's: his credentials, options and interceptors reach gRPC, and his pauses are kept."""

import math
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from psoup_client import (
    Cancelled,
    Client,
    ClientOptions,
    DeadlineExceeded,
    ResourceExhausted,
    RetryOptions,
    Unavailable,
)
from psoup_client.channel.connection import MAX_RECEIVE_BYTES, channel_options
from psoup_client.channel.patience import Patience
from psoup_proto.v1 import server_pb2, server_pb2_grpc
from psoup_testing.services.threaded_service import Serving

ONCE = RetryOptions(attempts=1)


class Servicer(server_pb2_grpc.ServerServiceServicer):
    """Says its version; the first `failures` calls are told by this code that it is not there."""

    def __init__(self, failures: int = 0, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        self.calls = 0
        self.failures, self.code = failures, code

    def GetServerInfo(self, request: Any, context: grpc.ServicerContext) -> server_pb2.GetServerInfoResponse:
        self.calls += 1
        if self.calls <= self.failures:
            context.abort(self.code, "not there")
        return server_pb2.GetServerInfoResponse(version="9.9", state="serving")


@contextmanager
def server(servicer: Servicer, credentials: Any = None) -> Iterator[int]:
    """A gRPC server on a port of loopback."""
    running = grpc.server(ThreadPoolExecutor(2))
    server_pb2_grpc.add_ServerServiceServicer_to_server(servicer, running)
    address = "127.0.0.1:0"
    port = running.add_secure_port(address, credentials) if credentials else running.add_insecure_port(address)
    running.start()
    try:
        yield port
    finally:
        running.stop(None).wait()


class Names(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Writes down which methods are called, and adds its name to their metadata."""

    def __init__(self, name: str, seen: list[tuple[str, str]]) -> None:
        self._name, self._seen = name, seen

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self._seen.append((self._name, details.method.rpartition("/")[2]))
        return continuation(details, request)

    intercept_unary_stream = intercept_unary_unary


def test_interceptors_see_calls_and_streams_in_their_order(running: Serving) -> None:
    seen: list[tuple[str, str]] = []
    options = ClientOptions(interceptors=(Names("outer", seen), Names("inner", seen)))
    with Client(running.address, timeout=60, options=options) as client:
        client.create_stream("CREATE STREAM intercepted (a BIGINT)")
        client.push("intercepted", {"a": [1, 2]})
        query = client.register("SELECT a FROM intercepted")
        assert len(query.invoke()) == 2
        with query.stream() as pieces:
            assert len(pieces.read_all()) == 2
    assert [method for name, method in seen if name == "inner"] == [method for name, method in seen if name == "outer"]
    assert {"CreateStream", "Push", "Register", "Invoke", "InvokeStream"} <= {method for _, method in seen}
    assert [name for name, _ in seen[:2]] == ["outer", "inner"]


def test_a_closed_client_with_interceptors_says_so(running: Serving) -> None:
    client = Client(running.address, options=ClientOptions(interceptors=(Names("only", []),)))
    client.create_stream("CREATE STREAM left (a BIGINT)")
    query = client.register("SELECT a FROM left")
    client.close()
    with pytest.raises(Cancelled, match="the client is closed"):
        client.info()
    with pytest.raises(Cancelled, match="the client is closed"):
        query.stream()


def test_channel_options_take_the_place_of_the_sdks() -> None:
    mine = (("grpc.max_receive_message_length", 1_000), ("grpc.keepalive_time_ms", 30_000))
    arguments = channel_options(ClientOptions(channel_options=mine))
    names = [name for name, _ in arguments]
    assert len(names) == len(set(names))
    assert set(mine) <= set(arguments)
    assert dict(channel_options(ClientOptions()))["grpc.max_receive_message_length"] == MAX_RECEIVE_BYTES


def test_channel_options_reach_the_channel(running: Serving) -> None:
    small = ClientOptions(channel_options=(("grpc.max_receive_message_length", 10),))
    with (
        Client(running.address, timeout=60, options=small) as client,
        pytest.raises(ResourceExhausted, match="larger"),
    ):
        client.info()


def test_local_credentials_are_used() -> None:
    credentials = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    local = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    with server(Servicer(), local) as port:
        options = ClientOptions(credentials=credentials)
        with Client(f"127.0.0.1:{port}", timeout=60, options=options) as client:
            assert client.info().version == "9.9"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate of this test")
def test_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    trusted = ClientOptions(credentials=grpc.ssl_channel_credentials(certificate.read_bytes()), retry=ONCE)
    secured = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    with server(Servicer(), secured) as port:
        with Client(f"localhost:{port}", timeout=60, options=trusted) as client:
            assert client.info().version == "9.9"
        stranger = replace(trusted, credentials=grpc.ssl_channel_credentials())
        with Client(f"localhost:{port}", timeout=60, options=stranger) as client, pytest.raises(Unavailable):
            client.info()
        with (
            Client(f"localhost:{port}", timeout=60, options=ClientOptions(retry=ONCE)) as client,
            pytest.raises(Unavailable),
        ):
            client.info()


@pytest.mark.seeded("gRPC repeats calls that the SDK repeats, too")
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_call_is_tried_as_often_as_is_said(attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append)  # threads of other tests sleep as well
    monkeypatch.setattr("psoup_client.channel.threads.time", clock)
    retry = RetryOptions(attempts=attempts, first_pause_seconds=0.01, longest_pause_seconds=0.015)
    tried = Servicer(failures=1_000)
    with (
        server(tried) as port,
        Client(f"127.0.0.1:{port}", timeout=60, options=ClientOptions(retry=retry)) as client,
        pytest.raises(Unavailable),
    ):
        client.info()
    assert tried.calls == attempts  # one layer: gRPC repeats none
    assert slept == [0.01, 0.015][: attempts - 1]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_call_ends_with_the_attempt_that_succeeds(code: grpc.StatusCode) -> None:
    """CANCELLED is what a call may see of a service that ends, or has more calls than gRPC holds for it."""
    retry = RetryOptions(attempts=4, first_pause_seconds=0.01)
    tried = Servicer(failures=2, code=code)
    with server(tried) as port, Client(f"127.0.0.1:{port}", timeout=60, options=ClientOptions(retry=retry)) as client:
        assert client.info().version == "9.9"
    assert tried.calls == 3


@pytest.mark.parametrize(
    ("attempts", "restart_seconds", "calls"), [(2, 10.0, 7), (2, 0.0, 2), (4, 0.0, 4), (1, 10.0, 1)]
)
def test_a_service_that_was_there_is_waited_for(attempts: int, restart_seconds: float, calls: int) -> None:
    """Longer than one that never answered; but what is tried once is tried once."""
    retry = RetryOptions(
        attempts=attempts,
        restart_seconds=restart_seconds,
        first_pause_seconds=0.01,
        longest_pause_seconds=0.01,
    )
    tried = Servicer(failures=0)
    with server(tried) as port, Client(f"127.0.0.1:{port}", timeout=60, options=ClientOptions(retry=retry)) as client:
        assert client.info().version == "9.9"
        tried.calls, tried.failures = 0, 6
        with suppress(Unavailable):
            client.info()
    assert tried.calls == calls


@pytest.mark.parametrize(
    ("given", "completed"),
    [
        ("localhost", "localhost:7433"),
        ("a-host.example", "a-host.example:7433"),
        ("[::1]", "[::1]:7433"),
        *((as_is, as_is) for as_is in ("10.0.0.1:7", "[fe80::1%eth0]:7433", "dns:///a:1", "ipv6:[::1]:9", "unix:/a/b")),
    ],
)
def test_an_address_without_a_port_has_that_of_a_service(given: str, completed: str) -> None:
    with Client(given) as client:
        assert (client.address, repr(client)) == (completed, f"<Client of {completed}>")


@pytest.mark.parametrize(
    "wrong",
    ["7433", "http://localhost:7433", "localhost:99999", "localhost:0", "a:b", "::1", "a b", "host:7433/x", ":7"],
)
def test_what_is_no_address_is_refused_before_anything_is_sent(wrong: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"{wrong!r} is not an address: write HOST:PORT, such as '127.0.0.1")
    ):
        Client(wrong)
    with pytest.raises(TypeError, match=r"the address is 7433: write it as text, such as '127\.0\.0\.1:7433'"):
        Client(7433)  # type: ignore[arg-type]


def test_a_producer_has_the_patience_of_its_client(running: Serving) -> None:
    options = ClientOptions(retry=RetryOptions(patience_seconds=0.0))
    problem = Unavailable("away")
    with Client(running.address, timeout=60, options=options) as client:
        client.create_stream("CREATE STREAM patient (a BIGINT)")
        with client.producer("patient") as producer, pytest.raises(Unavailable):
            producer._patience.next(problem)
        with client.producer("patient", retry_seconds=5.0) as producer:
            assert producer._patience.next(problem) == 0.1


def test_pauses_double_up_to_the_longest() -> None:
    patience = Patience(60.0, RetryOptions(first_pause_seconds=0.5, longest_pause_seconds=1.5))
    problem = Unavailable("away")
    assert [patience.next(problem) for _ in range(4)] == [0.5, 1.0, 1.5, 1.5]
    patience.reset()
    assert patience.next(problem) == 0.5
    assert patience.next(Unavailable("away", retry_after=7.0)) == 7.0
    assert patience.next(Unavailable("away", retry_after=100.0)) == 100.0
    strict = Patience(60.0, strict=True)
    assert 59 < strict.next(Unavailable("away", retry_after=100.0)) < 60.001  # a difference of two times is rounded


def test_without_options_calls_are_repeated_as_ever() -> None:
    assert (RetryOptions().attempts, RetryOptions().restart_seconds) == (3, 10.0)
    arguments = dict(channel_options(ClientOptions()))
    assert "grpc.service_config" not in arguments  # gRPC would repeat, too
    assert (arguments["grpc.initial_reconnect_backoff_ms"], arguments["grpc.max_reconnect_backoff_ms"]) == (100, 2_000)


@pytest.mark.seeded("F24: a client asks an overloaded service twelve times, or by way of a proxy")
@pytest.mark.seeded("failures take no token")
def test_a_service_that_refuses_most_calls_is_not_asked_again_by_each() -> None:
    """F24: with two layers it was asked six times by each call."""
    retry = RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.01, restart_seconds=0)
    tried = Servicer(failures=1_000)
    with server(tried) as port, Client(f"127.0.0.1:{port}", timeout=60, options=ClientOptions(retry=retry)) as client:
        for _ in range(50):
            with pytest.raises(Unavailable):
                client.info()
        assert 50 < tried.calls <= 50 + 5
        tried.failures = 0
        for _ in range(20):
            assert client.info().version == "9.9"
        tried.calls, tried.failures = 0, 2
        assert client.info().version == "9.9"  # and it is repeated again, once others succeed


@pytest.mark.seeded("F24: a client asks an overloaded service twelve times, or by way of a proxy")
@pytest.mark.seeded("a proxy of the environment is used")
def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy, server(Servicer()) as port:
        proxy.settimeout(0.2)
        for name in ("http_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with Client(f"localhost:{port}", timeout=60) as client:
            assert client.info().version == "9.9"
        with pytest.raises(TimeoutError):
            proxy.accept()


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"first_pause_seconds": 0.001},
        {"first_pause_seconds": 3.0},
        {"longest_pause_seconds": float("nan")},
        {"patience_seconds": -1.0},
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        RetryOptions(**wrong)


def test_options_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        ClientOptions().credentials = None  # type: ignore[misc]


@pytest.mark.parametrize("name", ["attempts", "first_pause_seconds", "patience_seconds"])
@pytest.mark.parametrize("value", ["3", None, True])
def test_what_is_not_a_number_is_named(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} is {value!r}: give a"):
        RetryOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attempts": 1.5}, "attempts is 1.5: give a whole number"),
        ({"attempts": 10**9}, "attempts is 1000000000: the first attempt counts, give 1 to 10,000"),
        ({"longest_pause_seconds": math.inf}, "the pauses are 0.1 s to inf s: give 0.01 or more for the first, and"),
        ({"longest_pause_seconds": math.nan}, "the pauses are 0.1 s to nan s"),
    ],
)
def test_numbers_that_grpc_cannot_take_are_refused_at_once(options: dict[str, float], said: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        RetryOptions(**options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retry": {"attempts": 1}}, "retry is {'attempts': 1}: give RetryOptions(...)"),
        ({"credentials": "a secret"}, "credentials are of the type str: give what grpc.ssl_channel_credentials(...)"),
        ({"interceptors": 5}, "interceptors is 5: give a tuple of interceptors"),
        ({"channel_options": (("a",),)}, "channel_options is (('a',),): give pairs, such as (('grpc.keep"),
        ({"channel_options": ((5, 5),)}, "channel_options is ((5, 5),): give pairs, such as (('grpc.keep"),
    ],
)
def test_options_of_another_type_are_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        ClientOptions(**options)
    assert str(caught.value).startswith(said)


def test_a_timeout_without_an_end_is_no_deadline_that_has_passed(running: Serving) -> None:
    with Client(running.address, timeout=math.inf) as client:
        assert client.info().state == "serving"
        assert client.wait_ready(math.inf).state == "serving"
        client.create_stream("CREATE STREAM endless (a BIGINT)")
        with client.producer("endless") as producer:
            producer.push({"a": [1]}, timeout=1e300)
            assert producer.flush(math.inf).accepted == 1
        assert len(client.register("SELECT a FROM endless").stream(timeout=math.inf).read_all()) == 1


@pytest.mark.parametrize(("timeout", "said"), [(math.nan, "timeout is nan: give"), ("5", "timeout is '5': give a")])
def test_a_timeout_that_is_not_a_number_is_refused(running: Serving, timeout: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Client(running.address, timeout=timeout)
    with Client(running.address) as client, pytest.raises((TypeError, ValueError), match=said):
        client.wait_for(0, timeout=timeout)


def test_an_address_is_text() -> None:
    with pytest.raises(TypeError, match="the address is 7433: write it as text"):
        Client(7433)  # type: ignore[arg-type]


def test_a_deadline_that_ends_among_repetitions_says_that_nothing_answered(tmp_path: Path) -> None:
    with Client(f"unix:{tmp_path}/none", timeout=1) as client, pytest.raises((DeadlineExceeded, Unavailable)) as caught:
        client.info()
    assert "no PSoup service answers at unix:" in str(caught.value)
    assert "allow more time" not in str(caught.value)
