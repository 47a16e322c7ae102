"""A service without assistants loads nothing of their protocol, and its port has no such path."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from psoup.errors import InvalidInput
from psoup_service.main import announce
from psoup_service.process.extras import check_extras
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import serving

_STARTED = """
import asyncio, sys
from psoup.errors import InvalidInput
from psoup_service.process.settings import Settings
from psoup_service.service import running_service

async def main():
    async with running_service(Settings(port=0, web_port=0)):
        print([name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types") or ".assistants" in name])

asyncio.run(main())
"""


@pytest.mark.long
def test_a_service_without_assistants_loads_nothing_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", _STARTED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_path_is_unknown_without_the_setting() -> None:
    with serving(Settings(port=0, web_port=0)) as running:
        assert running.service.gateway is not None
        connection = http.client.HTTPConnection(urlsplit(running.service.gateway.address).netloc, timeout=60)
        connection.request("POST", "/mcp", b"{}", {"content-type": "application/json"})
        assert connection.getresponse().status in (404, 405)
        connection.close()


def test_a_taken_port_is_an_error_where_assistants_are_wanted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        settings = Settings(port=0, mcp=True, web_port=number)
        with pytest.raises(InvalidInput, match=f"{number}"), serving(settings):
            pass


def test_assistants_need_the_port_of_the_page() -> None:
    with pytest.raises(ValidationError, match="assistants call the port of the page, which is off"):
        Settings(mcp=True, web_port=-1)
    assert Settings(mcp="true").mcp  # type: ignore[arg-type]  # as the environment gives it
    with pytest.raises(ValidationError, match="neither true nor false"):
        Settings(mcp_rows=True)


def test_a_missing_package_is_named_before_the_start() -> None:
    with pytest.raises(InvalidInput, match=r"pip install 'psoup\[server,mcp\]'"):
        check_extras(Settings(mcp=True), lambda name: None)
    check_extras(Settings(), lambda name: None)
    check_extras(Settings(mcp=True))


def test_the_start_prints_the_address_for_assistants(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = SimpleNamespace(address="http://127.0.0.1:7734")
    service = SimpleNamespace(
        addresses=["127.0.0.1:7733"], gateway=gateway, pg=None, metrics_address="",
        store=SimpleNamespace(durable=False), settings=Settings(mcp=True),
    )  # fmt: skip
    announce(service)  # type: ignore[arg-type]
    assert "assistants connect to http://127.0.0.1:7734/mcp\n" in capsys.readouterr().err
