"""A service on a Unix socket: its permissions, a leftover socket, and the removal at the end."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup.errors import InvalidInput
from psoup_client import Client, Unavailable
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.sweeps import swept


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="ps") as name:
        yield Path(name)


def refused(path: Path | str, why: str) -> InvalidInput:
    with pytest.raises(InvalidInput, match=why) as caught, serving(Settings(socket=str(path))):
        pass
    return caught.value


@pytest.mark.seeded("F25: anybody of the machine may listen on the port first")
@pytest.mark.parametrize("name", swept(["s.sock", "with space %41 and é.sock"], fast=1))
def test_it_serves_on_its_socket_alone(folder: Path, name: str) -> None:
    path = folder / name
    with serving(Settings(socket=str(path))) as service:
        assert service.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for address in (f"unix:{path}", f"unix://{path}"):
            with Client(address, timeout=60) as client:
                client.create_stream(f"CREATE STREAM s{address.count('/')} (x BIGINT)")
                assert client.push(f"s{address.count('/')}", {"x": [1, 2]}).accepted == 2
    assert not path.exists()
    with Client(f"unix:{path}", timeout=10) as client, pytest.raises(Unavailable, match=f"answers at unix:{folder}"):
        client.streams()


def test_its_permissions_can_be_set(folder: Path) -> None:
    with serving(Settings(socket=str(folder / "s"), socket_mode="0660")):
        assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o660
    for mode in ("600x", "0o600", "1777", "9"):
        with pytest.raises(InvalidInput, match="socket_mode"):
            load({"socket_mode": mode}, environ={})


def test_a_socket_that_a_killed_service_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "s"))
    with serving(Settings(socket=str(folder / "s"))) as service, Client(service.address, timeout=60) as client:
        assert client.streams() == []


def test_a_socket_that_is_in_use_is_left_alone(folder: Path) -> None:
    with serving(Settings(socket=str(folder / "s"))) as service:
        assert refused(folder / "s", "another service is there").reason == "ADDRESS_IN_USE"
        with Client(service.address, timeout=60) as client:
            assert client.streams() == []


def test_what_is_not_a_socket_is_left_alone(folder: Path) -> None:
    (folder / "s").write_text("precious")
    refused(folder / "s", "not a socket is there")
    (folder / "link").symlink_to(folder / "nowhere")
    refused(folder / "link", "not a socket is there")
    assert (folder / "s").read_text() == "precious"


def test_paths_that_will_not_do(folder: Path) -> None:
    refused(folder / "none" / "s", "make it first")
    refused(folder / ("s" * 108), "more than 107 bytes")
    (folder / "file").write_text("")
    refused(folder / "file" / "s", "folder")
    open_to_all = folder / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    refused(open_to_all / "s", "chmod o-w")
    open_to_all.chmod(0o1777)  # as /tmp
    with serving(Settings(socket=str(open_to_all / "s"))):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_must_not_be_written(folder: Path) -> None:
    folder.chmod(0o500)
    refused(folder / "s", "may you write in its folder")


@pytest.mark.parametrize("address", ["unix:", "unix:" + "a" * 108, "unix:a\0b"])
def test_addresses_that_no_socket_has(address: str) -> None:
    with pytest.raises(ValueError, match="not the address of a Unix socket"):
        Client(address)
