"""A Unix socket for clients of PostgreSQL: where they look for it, its permissions, and its end."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from psoup.errors import InvalidInput
from psoup_client import Client, ClientOptions
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_storage import DurableStore
from psoup_testing.pg.script import pg_address
from psoup_testing.services.authority import Authority
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import serving


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ps") as name:
        yield Path(name)


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which nothing listens, for the clients of a socket."""
    with KeptPort() as kept_port:
        yield kept_port.number


def refused(settings: Settings, why: str) -> None:
    with pytest.raises(InvalidInput, match=why), serving(settings):
        pass


def test_clients_connect_by_the_directory_and_the_port(folder: Path) -> None:
    with serving(Settings(port=0, pg_port=0, pg_socket=str(folder))) as running:
        port = pg_address(running).rpartition(":")[2]
        path = folder / f".s.PGSQL.{port}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert running.service.pg is not None
        assert running.service.pg.socket_folder == str(folder)
        with psycopg.connect(f"host={folder} port={port} user=x dbname=d", autocommit=True) as connection:
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
            connection.cancel_safe()
        with psycopg.connect(f"host=127.0.0.1 port={port} user=x dbname=d") as connection:
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
        refused(Settings(port=0, pg_port=int(port), pg_socket=str(folder)), "cannot be listened on")
        assert path.exists()
        psql = shutil.which("psql")
        if psql is not None:
            shown = subprocess.run(
                [psql, "-h", str(folder), "-p", port, "-U", "x", "-Atc", "SHOW TimeZone", "d"],
                capture_output=True,
                timeout=60,
                check=True,
            )
            assert shown.stdout == b"UTC\n"
    assert list(folder.iterdir()) == []


def test_a_socket_that_a_killed_service_left_is_replaced_and_one_in_use_is_not(folder: Path, port: int) -> None:
    path = folder / f".s.PGSQL.{port}"
    settings = Settings(port=0, pg_port=port, pg_socket=str(folder), socket_mode="0660")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
        refused(settings, f"the socket {path} cannot be listened on: another service is there.*--pg-socket")
    with serving(settings):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    path.write_text("not a socket")
    refused(settings, "something that is not a socket is there")
    assert path.read_text() == "not a socket"
    path.unlink()
    os.chmod(folder, 0o777)
    refused(settings, "everybody may write in its folder")
    refused(Settings(port=0, pg_port=0, pg_socket=str(folder / "no")), "its folder cannot be looked into")
    refused(Settings(port=0, pg_port=0, pg_socket=str(folder / ("long" * 30))), "more than 107 bytes")


def test_the_setting_needs_the_port() -> None:
    with pytest.raises(InvalidInput, match=r"pg_socket.*give pg_port too"):
        load({"pg_socket": "/run"}, environ={})


def test_a_token_comes_as_a_password_in_plain_text(folder: Path) -> None:
    certificate, key = Authority(folder).issue("service")
    tls = {"tls_cert": str(certificate), "tls_key": str(key), "listen": ("127.0.0.1:0", "https://127.0.0.1:0")}
    settings = Settings(web_port=-1, pg_port=0, pg_socket=str(folder), **tls)  # type: ignore[arg-type]
    with serving(settings, store=DurableStore(folder / "data", reserve_bytes=0)) as running:
        with Client(running.address) as client:
            token = client.issue_token("ann", ["owner", "operator"], first=True).secret
        with Client(running.address, options=ClientOptions(token=token)) as client:
            client.create_stream("CREATE STREAM trades (n INT)")
        place = f"host={folder} port={pg_address(running).rpartition(':')[2]} user=x dbname=d"
        with psycopg.connect(place, password=token) as connection:
            assert connection.execute("SELECT n FROM trades").fetchall() == []
        with pytest.raises(psycopg.OperationalError, match="the access token is not valid here"):
            psycopg.connect(place, password="psoup_wrong")
