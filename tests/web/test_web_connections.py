"""Connections of pages without a call: idle ones are closed, vanished pages are noticed, and a drain ends them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from psoup_service.process.settings import Settings
from psoup_service.web import gateway as module
from psoup_testing.browser.page_requests import CALL, Page, path_of
from psoup_testing.services.threaded_service import Serving, serving

INFO = "ServerService/GetServerInfo"


@pytest.mark.parametrize("idle_s", [0.2, 600.0])
def test_connections_without_a_call_end_when_idle_or_drained_and_vanished_pages_are_noticed(
    monkeypatch: pytest.MonkeyPatch, idle_s: float
) -> None:
    monkeypatch.setattr(module, "IDLE_S", idle_s)
    with serving(Settings(port=0, web_port=0)) as service:
        gateway = service.service.gateway
        assert gateway is not None

        async def watched(connection: Any) -> tuple[int, int]:
            opened = connection.transport.get_extra_info("socket")
            kept = opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            return kept, opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

        async def drain() -> None:
            gateway.drain()

        page = Page(service.service)
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**CALL, "Content-Length": "2"}.items())
        request = f"POST {path_of(INFO)} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{{}}".encode()
        with page.answered(request) as opened:
            if idle_s > 1:
                (connection,) = gateway._connections.connections
                assert on_loop(service, watched(connection)) == (1, 60_000)
                on_loop(service, drain())
            while opened.recv(65_536):
                pass
            if idle_s > 1:
                with pytest.raises(ConnectionRefusedError), page.raw():
                    pass


def on_loop(service: Serving, work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(work, service._loop).result()
