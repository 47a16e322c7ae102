"""The addresses of the service: ports, with or without TLS, and Unix sockets, which the file system guards.

    socket   refused: not a socket, a socket in use, a folder where other users may replace it
             left by a service that was killed: removed
    made with its permissions, never without; removed at the end by gRPC

Without these checks gRPC would replace any socket at the path, even a socket in use.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import grpc

from psoup.errors import InvalidInput
from psoup_service.gate.certificates import Certificates
from psoup_service.gate.client_sockets import BACKLOG
from psoup_service.gate.listeners import TLS, Listener

LONGEST_PATH = 107
"""The most bytes of a Unix socket's path: `sun_path` of Linux without its end."""

_WHY: Mapping[int | None, str] = {
    errno.EADDRNOTAVAIL: "this machine has no such address: choose one of its own, or 0.0.0.0 for all",
    errno.EACCES: "the system does not allow it: ports below 1,024 need a right, choose a higher --port",
}
"""The reasons for which a port cannot be opened, by error number. All other numbers have one common reason."""

_UMASK = threading.Lock()
"""Guards the umask: a process has only one. Tests run several services in threads."""


def listen_on(server: grpc.aio.Server, place: Listener, mode: int, certificates: Certificates | None) -> str:
    """Listen on one place; returns its address, as clients write it. `mode`: permissions of a Unix socket.

    Raises InvalidInput if that is impossible.
    """
    if place.path:
        return _listen_on_socket(server, place.path, mode)
    if not place.tls:
        return _listen_on_port(server, place.host, place.port, None)
    assert certificates is not None, "settings without a certificate have no listener with TLS"
    return TLS + _listen_on_port(server, place.host, place.port, certificates.server_credentials())


def _listen_on_port(server: grpc.aio.Server, host: str, port: int, secured: grpc.ServerCredentials | None) -> str:
    """Listen on a port of `host`; 0 takes a free port.

    Returns "host:port". Raises InvalidInput if that is impossible.
    """
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    try:
        if port:  # gRPC would log the failure itself before it raises
            family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
            socket.create_server((host.strip("[]"), port), family=family).close()
        place = f"{host}:{port}"
        bound = server.add_insecure_port(place) if secured is None else server.add_secure_port(place, secured)
    except (RuntimeError, OSError) as problem:
        code = problem.errno if isinstance(problem, OSError) else None
        why = _WHY.get(code, "is another service there? choose another --port, or 0 for a free one")
        raise InvalidInput(f"{host}:{port} cannot be listened on; {why}", reason="ADDRESS_IN_USE") from problem
    return f"{host}:{bound}"


def _listen_on_socket(server: grpc.aio.Server, name: str, mode: int) -> str:
    """Listen on the Unix socket at the path `name`, made with the permissions `mode`; returns its address.

    Raises InvalidInput, reason ADDRESS_IN_USE if the socket is in use, SETTING for a path that cannot be used.
    """
    setting = "socket"
    path = _usable(name, setting)
    try:
        with _umask(0o777 & ~mode):
            server.add_insecure_port(f"unix:{quote(str(path))}")
    except (RuntimeError, OSError) as problem:
        raise _refused(path, setting, "the system does not allow it; may you write in its folder?") from problem
    return f"unix:{path}"


def opened_unix_socket(name: str, mode: int, setting: str) -> socket.socket:
    """A Unix socket that listens at the path `name`, made with the permissions `mode`.

    `setting`: names the path, for errors. The caller removes the path at the end. Raises InvalidInput.
    """
    path, opened = _usable(name, setting), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _umask(0o777 & ~mode):
            opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError as problem:
        opened.close()
        raise _refused(path, setting, "the system does not allow it; may you write in its folder?") from problem
    opened.setblocking(False)
    return opened


def _usable(name: str, setting: str) -> Path:
    """The path of a socket, which was checked. Removes a socket that is left there. Raises InvalidInput."""
    path = Path(name).absolute()
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise _refused(path, setting, f"its path has more than {LONGEST_PATH} bytes; choose a shorter one")
    _check_folder(path, setting)
    _check_free(path, setting)
    return path


def _check_folder(path: Path, setting: str) -> None:
    try:
        facts = path.parent.stat()
    except OSError as problem:
        raise _refused(
            path, setting, f"its folder cannot be looked into: {problem.strerror}; make it first"
        ) from problem
    if not stat.S_ISDIR(facts.st_mode):
        raise _refused(path, setting, "what should be its folder is not one")
    if facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
        raise _refused(
            path, setting, "everybody may write in its folder, and could put another socket there; chmod o-w it"
        )


def _check_free(path: Path, setting: str) -> None:
    """Remove a socket that is not in use; refuse any other thing at the path."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    except OSError as problem:
        raise _refused(path, setting, problem.strerror or str(problem)) from problem
    if not stat.S_ISSOCK(facts.st_mode):
        raise _refused(path, setting, "something that is not a socket is there; choose another path, or remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            _remove(path, setting)
            return
        except OSError as problem:  # no right to connect, or too many wait: it is in use
            raise _in_use(path, setting) from problem
    raise _in_use(path, setting)


def _remove(path: Path, setting: str) -> None:
    try:
        path.unlink()
    except OSError as problem:
        raise _refused(path, setting, f"a socket is left there and cannot be removed: {problem.strerror}") from problem


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    with _UMASK:
        before = os.umask(mask)
        try:
            yield
        finally:
            os.umask(before)


def _refused(path: Path, setting: str, why: str) -> InvalidInput:
    return InvalidInput(f"the socket {path} cannot be listened on: {why}", reason="SETTING", field=setting)


def _in_use(path: Path, setting: str) -> InvalidInput:
    return InvalidInput(
        f"the socket {path} cannot be listened on: another service is there; choose another"
        f" --{setting.replace('_', '-')}",
        reason="ADDRESS_IN_USE",
    )
