"""Messages to the service manager: ready once calls are served, alive while the writer makes progress, stopping."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2

from psoup_cli.main import main
from psoup_client import Client, Unavailable
from psoup_service.process.service_manager import ServiceManager, WriterProgress
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote


@contextmanager
def manager_socket(path: str) -> Iterator[socket.socket]:
    """The socket of a service manager. A path that begins with @ is abstract."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind("\0" + path[1:] if path.startswith("@") else path)
        made.settimeout(60)
        yield made


def until(manager: socket.socket, wanted: str) -> list[str]:
    """The messages up to one that has a line."""
    seen = list[str]()
    while not seen or wanted not in seen[-1].splitlines():
        seen.append(manager.recv(4_096).decode())
    return seen


@pytest.mark.seeded("the service manager is told that the service is ready before it serves")
@pytest.mark.long
def test_a_service_tells_its_manager_that_it_serves_lives_and_stops(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with manager_socket(path) as manager, Zygote(NOTIFY_SOCKET=path, WATCHDOG_USEC="400000") as zygote:
        zygote.start(str(tmp_path / "data"))
        (first,) = until(manager, "READY=1")
        address = zygote.ready()
        assert f"STATUS=serving at {address}" in first.splitlines()
        with Client(address) as client:
            client.check_ready()
        assert until(manager, "WATCHDOG=1") == ["WATCHDOG=1"]
        assert until(manager, "WATCHDOG=1") == ["WATCHDOG=1"], "again and again"
        os.kill(zygote.pid, signal.SIGTERM)
        assert "STATUS=draining" in until(manager, "STOPPING=1")[-1]
        assert zygote.died() == 0


class Host:
    """The counters of a host whose writer is moved by hand."""

    def __init__(self) -> None:
        self.counters = {"sequence": 5, "applied": 5, "installed": 0}

    def look(self) -> dict[str, int]:
        return dict(self.counters)


@pytest.mark.seeded("the watchdog is fed while the writer hangs")
def test_a_writer_that_hangs_is_no_progress() -> None:
    host = Host()
    writer = WriterProgress(host.look)
    assert writer.look() and writer.look(), "nothing waits"
    host.counters["sequence"] = 9
    assert not writer.look(), "four events wait, and none was applied since"
    host.counters["installed"] = 1
    assert writer.look()
    assert not writer.look()
    host.counters["applied"] = 8
    assert writer.look()
    assert not writer.look()
    host.counters["applied"] = 9
    assert writer.look() and writer.look()


def test_the_watchdog_is_not_fed_while_the_writer_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host, path = Host(), str(tmp_path / "notify")
    host.counters["sequence"] = 9

    async def fed(manager: socket.socket) -> None:
        service_manager = ServiceManager(path, 0.004)
        service_manager.ready("here", host.look)
        await asyncio.to_thread(until, manager, "WATCHDOG=1")  # the first look has nothing to compare with
        while "makes no progress" not in caplog.text:
            await asyncio.sleep(0)
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(4_096)
        manager.settimeout(60)
        host.counters["applied"] = 6
        await asyncio.to_thread(until, manager, "WATCHDOG=1")
        service_manager.close()

    with manager_socket(path) as manager:
        asyncio.run(fed(manager))
    assert caplog.text.count("makes no progress") <= 2, "each time that it begins"


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "1000000"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1500000"}, 1.5),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_the_environment_names_the_manager(environ: dict[str, str], watchdog_s: float) -> None:
    manager = ServiceManager.of(environ)
    assert manager.watchdog_s == watchdog_s
    assert environ == {}, "no process that this one starts speaks for it"


def test_an_abstract_socket_and_one_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    path = f"@psoup-test-{os.getpid()}"
    with manager_socket(path) as manager:
        ServiceManager(path).stopping()
        assert manager.recv(4_096) == b"STOPPING=1\nSTATUS=draining"
    ServiceManager(path).stopping()
    assert "took no message" in caplog.text
    ServiceManager().stopping()


def test_status_ready_tells_by_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def status(address: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["status", "--ready", "--address", address, "--timeout", "60"])
        assert capsys.readouterr().out == ""
        return int(ended.value.code or 0)

    with serving() as service:
        assert status(service.address) == 0
        service.service._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        assert status(service.address) == 3
        with Client(service.address) as client, pytest.raises(Unavailable, match="it starts, drains or has failed"):
            client.check_ready()
    assert status(service.address) == 3
